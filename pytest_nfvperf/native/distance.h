/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far apart two CPUs are: the time that one cache line takes from one to the other and back.
 * On shared rings (vhost-user, memif) every frame makes that way, so the rate depends on it. A host
 * that moves virtual CPUs between L3 domains changes it while a program runs.
 */
#ifndef NFVPERF_DISTANCE_H
#define NFVPERF_DISTANCE_H

#include <stdbool.h>
#include <stdint.h>

enum { DISTANCE_TURNS_MAX = 20000 };

struct distance {
	unsigned int turns; /* played; fewer than asked for when a CPU was not to be had in time */
	uint64_t median; /* cycles of a round trip; 0 without a turn */
	uint64_t low; /* the same, of the fastest tenth */
	uint64_t speed, other_speed; /* of the two CPUs while both compute (cpu.h); 0 without a turn */
	bool preempted; /* the other CPU's thread had a real-time priority, so whoever ran there gave way */
};

/* One rally between this thread, pinned already, and a thread on `cpu`. */
struct rally {
	unsigned int cpu;
	unsigned int turns;
	uint64_t limit; /* cycles until it is given up */
	struct distance result;
	const char *wrong; /* NULL, or why it could not begin */
};

/* The body of a polling thread, for rte_eal_remote_launch(): pings a `struct rally`. */
int distance_main(void *rally);

#endif
