/* SPDX-License-Identifier: Apache-2.0 */
/*
 * distance: how far apart two CPUs are, as the time that one cache line takes from one to the other and back.
 * On shared rings (vhost-user, memif) every frame makes that way, so the rate depends on it. A host
 * that moves virtual CPUs between L3 domains changes it while a program runs.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_launch.h>

#include "commands.h"
#include "protocol.h"

enum {
	MOST_TURNS = 20000,
	DEFAULT_TURNS = 1000,
	DEFAULT_LIMIT_NS = 10000000,
	LONGEST_LIMIT_NS = 100000000,
	OWN_LINE = 128, /* bytes: two cache lines, since CPUs fetch them in pairs */
};

/* One rally between a polling thread, pinned already, and a thread on `cpu`. */
struct rally {
	unsigned int cpu;
	unsigned int turns;
	uint64_t limit; /* cycles until it is given up */
	unsigned int played; /* turns; fewer when a CPU was not to be had in time */
	uint64_t median; /* cycles of a round trip; 0 without a turn */
	uint64_t low; /* the same, of the fastest tenth */
	uint64_t speed, other_speed; /* of the two CPUs while both compute (cpu.h); 0 without a turn */
	bool preempted; /* the other CPU's thread had a real-time priority, so whoever ran there gave way */
	const char *wrong; /* NULL, or why it could not begin */
};

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
	pthread_t thread;
	int error = start_far_side(&thread, court, rally->cpu);

	if (error != 0) {
		rally->wrong = strerror(error);
		return;
	}
	rally->played = play(court, took);
	rally->speed = speed_probe();
	(void)pthread_join(thread, NULL);
	rally->preempted = court->preempts;
	if (rally->played == 0)
		return;
	rally->other_speed = court->far_speed;
	qsort(took, rally->played, sizeof(*took), by_size);
	rally->median = took[rally->played / 2];
	rally->low = took[rally->played / 10];
}

/* The body of a polling thread, for rte_eal_remote_launch(): pings a `struct rally`. */
static int distance_main(void *opaque)
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

/* ---- the command */

static json_t *report_distance(const struct engine *engine, const struct worker *worker, const struct rally *rally)
{
	json_t *object = json_object();

	answer_int(object, "worker_cpu", worker->cpu);
	answer_int(object, "cpu", rally->cpu);
	answer_int(object, "turns", rally->played);
	json_object_set_new(object, "preempted", json_boolean(rally->preempted));
	if (rally->played > 0) {
		answer_int(object, "median_ns", cycles_to_ns(&engine->timebase, rally->median));
		answer_int(object, "low_ns", cycles_to_ns(&engine->timebase, rally->low));
		answer_int(object, "speed", rally->speed);
		answer_int(object, "other_speed", rally->other_speed);
	}
	return object;
}

/* Without figures where a polling thread is on that very CPU: there is no way between the two. */
static bool measure_pair(struct engine *engine, struct worker *worker, struct rally rally, json_t *pairs, json_t *answer)
{
	if (worker->cpu == rally.cpu)
		return answer_error(answer, "bad_request", "CPU %u is a polling thread's own", rally.cpu);
	if (rte_eal_remote_launch(distance_main, &rally, worker->lcore) != 0)
		return answer_error(answer, "cannot_run", "a polling thread is still busy");
	(void)rte_eal_wait_lcore(worker->lcore);
	if (rally.wrong != NULL)
		return answer_error(answer, "cannot_run", "no thread on CPU %u: %s", rally.cpu, rally.wrong);
	json_array_append_new(pairs, report_distance(engine, worker, &rally));
	return true;
}

static bool measure_pairs(struct engine *engine, const json_t *cpus, const struct rally *asked, json_t *answer)
{
	json_t *pairs = json_array();
	size_t index;
	json_t *cpu;

	json_object_set_new(answer, "distances", pairs);
	json_array_foreach(cpus, index, cpu) {
		struct rally rally = *asked;

		if (!json_is_integer(cpu) || json_integer_value(cpu) < 0)
			return answer_error(answer, "bad_request", "distance: cpus must be CPU numbers");
		rally.cpu = (unsigned int)json_integer_value(cpu);
		for (unsigned int at = 0; at < engine->worker_count; at++)
			if (!measure_pair(engine, &engine->workers[at], rally, pairs, answer))
				return false;
	}
	return true;
}

bool command_distance(struct engine *engine, json_t *request, json_t *answer)
{
	json_int_t turns = DEFAULT_TURNS, limit_ns = DEFAULT_LIMIT_NS;
	json_error_t error;
	json_t *cpus;

	if (json_unpack_ex(request, &error, JSON_STRICT, "{s:o, s?I, s?I}", "cpus", &cpus, "turns", &turns, "limit_ns",
			   &limit_ns) != 0)
		return answer_error(answer, "bad_request", "distance: %s", error.text);
	if (!json_is_array(cpus) || json_array_size(cpus) == 0)
		return answer_error(answer, "bad_request", "distance: cpus must be a list of CPU numbers");
	if (turns < 10 || turns > MOST_TURNS || limit_ns < 1 || limit_ns > LONGEST_LIMIT_NS)
		return answer_error(answer, "bad_request", "distance: turns must be 10..%d, limit_ns 1..%d",
				    MOST_TURNS, LONGEST_LIMIT_NS);
	return measure_pairs(engine, cpus,
			     &(struct rally){.turns = (unsigned int)turns,
					     .limit = ns_to_cycles(&engine->timebase, (uint64_t)limit_ns)},
			     answer);
}
