/* SPDX-License-Identifier: Apache-2.0 */
/* A VNF in the polling loop: testpmd's io, mac and macswap modes between a port and its peer. */
#ifndef NFVPERF_FORWARD_H
#define NFVPERF_FORWARD_H

#include <stdint.h>

#include "port.h"

/* Forwards what lies on a port. Returns frames received. */
uint32_t forward_turn(struct port *port);

#endif
