/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "cpu.h"
#include "distance.h"

enum { OWN_LINE = 128 }; /* bytes: two cache lines, since CPUs fetch them in pairs */

/* What both sides see. Each word that is written by one side while the other reads stands alone in its line. */
struct court {
	_Alignas(OWN_LINE) unsigned int ball; /* odd: with the far side, even: with ours; atomic */
	_Alignas(OWN_LINE) bool ready; /* the far side waits for the ball; atomic */
	_Alignas(OWN_LINE) unsigned int turns;
	uint64_t until; /* TSC */
	uint64_t far_speed;
	bool preempts;
};

static bool ball_came(const struct court *court, unsigned int wanted)
{
	while (__atomic_load_n(&court->ball, __ATOMIC_ACQUIRE) != wanted)
		if (__builtin_expect(rte_rdtsc() > court->until, 0))
			return false;
	return true;
}

static void *far_side(void *opaque)
{
	struct court *court = opaque;

	__atomic_store_n(&court->ready, true, __ATOMIC_RELEASE);
	for (unsigned int turn = 0; turn < court->turns; turn++) {
		if (!ball_came(court, 2 * turn + 1))
			return NULL;
		__atomic_store_n(&court->ball, 2 * turn + 2, __ATOMIC_RELEASE);
	}
	/* Both sides compute now, at the same time: on one core neither is as fast as on its own. */
	court->far_speed = speed_probe();
	return NULL;
}

static unsigned int play(struct court *court, uint64_t *took)
{
	unsigned int turn = 0;

	while (!__atomic_load_n(&court->ready, __ATOMIC_ACQUIRE))
		if (rte_rdtsc() > court->until)
			return 0;
	for (; turn < court->turns; turn++) {
		uint64_t began = rte_rdtsc();

		__atomic_store_n(&court->ball, 2 * turn + 1, __ATOMIC_RELEASE);
		if (!ball_came(court, 2 * turn + 2))
			break;
		took[turn] = rte_rdtsc() - began;
	}
	return turn;
}

static int by_size(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

/*
 * A poll-mode thread never leaves its CPU by itself. With a real-time priority from its first
 * instruction on, our thread runs there at once, and no longer than `until`: a millisecond in
 * which nothing is measured.
 */
static int start_far_side(pthread_t *thread, struct court *court, unsigned int cpu)
{
	int error;

	court->preempts = true;
	error = cpu_thread_create(thread, cpu, true, far_side, court);
	if (error != EPERM)
		return error;
	court->preempts = false;
	return cpu_thread_create(thread, cpu, false, far_side, court);
}

static void play_rally(struct rally *rally, struct court *court, uint64_t *took)
{
	struct distance *result = &rally->result;
	pthread_t thread;
	int error = start_far_side(&thread, court, rally->cpu);

	if (error != 0) {
		rally->wrong = strerror(error);
		return;
	}
	result->turns = play(court, took);
	result->speed = speed_probe();
	(void)pthread_join(thread, NULL);
	result->preempted = court->preempts;
	if (result->turns == 0)
		return;
	result->other_speed = court->far_speed;
	qsort(took, result->turns, sizeof(*took), by_size);
	result->median = took[result->turns / 2];
	result->low = took[result->turns / 10];
}

int distance_main(void *opaque)
{
	struct rally *rally = opaque;
	struct court court = {.turns = rally->turns, .until = rte_rdtsc() + rally->limit};
	uint64_t *took = calloc(rally->turns, sizeof(*took));

	if (took == NULL) {
		rally->wrong = "no memory";
		return 0;
	}
	play_rally(rally, &court, took);
	free(took);
	return 0;
}
