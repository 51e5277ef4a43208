/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's side of a packed virtqueue (VIRTIO 1.1 section 2.7), for one thread. No DPDK.
 *
 * A descriptor keeps its buffer for as long as the ring lives, and buffers lie in the order of
 * memory: a frame is written in place, and only its descriptor changes hands. Four descriptors
 * share a cache line; the device (DPDK's vhost) reads and writes whole lines if it can, and so
 * do we.
 *
 * Positions count up for ever. A position modulo the ring's size is its descriptor, and the bit
 * above that is the inverse of its wrap counter, which begins at 1.
 */
#ifndef NFVPERF_VRING_H
#define NFVPERF_VRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

enum {
	VRING_HEADER = 12,   /* virtio-net's, in front of each frame, when VIRTIO_F_VERSION_1 is negotiated */
	VRING_LINE = 4,	     /* descriptors in a cache line */
	VRING_CHAIN = 1 << 0, /* the frame goes on in the next descriptor: we make none */
	VRING_AVAIL = 1 << 7,
	VRING_USED = 1 << 15,
	VRING_WRITE = 2,     /* the device writes the buffer */
	VRING_NO_EVENTS = 1, /* in an event structure: never notify */
};

struct vring_desc {
	uint64_t address;
	uint32_t length;
	uint16_t id;
	uint16_t flags;
};

/* Whether the other side wants to be notified. Neither of ours ever does: both poll. */
struct vring_event {
	uint16_t where;
	uint16_t flags;
};

struct vring {
	struct vring_desc *desc;   /* shared with the device */
	struct vring_desc *shadow; /* ours: address, length and id as we write them, flags without those two bits */
	struct vring_event *driver, *device;
	uint8_t *frames;  /* of descriptor 0, behind its header */
	uint32_t size;	  /* descriptors, a power of 2 */
	uint32_t stride;  /* bytes between two frames */
	uint32_t room;	  /* bytes of the longest frame */
	uint64_t next;	  /* to be handed to the device (transmit), to be read (receive) */
	uint64_t pending; /* transmit: the first that the device has not given back */
	uint64_t looked;  /* receive: TSC at which the head was last looked at */
	bool in_order;	  /* VIRTIO_F_IN_ORDER: one used descriptor stands for all before it */
	bool broken;	  /* the device gave back what it never had, or wrote more than there is room for */
};

static inline uint8_t *vring_frame(const struct vring *ring, uint64_t position)
{
	return ring->frames + (position & (ring->size - 1)) * ring->stride;
}

/* The two flags of a descriptor that the driver makes available at this position. */
static inline uint16_t vring_available(const struct vring *ring, uint64_t position)
{
	return position & ring->size ? VRING_USED : VRING_AVAIL;
}

/* The same of one that the device has used. */
static inline uint16_t vring_used(const struct vring *ring, uint64_t position)
{
	return position & ring->size ? 0 : VRING_USED | VRING_AVAIL;
}

static inline bool vring_is_used(const struct vring *ring, uint64_t position)
{
	/* Acquire: what the device wrote before it gave the descriptor back is seen after this. */
	uint16_t flags = __atomic_load_n(&ring->desc[position & (ring->size - 1)].flags, __ATOMIC_ACQUIRE);

	return (flags & (VRING_USED | VRING_AVAIL)) == vring_used(ring, position);
}

/* Hands one descriptor to the device. */
static inline void vring_give(struct vring *ring, uint64_t position)
{
	uint32_t slot = (uint32_t)(position & (ring->size - 1));
	const struct vring_desc *from = &ring->shadow[slot];
	struct vring_desc *to = &ring->desc[slot];

	to->address = from->address;
	to->length = from->length;
	to->id = from->id;
	__atomic_store_n(&to->flags, (uint16_t)(from->flags | vring_available(ring, position)), __ATOMIC_RELEASE);
}

/*
 * Hands the four descriptors of a line to the device, with as few stores as the processor needs: a
 * device that polls the line then sees all of them at once, instead of taking the first alone. A
 * store of 16 aligned bytes is never seen in part by processors with AVX, so no descriptor's flags
 * come before its address. x86 keeps stores in order, behind those to the frames; the compiler must, too.
 */
static inline void vring_give_line(struct vring *ring, uint64_t position)
{
#if defined(__AVX512F__) || defined(__AVX2__)
	uint32_t slot = (uint32_t)(position & (ring->size - 1));
	long long flags = (long long)((uint64_t)vring_available(ring, position) << 48);
#endif

#if defined(__AVX512F__)
	__m512i line = _mm512_load_si512(&ring->shadow[slot]);

	__asm__ volatile("" ::: "memory");
	_mm512_store_si512(&ring->desc[slot], _mm512_mask_or_epi64(line, 0xaa, line, _mm512_set1_epi64(flags)));
	__asm__ volatile("" ::: "memory");
#elif defined(__AVX2__)
	__m256i set = _mm256_set_epi64x(flags, 0, flags, 0);
	__m256i low = _mm256_load_si256((const __m256i *)&ring->shadow[slot]);
	__m256i high = _mm256_load_si256((const __m256i *)&ring->shadow[slot + 2]);

	__asm__ volatile("" ::: "memory");
	_mm256_store_si256((__m256i *)&ring->desc[slot], _mm256_or_si256(low, set));
	_mm256_store_si256((__m256i *)&ring->desc[slot + 2], _mm256_or_si256(high, set));
	__asm__ volatile("" ::: "memory");
#else
	for (uint64_t at = position; at < position + VRING_LINE; at++)
		vring_give(ring, at);
#endif
}

/* Has the device used all four descriptors of the line that begins at this position? */
static inline bool vring_line_is_used(const struct vring *ring, uint64_t position)
{
#if defined(__AVX512F__)
	const __m512i bits = _mm512_set1_epi64((long long)((uint64_t)(VRING_USED | VRING_AVAIL) << 48));
	__m512i line = _mm512_load_si512(&ring->desc[position & (ring->size - 1)]);
	__m512i want = _mm512_set1_epi64((long long)((uint64_t)vring_used(ring, position) << 48));
	bool used = _mm512_mask_cmpeq_epi64_mask(0xaa, _mm512_and_si512(line, bits), want) == 0xaa;

	__asm__ volatile("" ::: "memory");
	return used;
#else
	/* From the last to the first: while the device works on the line, one look settles it. */
	for (int at = VRING_LINE - 1; at >= 0; at--)
		if (!vring_is_used(ring, position + (uint64_t)at))
			return false;
	return true;
#endif
}

/* ---- transmit */

/* Learns what the device has given back; returns how many frames have room. */
static inline uint32_t vring_tx_room(struct vring *ring)
{
	uint32_t mask = ring->size - 1;

	while (ring->pending < ring->next && vring_is_used(ring, ring->pending)) {
		/* In order, the id is that of the last of all that were used together; else its own. */
		uint32_t id = ring->desc[ring->pending & mask].id;
		uint64_t used = ((id - (uint32_t)(ring->pending & mask)) & mask) + 1;

		if (id > mask || used > ring->next - ring->pending || (used != 1 && !ring->in_order)) {
			ring->broken = true;
			break;
		}
		ring->pending += used;
	}
	return ring->size - (uint32_t)(ring->next - ring->pending);
}

/* Sets how long the frame is that stands at this position and is handed over next. */
static inline void vring_tx_length(struct vring *ring, uint64_t position, uint32_t bytes)
{
	ring->shadow[position & (ring->size - 1)].length = bytes + VRING_HEADER;
}

/* Hands the next `count` frames to the device, which have room and are written. */
static inline void vring_tx_publish(struct vring *ring, uint32_t count)
{
	uint64_t end = ring->next + count;

	while (ring->next < end) {
		if (ring->next % VRING_LINE == 0 && end - ring->next >= VRING_LINE) {
			vring_give_line(ring, ring->next);
			ring->next += VRING_LINE;
		} else {
			vring_give(ring, ring->next++);
		}
	}
}

/* Fetches the descriptors and frames that are about to be written, to write them. */
static inline void vring_tx_prefetch(const struct vring *ring, uint32_t count)
{
	for (uint32_t at = 0; at < count; at++)
		__builtin_prefetch(vring_frame(ring, ring->next + at), 1, 3);
	for (uint32_t at = 0; at < count; at += VRING_LINE)
		__builtin_prefetch(&ring->desc[(ring->next + at) & (ring->size - 1)], 1, 3);
}

/* ---- receive */

/* Bytes of the received frame at this position. */
static inline uint32_t vring_rx_length(const struct vring *ring, uint64_t position)
{
	uint32_t length = ring->desc[position & (ring->size - 1)].length;

	return length > VRING_HEADER ? length - VRING_HEADER : 0;
}

/* Fetches what is read of each frame: all of short ones, the head of the others. */
static inline void vring_rx_prefetch(const struct vring *ring, uint64_t position)
{
	const uint8_t *frame = vring_frame(ring, position);

	__builtin_prefetch(frame, 0, 3);
	if (vring_rx_length(ring, position) > 64)
		__builtin_prefetch(frame + 64, 0, 3);
}

/*
 * How many frames wait, at most `most`. The head is left alone while a burst is not complete and
 * `patience` (cycles) has not passed since the last look: each look takes the line from the device
 * that is about to write it (seen with OVS 3.1: 6 % of its forwarding rate).
 */
static inline uint32_t vring_rx_wait(struct vring *ring, uint32_t most, uint64_t now, uint64_t patience)
{
	uint32_t count = 0;

	if (!vring_is_used(ring, ring->next + most - 1) && now - ring->looked < patience)
		return 0;
	ring->looked = now;
	while (count < most) {
		uint64_t at = ring->next + count;

		if (at % VRING_LINE == 0 && most - count >= VRING_LINE && vring_line_is_used(ring, at)) {
			for (unsigned int frame = 0; frame < VRING_LINE; frame++)
				vring_rx_prefetch(ring, at + frame);
			count += VRING_LINE;
		} else if (vring_is_used(ring, at)) {
			count++;
		} else {
			break;
		}
	}
	return count;
}

/* Gives the next `count` frames' buffers back to the device, line by line: it writes lines as well. */
static inline void vring_rx_release(struct vring *ring, uint32_t count)
{
	uint64_t line = ring->next / VRING_LINE * VRING_LINE;

	ring->next += count;
	for (; line + VRING_LINE <= ring->next; line += VRING_LINE)
		vring_give_line(ring, line + ring->size);
}

#endif
