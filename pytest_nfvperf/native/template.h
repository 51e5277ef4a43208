/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stream sends: one frame template per size of the mix, the order of the mix, and the
 * fields that make flows. Pure bytes, no DPDK.
 *
 * Transmit buffers are filled once with PATTERN; a template whose tail is that pattern costs
 * only its first cache line(s) per frame, at any frame size.
 */
#ifndef NFVPERF_TEMPLATE_H
#define NFVPERF_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "layout.h"
#include "sizes.h"

enum {
	HEAD_UNIT = 64, /* heads are copied, and frames compared, in whole cache lines */
	MAX_COMPARED = 124, /* frames up to here (128 bytes with FCS) are compared whole, each of them */
};

/* Byte `offset` of every frame behind its signature. */
static inline uint8_t pattern_byte(size_t offset)
{
	return (uint8_t)offset;
}

struct template {
	uint16_t length; /* in memory, without FCS */
	uint16_t copied; /* bytes written per frame; a multiple of HEAD_UNIT */
	/* IPv4: sum of the header's words but source address and checksum. IPv6: of what UDP's checksum is of, as the
	 * words stand in memory, but what differs from frame to frame and the checksum (see frame_seal). */
	uint32_t checksum_base;
	uint16_t udp_length; /* the length field */
	/* Lines in which each received frame is compared, and where the first begins; 0: this frame is too long. */
	uint16_t lines;
	uint16_t compared_from;
	uint8_t same[2 * HEAD_UNIT] __attribute__((aligned(64))); /* of those: 0xff where all frames have the same */
	uint8_t bytes[MAX_FRAME_BYTES + HEAD_UNIT] __attribute__((aligned(64)));
};

struct flows {
	uint32_t count;
	uint32_t addresses; /* flow f has address f % addresses and port f / addresses */
	uint32_t first_address; /* host order; of an IPv6 address the lowest four bytes */
	uint16_t first_port;
};

struct frame_set {
	uint16_t signature; /* offset, the same in every template */
	struct layout layout; /* the same in every template */
	unsigned int templates;
	struct template *template[MAX_TEMPLATES]; /* owned */
	unsigned int order_length;
	uint8_t order[MAX_MIX_ORDER];
	struct flows flows;
};

/* Where in the mix and in the flows the next frame stands. */
struct frame_cursor {
	unsigned int order;
	uint32_t flow;
	uint32_t address;
	uint32_t port;
};

/*
 * Takes a copy of the bytes as the set's next template. NULL when it was taken, else what is
 * wrong with it. The signature's place must have been set.
 */
const char *frame_set_add(struct frame_set *set, const uint8_t *bytes, size_t length);

/* Sets order and flows; NULL, or what is wrong. All templates must have been added. */
const char *frame_set_finish(struct frame_set *set, const uint8_t *order, size_t length, struct flows flows);

void frame_set_free(struct frame_set *set);

/* The most bytes that a frame of the set writes over the pattern of its buffer. */
uint16_t frame_set_copied(const struct frame_set *set);
/* Has each frame write at least so many, where streams with longer heads use the same buffers. */
void frame_set_widen(struct frame_set *set, uint16_t bytes);
/* Has each frame written whole, where other frames may have been in its buffer. */
void frame_set_write_whole(struct frame_set *set);

/* The template of the frame with this sequence number. */
static inline const struct template *frame_set_at(const struct frame_set *set, uint64_t seq)
{
	if (set->order_length == 1)
		return set->template[0];
	return set->template[set->order[seq % set->order_length]];
}

/* Is this, from the innermost IP header on, the frame with this sequence number as it was sent?
 * What is around it, TTL and the IPv4 checksum may differ: switches, routers and tunnels change them. `payload`
 * is where the signature stands in the received bytes. */
bool frame_matches(const struct frame_set *set, uint64_t seq, const uint8_t *bytes, size_t length, size_t payload);

/* Where the frame with this sequence number stands in mix and flows. */
struct frame_cursor frame_cursor_at(const struct frame_set *set, uint64_t seq);

/* Writes what depends on the whole frame, when all else of it is written: UDP's checksum over IPv6. */
void frame_seal(const struct frame_set *set, uint64_t seq, uint8_t *bytes);

/* The IPv4 header checksum field (network order as stored) for this source address. */
static inline uint16_t ipv4_checksum(uint32_t base, uint32_t address)
{
	uint32_t sum = base + (address >> 16) + (address & 0xffff);

	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return __builtin_bswap16((uint16_t)~sum);
}

static inline void flow_write(const struct frame_set *set, const struct template *template, const struct frame_cursor *at,
			      uint8_t *bytes)
{
	const struct layout *layout = &set->layout;
	uint32_t address = set->flows.first_address + at->address;
	uint32_t address_be = __builtin_bswap32(address);
	uint16_t port_be = __builtin_bswap16((uint16_t)(set->flows.first_port + at->port));
	uint8_t *ip = bytes + layout->ip;

	if (__builtin_expect(layout->ipv6, 0)) {
		memcpy(ip + IPV6_SOURCE_OFFSET + 12, &address_be, sizeof(address_be));
	} else {
		uint16_t checksum = ipv4_checksum(template->checksum_base, address);

		memcpy(ip + IPV4_CHECKSUM_OFFSET, &checksum, sizeof(checksum));
		memcpy(ip + IPV4_SOURCE_OFFSET, &address_be, sizeof(address_be));
	}
	memcpy(bytes + layout->udp, &port_be, sizeof(port_be));
	if (__builtin_expect(layout->outer_udp != 0, 0)) {
		/* What RSS spreads by: the flows inside are hidden from it. */
		port_be = __builtin_bswap16((uint16_t)(VXLAN_FIRST_SOURCE_PORT + (at->flow & VXLAN_SOURCE_PORT_MASK)));
		memcpy(bytes + layout->outer_udp, &port_be, sizeof(port_be));
	}
}

/* On to the next frame. */
static inline void frame_next(const struct frame_set *set, struct frame_cursor *at)
{
	if (++at->order == set->order_length)
		at->order = 0;
	if (set->flows.count == 1)
		return;
	if (++at->address == set->flows.addresses) {
		at->address = 0;
		at->port++;
	}
	if (++at->flow == set->flows.count)
		at->flow = at->address = at->port = 0;
}

/* Writes the next frame into a buffer that holds the pattern; returns its template. */
static inline const struct template *frame_write(const struct frame_set *set, struct frame_cursor *at, uint8_t *bytes)
{
	const struct template *template = set->template[set->order[at->order]];

	memcpy(bytes, template->bytes, HEAD_UNIT);
	if (__builtin_expect(template->copied > HEAD_UNIT, 0))
		memcpy(bytes + HEAD_UNIT, template->bytes + HEAD_UNIT, template->copied - HEAD_UNIT);
	if (set->flows.count != 1)
		flow_write(set, template, at, bytes);
	frame_next(set, at);
	return template;
}

/* Whether two lines differ in a byte that the mask has. `sent` may begin anywhere, `mask` with a line. */
static inline bool line_differs(const uint8_t *got, const uint8_t *sent, const uint8_t *mask)
{
#ifdef __AVX512F__
	__m512i different = _mm512_xor_si512(_mm512_loadu_si512(got), _mm512_loadu_si512(sent));

	return _mm512_test_epi64_mask(different, _mm512_load_si512(mask)) != 0;
#else
	uint64_t different = 0;

	for (unsigned int byte = 0; byte < HEAD_UNIT; byte += sizeof(uint64_t)) {
		uint64_t a, b, of;

		memcpy(&a, got + byte, sizeof(a));
		memcpy(&b, sent + byte, sizeof(b));
		memcpy(&of, mask + byte, sizeof(of));
		different |= (a ^ b) & of;
	}
	return different != 0;
#endif
}

/* The checksum that a frame over IPv6 must have, from what differs in it; as stored. */
uint16_t frame_udp6_checksum(const struct frame_set *set, const struct template *template, const uint8_t *bytes);

/*
 * Whether a received frame is, from its innermost IP header on, byte for byte the one that was sent at this place of
 * the mix: a quick look, which says false of some frames that frame_matches() lets pass. `bytes` is where the sent
 * frame would begin: behind a tag that was pushed on the way, and in front of the buffer if one was popped.
 */
static inline bool frame_is_as_sent(const struct frame_set *set, const struct frame_cursor *at, const uint8_t *bytes)
{
	const struct template *template = set->template[set->order[at->order]];
	const uint8_t *got = bytes + template->compared_from, *sent = template->bytes + template->compared_from;
	const uint8_t *ip = bytes + set->layout.ip, *udp = bytes + set->layout.udp;
	uint32_t address = set->flows.first_address + at->address;
	uint16_t port, checksum;
	uint32_t source;

	if (line_differs(got, sent, template->same) ||
	    (template->lines > 1 && line_differs(got + HEAD_UNIT, sent + HEAD_UNIT, template->same + HEAD_UNIT)))
		return false;
	memcpy(&port, udp, sizeof(port));
	memcpy(&source, ip + (set->layout.ipv6 ? IPV6_SOURCE_OFFSET + 12 : IPV4_SOURCE_OFFSET), sizeof(source));
	if (source != __builtin_bswap32(address) ||
	    port != __builtin_bswap16((uint16_t)(set->flows.first_port + at->port)))
		return false;
	if (__builtin_expect(set->layout.ipv6, 0)) {
		memcpy(&checksum, udp + UDP_CHECKSUM_OFFSET, sizeof(checksum));
		return checksum == frame_udp6_checksum(set, template, bytes);
	}
	memcpy(&checksum, ip + IPV4_CHECKSUM_OFFSET, sizeof(checksum));
	return checksum == ipv4_checksum(template->checksum_base, address);
}

#endif
