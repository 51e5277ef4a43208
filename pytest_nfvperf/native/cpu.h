/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads and the CPUs they are given: whether a polling thread was there, what the kernel says of it, how fast a CPU
 * computes just now, and a thread on a CPU of one's choice.
 */
#ifndef NFVPERF_CPU_H
#define NFVPERF_CPU_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <rte_cycles.h>

/* The clock that other programs of the machine have, too. */
static inline uint64_t monotonic_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The point of time on that clock that is so far away. */
static inline struct timespec monotonic_in(uint64_t ns)
{
	ns += monotonic_ns();
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

/*
 * A polling thread's view of time. Every look at the TSC is at most one burst's work after the
 * last, so a long gap between two looks means that the thread was not running: preempted,
 * stopped, or its virtual CPU taken away.
 */
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

/* What a polling thread can say about the CPU it was given. */
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

/*
 * How fast a CPU computes just now. Two hardware threads share a core's arithmetic units, and a
 * virtual CPU is such a thread: work that keeps those units busy takes half as long again, or
 * more, while the other thread of the core is busy, whoever it belongs to.
 */
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

/*
 * Starts a thread on one CPU, in `real_time` with a priority by which it runs there at once, whoever polls: keep that
 * short. 0, or an error number as of pthread_create(3): EPERM without the right to the priority (sched(7)).
 */
int cpu_thread_create(pthread_t *thread, unsigned int cpu, bool real_time, void *(*body)(void *), void *opaque);

#endif
