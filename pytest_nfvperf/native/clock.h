/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A polling thread's view of time. Every look at the TSC is at most one burst's work after the
 * last, so a long gap between two looks means that the thread was not running: preempted,
 * stopped, or its virtual CPU taken away.
 */
#ifndef NFVPERF_CLOCK_H
#define NFVPERF_CLOCK_H

#include <stdint.h>

#include <rte_cycles.h>

struct poll_clock {
	uint64_t last;
	uint64_t gap_limit; /* cycles */
	uint64_t absences; /* gaps above the limit so far */
	uint64_t absent_cycles;
};

static inline uint64_t clock_look(struct poll_clock *clock)
{
	uint64_t now = rte_rdtsc();
	uint64_t gap = now - clock->last;

	if (__builtin_expect(gap > clock->gap_limit, 0)) {
		clock->absences++;
		clock->absent_cycles += gap;
	}
	clock->last = now;
	return now;
}

#endif
