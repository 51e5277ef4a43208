/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every test frame carries behind its headers, and where it stands in frames that were received. 14 bytes, so that
 * it fits a 64-byte UDP frame with an 802.1Q tag too. Host byte order: sender and receiver are one process. No DPDK.
 */
#ifndef NFVPERF_SIGNATURE_H
#define NFVPERF_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sizes.h"

#define SIGNATURE_MAGIC 0x664eU
#define SIGNATURE_SAMPLED 0x80U /* in stream: the lateness is filled in, take a latency sample */

struct signature {
	uint16_t magic;
	uint8_t trial;
	uint8_t stream;
	uint32_t seq; /* low half; the receiver's window knows the rest */
	uint32_t scheduled; /* time the frame was due, in time units (struct timebase) */
	uint16_t lateness; /* actual - scheduled, time units, 4-bit exponent and 12-bit mantissa */
} __attribute__((packed));

_Static_assert(sizeof(struct signature) == 14, "must fit the 60 bytes of a tagged minimum frame");

/* Time units: TSC cycles shifted so that 32 bits hold more than the histogram's 10 s. */
struct timebase {
	uint64_t hz;
	unsigned int shift;
	uint64_t ns_per_unit_fp; /* 32.32 fixed point */
};

static inline struct timebase timebase_of(uint64_t hz)
{
	struct timebase base = {.hz = hz};

	while ((hz * 12) >> base.shift > UINT32_MAX)
		base.shift++;
	base.ns_per_unit_fp = (uint64_t)(((__uint128_t)1000000000 << (32 + base.shift)) / hz);
	return base;
}

static inline uint64_t units_to_ns(const struct timebase *base, uint64_t units)
{
	return (uint64_t)((__uint128_t)units * base->ns_per_unit_fp >> 32);
}

static inline uint64_t cycles_to_ns(const struct timebase *base, uint64_t cycles)
{
	return (uint64_t)((__uint128_t)cycles * 1000000000 / base->hz);
}

static inline uint64_t ns_to_cycles(const struct timebase *base, uint64_t ns)
{
	return (uint64_t)((__uint128_t)ns * base->hz / 1000000000);
}

static inline uint16_t lateness_encode(uint64_t units)
{
	unsigned int exponent;

	if (units < 4096)
		return (uint16_t)units;
	exponent = 52U - (unsigned int)__builtin_clzll(units);
	if (exponent > 15)
		return UINT16_MAX;
	return (uint16_t)(exponent << 12 | units >> exponent);
}

static inline uint64_t lateness_decode(uint16_t code)
{
	return (uint64_t)(code & 0xfff) << (code >> 12);
}

/* ---- where they stand */

/*
 * Where signatures stood in the frames of a port; those that streams end on it with come first. Switches push and pop
 * tags, labels and tunnels, and nobody here knows headers: a signature is looked for where others stood, and then
 * everywhere.
 */
struct places {
	uint16_t last; /* the one of the last frame */
	uint16_t count;
	uint16_t next; /* to give way to a new one */
	uint16_t at[MAX_PLACES];
};

/* Remembers one more, unless it is known or all are taken. */
void places_add(struct places *places, uint16_t place);

/* The next place behind `from` at which a signature of this trial stands; 0: there is none. */
size_t place_behind(const uint8_t *bytes, size_t length, uint8_t trial, size_t from);

/* What signature_layout() does where the last frame's place is not this one's. */
size_t place_search(struct places *places, const uint8_t *bytes, size_t length, uint8_t trial);

/* Magic and trial. */
static inline bool signature_begins(const uint8_t *bytes, uint8_t trial)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return (word & 0xffffff) == (SIGNATURE_MAGIC | (uint32_t)trial << 16);
}

/*
 * Where the signature of a frame of this trial stands. Else where one of another trial may stand: there its `trial`
 * differs. 0 when there is none.
 */
static inline size_t signature_layout(struct places *places, const uint8_t *bytes, size_t length, uint8_t trial)
{
	size_t place = places->last;

	if (__builtin_expect(length >= place + sizeof(struct signature), 1) &&
	    __builtin_expect(signature_begins(bytes + place, trial), 1))
		return place;
	return place_search(places, bytes, length, trial);
}

#endif
