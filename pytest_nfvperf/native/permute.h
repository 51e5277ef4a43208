/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed random order in which nothing repeats: a Feistel network over the next even number of bits, applied again
 * while its result is not below the count. model/traffic/frame_program.py has the same: both must give the same numbers.
 */
#ifndef NFVPERF_PERMUTE_H
#define NFVPERF_PERMUTE_H

#include <stdint.h>

/* The first digits of pi, behind the point. */
static const uint32_t permute_rounds[] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};

static inline uint32_t permute_mix(uint32_t value)
{
	value = (value ^ value >> 16) * 0x85ebca6bU;
	value = (value ^ value >> 13) * 0xc2b2ae35U;
	return value ^ value >> 16;
}

/* Half of the bits that the network works on. */
static inline unsigned int permute_half(uint32_t count)
{
	unsigned int bits = count > 1 ? 32U - (unsigned int)__builtin_clz(count - 1) : 0;

	return bits > 2 ? (bits + 1) / 2 : 1;
}

/* The place of `index` in the order of 0..count-1. */
static inline uint32_t permuted(uint32_t index, uint32_t count, uint32_t seed)
{
	unsigned int half = permute_half(count);
	uint32_t mask = (uint32_t)((1ULL << half) - 1);
	uint64_t at = index;

	do {
		uint32_t left = (uint32_t)(at >> half), right = (uint32_t)at & mask;

		for (unsigned int round = 0; round < 4; round++) {
			uint32_t mixed = left ^ (permute_mix(right + permute_rounds[round] + seed * 0x9e3779b1U) & mask);

			left = right;
			right = mixed;
		}
		at = (uint64_t)left << half | right;
	} while (at >= count);
	return (uint32_t)at;
}

#endif
