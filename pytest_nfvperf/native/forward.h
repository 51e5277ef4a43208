/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands frames on between a port and its peer, in the polling loop. A VNF: testpmd's io, mac and macswap modes.
 * A host behind an endpoint: frames of a device of its own (a routing daemon's veth) leave by the endpoint's
 * ring, in which the generator's frames are, and what comes back that is not the generator's goes to it.
 */
#ifndef NFVPERF_FORWARD_H
#define NFVPERF_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "port.h"

/* Forwards what lies on a VNF's port. Returns frames received. */
uint32_t forward_turn(struct port *port);

/* Copies a frame to the host if it is meant for it: of its VLAN, whose tag it loses. */
bool host_take(struct port *host, const uint8_t *bytes, uint16_t length, uint16_t whole);

/*
 * Sends what the host has. `due` and `refused`: of the generator's frames on the endpoint since the trial began,
 * 0 when there is none: of the host's frames the same share is dropped as of those, as in the receive ring of a NIC.
 */
uint32_t host_turn(struct port *host, uint64_t due, uint64_t refused);

#endif
