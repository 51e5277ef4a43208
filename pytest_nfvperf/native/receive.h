/* SPDX-License-Identifier: Apache-2.0 */
/* Receives, tells our frames from others, and counts. */
#ifndef NFVPERF_RECEIVE_H
#define NFVPERF_RECEIVE_H

#include <stdint.h>

#include "cpu.h"
#include "port.h"

/* Polls a port until it is empty, within reason. Returns frames received. */
uint32_t receive_turn(struct port *port, uint8_t trial, struct poll_clock *clock);

/* Takes what lies on a port; the frames of a host behind it go there. Returns the others. */
uint64_t receive_flush(struct port *port);

#endif
