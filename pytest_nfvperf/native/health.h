/* SPDX-License-Identifier: Apache-2.0 */
/* What a polling thread can say about the CPU it was given. */
#ifndef NFVPERF_HEALTH_H
#define NFVPERF_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

struct health {
	uint64_t longest_poll_gap; /* cycles */
	uint64_t busy_cycles; /* in loop turns that moved frames */
	uint64_t cycles;
	uint64_t turns;
	uint64_t preemptions; /* involuntary context switches */
	uint64_t run_delay_ns; /* waited for a CPU */
	bool run_delay_known; /* the kernel may lack schedstat */
};

/* Of the calling thread; call before, then after with the same struct: it becomes the difference. */
void health_begin(struct health *health);
void health_end(struct health *health);

#endif
