/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where signatures stand in received frames. Switches push and pop tags, labels and tunnels, and nobody here knows
 * headers: a signature is looked for where others stood, and then everywhere. No DPDK.
 */
#ifndef NFVPERF_PLACES_H
#define NFVPERF_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "signature.h"
#include "sizes.h"

/* Of one port; those that streams end on it with come first. */
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

/* What place_of() does where the last frame's place is not this one's. */
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
static inline size_t place_of(struct places *places, const uint8_t *bytes, size_t length, uint8_t trial)
{
	size_t place = places->last;

	if (__builtin_expect(length >= place + sizeof(struct signature), 1) &&
	    __builtin_expect(signature_begins(bytes + place, trial), 1))
		return place;
	return place_search(places, bytes, length, trial);
}

#endif
