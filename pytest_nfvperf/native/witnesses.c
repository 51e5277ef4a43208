/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <rte_common.h>

#include "watched.h"
#include "witnesses.h"

enum {
	START_LOOK_NS = 100000,
	UNTOLD_NS = 150000, /* a thread may sleep so long in a window without being looked at closer */
};

static bool stopped(const struct run *run)
{
	return __atomic_load_n(&run->witnesses.stop, __ATOMIC_ACQUIRE);
}

static void sleep_ns(uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Returns the TSC of the start, or 0 when there was none. */
static uint64_t wait_for_start(const struct run *run)
{
	uint64_t start;

	while ((start = __atomic_load_n(&run->start, __ATOMIC_ACQUIRE)) == 0) {
		if (stopped(run))
			return 0;
		sleep_ns(START_LOOK_NS);
	}
	return start;
}

/* Nobody runs a thread that a signal or a debugger has stopped: it neither ran nor waited since the look before. */
static bool kept_stopped(const struct witness *witness, const struct scheduled *before, const struct scheduled *now,
			 uint64_t passed_ns)
{
	uint64_t told_ns = now->ran_ns - before->ran_ns + now->waited_ns - before->waited_ns;

	return now->ran_ns > 0 && told_ns + UNTOLD_NS < passed_ns && watched_stopped(&witness->watched);
}

/* Sleeps until the window's end at `due`, and looks whenever it is asked to. Keeps the worst of those looks. */
static void sleep_through_window(struct witness *witness, uint64_t due, struct look *look)
{
	const struct timebase *base = &witness->run->timebase;
	uint64_t now = rte_rdtsc();
	struct timespec end = monotonic_in(due > now ? cycles_to_ns(base, due - now) : 0);

	while (sem_clockwait(&witness->wanted, CLOCK_MONOTONIC, &end) == 0 || errno == EINTR) {
		uint64_t asked = __atomic_load_n(&witness->asked, __ATOMIC_ACQUIRE);

		if (asked == 0)
			continue;
		look->asked_late = RTE_MAX(look->asked_late, rte_rdtsc() - asked);
		look->asked_speed = RTE_MAX(look->asked_speed, speed_probe());
		__atomic_store_n(&witness->asked, 0, __ATOMIC_RELEASE);
	}
}

static uint64_t cpu_time_ns(void)
{
	struct timespec time = {0};

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Each look takes the watched thread's CPU, and there may be many in a window. Below 0 where none is watched. */
static int64_t waited_for_others_ns(const struct scheduled *seen)
{
	return (int64_t)seen->waited_ns - (int64_t)cpu_time_ns();
}

static void *witness_main(void *opaque)
{
	struct witness *witness = opaque;
	const struct run *run = witness->run;
	uint64_t due = wait_for_start(run);

	if (due == 0)
		return NULL;
	struct scheduled before = watched_look(&witness->watched);
	uint64_t looked = rte_rdtsc();

	witness->began_ns = waited_for_others_ns(&before);
	while (witness->count < witness->room && !stopped(run)) {
		struct look look = {0};
		struct scheduled seen;
		uint64_t now;

		due += run->window;
		sleep_through_window(witness, due, &look);
		now = rte_rdtsc();
		seen = watched_look(&witness->watched);
		look.late = now > due ? now - due : 0;
		look.speed = speed_probe();
		look.waited_ns = waited_for_others_ns(&seen);
		look.stopped = kept_stopped(witness, &before, &seen, cycles_to_ns(&run->timebase, now - looked));
		witness->kept[witness->count] = look;
		before = seen;
		looked = now;
		__atomic_store_n(&witness->count, witness->count + 1, __ATOMIC_RELEASE);
	}
	witness->took_ns = cpu_time_ns();
	return NULL;
}

bool witnesses_start(struct witnesses *witnesses, struct run *run)
{
	for (unsigned int at = 0; at < witnesses->count; at++) {
		struct witness *witness = &witnesses->witness[at];

		witness->run = run;
		witness->room = run->window_room;
		witness->kept = calloc(witness->room, sizeof(*witness->kept));
		if (witness->kept == NULL || sem_init(&witness->wanted, 0, 0) != 0)
			return false;
		if (cpu_thread_create(&witness->thread, witness->cpu, true, witness_main, witness) != 0)
			return false; /* without the right to preempt it would come when the DUT lets it */
		witness->started = true;
	}
	return true;
}

void witnesses_ask(struct witnesses *witnesses, uint64_t now)
{
	for (unsigned int at = 0; at < witnesses->count; at++) {
		struct witness *witness = &witnesses->witness[at];
		uint64_t none = 0;

		if (witness->started && __atomic_compare_exchange_n(&witness->asked, &none, now, false,
								    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			(void)sem_post(&witness->wanted);
	}
}

void witnesses_stop(struct witnesses *witnesses)
{
	__atomic_store_n(&witnesses->stop, true, __ATOMIC_RELEASE);
	for (unsigned int at = 0; at < witnesses->count; at++)
		if (witnesses->witness[at].started)
			(void)pthread_join(witnesses->witness[at].thread, NULL);
}

static json_t *report_witness(const struct run *run, const struct witness *witness)
{
	json_t *rows = json_array();
	int64_t waited_ns = witness->began_ns;

	for (uint32_t at = 0; at < witness->count; at++) {
		const struct look *look = &witness->kept[at];

		json_array_append_new(rows, json_pack("[I, I, I, i, I, I]",
						      (json_int_t)cycles_to_ns(&run->timebase, look->late),
						      (json_int_t)look->speed,
						      (json_int_t)RTE_MAX(look->waited_ns - waited_ns, 0),
						      look->stopped ? 1 : 0,
						      (json_int_t)cycles_to_ns(&run->timebase, look->asked_late),
						      (json_int_t)look->asked_speed));
		waited_ns = look->waited_ns;
	}
	return json_pack("{s:I, s:I, s:[s, s, s, s, s, s], s:o}", "cpu", (json_int_t)witness->cpu, "took_ns",
			 (json_int_t)witness->took_ns, "columns", "late_ns", "speed",
			 "waited_ns", "stopped", "asked_late_ns", "asked_speed", "rows", rows);
}

void witnesses_report(struct run *run, json_t *answer)
{
	struct witnesses *witnesses = &run->witnesses;
	json_t *all = json_array();

	for (unsigned int at = 0; at < witnesses->count; at++) {
		struct witness *witness = &witnesses->witness[at];

		if (witness->started)
			json_array_append_new(all, report_witness(run, witness));
		free(witness->kept);
		witness->kept = NULL;
		if (witness->started)
			(void)sem_destroy(&witness->wanted);
		watched_close(&witness->watched);
	}
	if (witnesses->count > 0)
		json_object_set(answer, "witnesses", all);
	json_decref(all);
}
