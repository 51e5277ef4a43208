/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of a trial while it runs. The control thread asks; each polling thread copies what it
 * counts itself, between two turns of its loop, and says so. Nothing is written by one thread
 * while another reads it, so that there are neither locks nor torn figures, and a polling thread
 * pays one look at a number every few hundred turns.
 */
#ifndef NFVPERF_INTERVAL_H
#define NFVPERF_INTERVAL_H

#include "run.h"

/* Polling thread: copies its counts and hands out its histograms. */
void interval_tell(struct worker *worker, unsigned int number);

static inline void interval_tell_if_asked(struct worker *worker)
{
	unsigned int asked = __atomic_load_n(&worker->run->asked, __ATOMIC_ACQUIRE);

	if (__builtin_expect(asked != worker->told, 0))
		interval_tell(worker, asked);
}

/* Control thread: asks all polling threads. */
void interval_ask(struct run *run);

/* Control thread: have they all told? Only then may their copies be read, until they are asked again. */
bool interval_told(const struct run *run);

/* Control thread, when the polling threads have ended: what they counted since the last interval. */
void interval_tell_rest(struct run *run);

/* Control thread: adds what was retired to the totals, and makes room for the next interval. */
void interval_keep(struct run *run);

#endif
