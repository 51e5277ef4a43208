/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of vhost-user that a switch has, as DPDK's vhost: connects to a socket and does as it is told; and the
 * device's side of a packed virtqueue, for one thread. For the loop that measures what the rig itself can do, and for
 * tests. No DPDK.
 *
 * The driver is another process: nothing in its memory is believed before it is checked.
 */
#ifndef NFVPERF_VHOST_SWITCH_H
#define NFVPERF_VHOST_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vhost_user.h"
#include "vring.h"

/* A piece of the driver's memory: where it begins by the driver's addresses, and where we see it. */
struct vring_region {
	uint64_t guest;
	uint64_t bytes;
	uint8_t *at;
};

struct vring_device {
	struct vring_desc *desc; /* NULL until the driver has said where */
	uint32_t size;
	uint64_t next;	    /* to be taken from the driver */
	uint64_t given;	    /* to be given back to it: behind `next` while frames are in use */
	const struct vring_region *regions;
	unsigned int region_count;
	bool in_order;
	bool enabled;
	bool broken; /* a descriptor pointed outside of the driver's memory, or was a chain */
};

struct vhost_switch {
	char path[VHOST_MAX_PATH];
	int connection; /* -1: none */
	uint64_t polled; /* TSC of the last vhost_switch_poll(), kept by whoever polls */
	uint64_t offered; /* features; a test may take some away */
	uint64_t features;
	uint64_t protocol;
	uint64_t status;
	struct vring_region region[VHOST_MAX_REGIONS];
	uint64_t user[VHOST_MAX_REGIONS]; /* where each begins in the front-end's process */
	void *mapped[VHOST_MAX_REGIONS];
	size_t mapped_bytes[VHOST_MAX_REGIONS];
	unsigned int region_count;
	struct vring_device ring[2 * VHOST_MAX_QUEUES]; /* even: to the front-end */
};

/* For vhost_switch_poll() to connect. */
void vhost_switch_init(struct vhost_switch *device, const char *path);

/*
 * Connects, if it can, and answers what has come by now. Waits for nothing. Whether the front-end is there and the
 * rings of so many queue pairs are enabled.
 */
bool vhost_switch_poll(struct vhost_switch *device, uint16_t queues);

void vhost_switch_close(struct vhost_switch *device);

/* ---- a ring */

static inline bool vring_device_available(const struct vring_device *ring, uint64_t position)
{
	uint16_t flags = __atomic_load_n(&ring->desc[position & (ring->size - 1)].flags, __ATOMIC_ACQUIRE);
	uint16_t want = position & ring->size ? VRING_USED : VRING_AVAIL;

	return (flags & (VRING_USED | VRING_AVAIL)) == want;
}

/* Where we see so many bytes of the driver's; NULL when they are not all in one region. */
static inline uint8_t *vring_device_memory(const struct vring_device *ring, uint64_t guest, uint64_t bytes)
{
	for (unsigned int index = 0; index < ring->region_count; index++) {
		const struct vring_region *region = &ring->regions[index];
		uint64_t offset = guest - region->guest;

		if (offset < region->bytes && bytes <= region->bytes - offset)
			return region->at + offset;
	}
	return NULL;
}

/* The buffer of the next descriptor, header included; NULL when there is none. `length` becomes its bytes. */
static inline uint8_t *vring_device_take(struct vring_device *ring, uint32_t *length)
{
	const struct vring_desc *desc = &ring->desc[ring->next & (ring->size - 1)];
	uint8_t *at;

	if (ring->next - ring->given >= ring->size || !vring_device_available(ring, ring->next))
		return NULL;
	*length = desc->length;
	at = vring_device_memory(ring, desc->address, *length);
	if (*length < VRING_HEADER || at == NULL || (desc->flags & VRING_CHAIN) != 0) {
		ring->broken = true;
		return NULL;
	}
	ring->next++;
	return at;
}

static inline uint16_t vring_device_flags(const struct vring_device *ring, uint64_t position)
{
	return position & ring->size ? 0 : VRING_USED | VRING_AVAIL;
}

/* Gives the first `count` of the taken buffers back, which the driver wrote: one descriptor for all, if that may be. */
static inline void vring_device_return(struct vring_device *ring, uint32_t count)
{
	uint32_t mask = ring->size - 1;

	if (count == 0)
		return;
	if (ring->in_order) {
		struct vring_desc *first = &ring->desc[ring->given & mask];

		first->id = (uint16_t)((ring->given + count - 1) & mask);
		__atomic_store_n(&first->flags, vring_device_flags(ring, ring->given), __ATOMIC_RELEASE);
		ring->given += count;
		return;
	}
	for (uint32_t at = 0; at < count; at++, ring->given++)
		__atomic_store_n(&ring->desc[ring->given & mask].flags, vring_device_flags(ring, ring->given), __ATOMIC_RELEASE);
}

/* Gives the next of the taken buffers back with so many bytes written into it, header included. */
static inline void vring_device_fill(struct vring_device *ring, uint32_t length)
{
	struct vring_desc *desc = &ring->desc[ring->given & (ring->size - 1)];

	desc->length = length;
	__atomic_store_n(&desc->flags, (uint16_t)(vring_device_flags(ring, ring->given) | VRING_WRITE), __ATOMIC_RELEASE);
	ring->given++;
}

#endif
