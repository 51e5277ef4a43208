/* SPDX-License-Identifier: Apache-2.0 */
/* How many of the frames that are due one burst takes. */
#ifndef NFVPERF_BURST_H
#define NFVPERF_BURST_H

#include <stdint.h>

#include "sizes.h"

enum { LINE_DESCRIPTORS = 4 }; /* of a packed virtqueue, in a cache line of 64 bytes */

/*
 * A burst ends where a line of the ring's descriptors does, if enough frames are due. Both drivers
 * (DPDK's virtio and vhost) write and read whole lines at once, and single descriptors at the ends
 * of a burst that begins elsewhere. A switch that always finds 32 frames keeps the place in its line
 * at which it began, for a whole trial: by chance it then pays for the ends of every burst, or never.
 */
static inline uint16_t burst_of(uint64_t due, uint64_t position)
{
	uint16_t burst = (uint16_t)(due < BURST_FRAMES ? due : BURST_FRAMES);
	uint16_t beyond = (uint16_t)((position + burst) % LINE_DESCRIPTORS);

	return burst > beyond ? (uint16_t)(burst - beyond) : burst;
}

/* How many complete the line in which the next descriptor stands; 0 where it begins one. */
static inline uint64_t lead_of(uint64_t position)
{
	return (LINE_DESCRIPTORS - position % LINE_DESCRIPTORS) % LINE_DESCRIPTORS;
}

#endif
