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

/* When counts are told next. */
struct schedule {
	uint64_t next_ns;
	bool asked;
};

/* Polling thread: copies its counts and hands out its histograms. */
void interval_tell(struct worker *worker, unsigned int number);

/* Control thread: how long to sleep, ms, until the next interval ends, or a moment while polling threads copy. -1: for ever. */
int interval_sleep_ms(const struct run *run, const struct schedule *schedule);

/* Control thread: asks all polling threads when an interval has ended, and reports it when all have told. */
void interval_turn(struct engine *engine, struct schedule *schedule);

/* Control thread, when the polling threads have ended: what they counted since the last interval. */
void interval_end(struct engine *engine);

#endif
