/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of a trial by short windows, such as 10 ms, kept by each polling thread while it runs and
 * told with the answer. The boundaries are a grid from the trial's start, the same for all threads.
 */
#ifndef NFVPERF_WINDOW_H
#define NFVPERF_WINDOW_H

#include <stdint.h>

/* What a thread had counted when it first looked after a boundary. */
struct window {
	uint64_t late; /* cycles from the boundary to that look */
	uint64_t sent;
	uint64_t refused;
	uint64_t skipped;
	uint64_t received;
	uint64_t missing; /* frames sent before one that came, and not come themselves */
	uint64_t absent_cycles;
	uint64_t speed; /* most cycles that the probe took, at its end or when the witnesses were asked (cpu.h) */
};

struct window_log {
	struct window *kept; /* owned; NULL when none were asked for */
	uint32_t count;
	uint32_t room;
	uint64_t length; /* cycles */
	uint64_t next; /* TSC of the next boundary; UINT64_MAX when none is left */
	uint64_t asked_speed; /* cycles that the probe took when the witnesses were asked in this window; 0: they were not */
	uint64_t refused_undisturbed; /* frames, in windows at whose ends nothing was amiss */
};

/* What may be seen at the end of a window in which the machine disturbed nothing. */
struct undisturbed {
	uint64_t most_speed; /* cycles of the probe; 0: nobody told, all windows count */
	uint64_t most_late; /* cycles that a witness comes late */
	uint64_t most_asked_late; /* cycles from a question to a witness's look */
	uint64_t most_absent; /* cycles */
	uint64_t most_waited_ns; /* that a thread of the DUT waited for its CPU */
};

#endif
