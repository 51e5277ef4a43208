/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread on a CPU of the DUT that wakes at the end of each window of a trial, says how late it
 * came and how fast that CPU computes, and sleeps again. What it sees is the machine's doing and
 * not the DUT's: a CPU that was taken away, or a core that somebody else uses, too.
 *
 * Much of that is over before a window is. So a polling thread whose frames pile up before a full
 * ring asks for a look at once: either the DUT is too slow, or its CPU is not there.
 *
 * It has a real-time priority, because a poll-mode thread never leaves its CPU by itself; it takes
 * some microseconds of each window.
 */
#ifndef NFVPERF_WITNESS_H
#define NFVPERF_WITNESS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "sizes.h"
#include "watched.h"

struct run;

struct look {
	uint64_t late; /* cycles from the window's end to the look */
	uint64_t speed; /* cycles that the probe took (cpu.h) */
	int64_t waited_ns; /* that the watched thread has waited for its CPU so far, but for this witness's own looks */
	bool stopped; /* a signal or a debugger keeps the watched thread stopped */
	uint64_t asked_late; /* the most cycles from a question in the window to its look; 0: none was asked */
	uint64_t asked_speed; /* the most cycles that the probe took at such a look */
};

struct witness {
	unsigned int cpu;
	struct watched watched;
	struct run *run;
	pthread_t thread;
	struct look *kept; /* owned */
	uint32_t count; /* atomic */
	uint32_t room;
	int64_t began_ns; /* what waited_ns was at the start */
	uint64_t took_ns; /* CPU time, over the trial: the DUT waited for so long at least */
	sem_t wanted; /* a look is, before the window's end */
	uint64_t asked; /* TSC of that question, 0 when there is none: atomic */
	bool started;
};

struct witnesses {
	struct witness witness[MAX_WITNESSES];
	unsigned int count;
	bool stop; /* atomic */
};

#endif
