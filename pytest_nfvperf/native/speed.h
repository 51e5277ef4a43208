/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a CPU computes just now. Two hardware threads share a core's arithmetic units, and a
 * virtual CPU is such a thread: work that keeps those units busy takes half as long again, or
 * more, while the other thread of the core is busy, whoever it belongs to.
 */
#ifndef NFVPERF_SPEED_H
#define NFVPERF_SPEED_H

#include <stdint.h>

#include <rte_cycles.h>

enum { SPEED_ROUNDS = 1000, SPEED_TRIES = 3 };

/* Independent chains of additions, no memory: some 1,600 cycles on a core of its own. */
static inline uint64_t speed_try(void)
{
	uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
	uint64_t began = rte_rdtsc_precise();

	for (unsigned int round = 0; round < SPEED_ROUNDS; round++) {
		a += 3;
		b += 5;
		c += 7;
		d += 9;
		e ^= a;
		f ^= b;
		c += e;
		d += f;
		/* What the compiler knows nothing of it neither merges nor leaves out. */
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	}
	return rte_rdtsc_precise() - began;
}

/* The best of some tries, since an interrupt spoils one: cycles. */
static inline uint64_t speed_probe(void)
{
	uint64_t best = speed_try();

	for (int at = 1; at < SPEED_TRIES; at++) {
		uint64_t took = speed_try();

		if (took < best)
			best = took;
	}
	return best;
}

#endif
