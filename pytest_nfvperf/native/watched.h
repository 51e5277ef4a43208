/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernel schedules a thread of the DUT: how long it ran and waited, and whether somebody stopped it. */
#ifndef NFVPERF_WATCHED_H
#define NFVPERF_WATCHED_H

#include <stdbool.h>
#include <stdint.h>

/* Files of proc(5) that stay open over a trial; -1: nobody tells. */
struct watched {
	int schedstat; /* /proc/pid/task/tid/schedstat */
	int stat; /* /proc/pid/task/tid/stat */
};

struct scheduled {
	uint64_t ran_ns; /* on a CPU, so far */
	uint64_t waited_ns; /* for a CPU while it could run, so far */
};

/* A process of 0: no thread is watched. */
void watched_open(struct watched *watched, long long process, long long thread);

/* All 0 where nobody tells. */
struct scheduled watched_look(const struct watched *watched);

/* A signal or a debugger has stopped it. Costs more than a look: ask when it neither ran nor waited. */
bool watched_stopped(const struct watched *watched);

void watched_close(struct watched *watched);

#endif
