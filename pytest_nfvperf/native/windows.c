/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_common.h>

#include "windows.h"

enum {
	START_LOOK_NS = 100000,
	UNTOLD_NS = 150000, /* a thread may sleep so long in a window without being looked at closer */
};

bool windows_plan(struct engine *engine)
{
	const struct run *run = &engine->run;

	for (unsigned int at = 0; at < engine->worker_count; at++) {
		struct window_log *log = &engine->workers[at].windows;

		*log = (struct window_log){.length = run->window};
		if (run->window == 0)
			continue;
		log->room = run->window_room;
		log->kept = calloc(log->room, sizeof(*log->kept));
		if (log->kept == NULL)
			return false;
	}
	return true;
}

void windows_free(struct engine *engine)
{
	for (unsigned int at = 0; at < engine->worker_count; at++) {
		free(engine->workers[at].windows.kept);
		engine->workers[at].windows = (struct window_log){0};
	}
}

static void count_streams(const struct worker *worker, struct window *window)
{
	for (unsigned int at = 0; at < worker->stream_count; at++) {
		const struct stream *stream = worker->streams[at];

		if (stream->opening != stream->id)
			continue;
		window->sent += stream->sent;
		window->refused += stream->refused;
		window->skipped += stream->pacer.skipped_away + stream->pacer.skipped_behind;
	}
}

/* Where a stream ends, and not the copies of it that monitors have; of a conversation the last frames. */
static void count_arrivals(const struct worker *worker, struct window *window)
{
	for (unsigned int at = 0; at < worker->receiver_count; at++)
		for (int id = 0; id < MAX_STREAMS; id++) {
			const struct track *track = worker->receivers[at]->tracks[id];

			if (track != NULL && track->stream->rx == worker->receivers[at] && track->stream->final) {
				window->received += track->window->received;
				window->missing += track->window->next - track->window->received;
			}
		}
}

static bool undisturbed_witness(const struct witness *witness, const struct undisturbed *undisturbed, uint32_t at)
{
	const struct look *look = &witness->kept[at];
	int64_t waited_before = at > 0 ? witness->kept[at - 1].waited_ns : witness->began_ns;

	return !look->stopped && look->late <= undisturbed->most_late && look->speed <= undisturbed->most_speed &&
	       look->asked_late <= undisturbed->most_asked_late && look->asked_speed <= undisturbed->most_speed &&
	       look->waited_ns - waited_before <= (int64_t)undisturbed->most_waited_ns;
}

/* Nothing was amiss in this window and at its end, by this thread and all witnesses. */
static bool undisturbed_end(const struct worker *worker, uint32_t at)
{
	const struct run *run = worker->run;
	const struct window *kept = worker->windows.kept;
	uint64_t before = at > 0 ? kept[at - 1].absent_cycles : 0;

	if (kept[at].absent_cycles - before > run->undisturbed.most_absent ||
	    kept[at].speed > run->undisturbed.most_speed)
		return false;
	for (unsigned int each = 0; each < run->witnesses.count; each++) {
		const struct witness *witness = &run->witnesses.witness[each];

		if (!witness->started)
			continue;
		if (at >= __atomic_load_n(&witness->count, __ATOMIC_ACQUIRE))
			return false;
		if (!undisturbed_witness(witness, &run->undisturbed, at))
			return false;
	}
	return true;
}

/* Of the window before the last but one. Nothing was amiss at both its ends, nor at those of the windows beside it: a
 * disturbance begins before anybody sees it. At the end of the last but one the witnesses have looked by now. */
static void count_refused(struct worker *worker)
{
	struct window_log *log = &worker->windows;
	uint32_t at = log->count - 3;

	if (log->count < 5)
		return;
	for (uint32_t end = at - 2; end <= at + 1; end++)
		if (!undisturbed_end(worker, end))
			return;
	log->refused_undisturbed += log->kept[at].refused - log->kept[at - 1].refused;
}

void window_keep(struct worker *worker, uint64_t now)
{
	struct window_log *log = &worker->windows;
	struct window window = {
		.absent_cycles = worker->clock.absent_cycles,
	};

	count_streams(worker, &window);
	count_arrivals(worker, &window);
	window.speed = RTE_MAX(speed_probe(), log->asked_speed);
	log->asked_speed = 0;
	/* A thread that was away for several windows has the same counts at the end of each. */
	for (; now >= log->next && log->count < log->room; log->next += log->length) {
		window.late = now - log->next;
		log->kept[log->count++] = window;
		count_refused(worker);
	}
	if (log->count == log->room)
		log->next = UINT64_MAX;
}

/* One row: what came in this window. Short, since there are a hundred a second. */
static json_t *report_row(const struct run *run, const struct window *before, const struct window *now)
{
	const struct timebase *base = &run->timebase;

	return json_pack("[I, I, I, I, I, I, I, I]", (json_int_t)cycles_to_ns(base, now->late),
			 (json_int_t)(now->sent - before->sent), (json_int_t)(now->refused - before->refused),
			 (json_int_t)(now->skipped - before->skipped), (json_int_t)(now->received - before->received),
			 (json_int_t)(now->missing - before->missing),
			 (json_int_t)cycles_to_ns(base, now->absent_cycles - before->absent_cycles),
			 (json_int_t)now->speed);
}

json_t *window_report(const struct run *run, const struct worker *worker)
{
	const struct window_log *log = &worker->windows;
	struct window before = {0};
	json_t *rows = json_array();

	for (uint32_t at = 0; at < log->count; at++) {
		json_array_append_new(rows, report_row(run, &before, &log->kept[at]));
		before = log->kept[at];
	}
	return json_pack("{s:I, s:[s, s, s, s, s, s, s, s], s:o}", "window_ns",
			 (json_int_t)cycles_to_ns(&run->timebase, log->length), "columns", "late_ns", "sent", "refused",
			 "skipped", "received", "missing", "absent_ns", "speed", "rows", rows);
}

/* ---- the thread that a witness watches */

/* How the kernel schedules a thread of the DUT. */
struct scheduled {
	uint64_t ran_ns; /* on a CPU, so far */
	uint64_t waited_ns; /* for a CPU while it could run, so far */
};

static int open_of(long long process, long long thread, const char *name)
{
	char path[sizeof("/proc//task//schedstat") + 2 * 20];

	(void)snprintf(path, sizeof(path), "/proc/%lld/task/%lld/%s", process, thread, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Returns false where nothing could be read. */
static bool text_of(int file, char *text, size_t size)
{
	ssize_t length = file < 0 ? 0 : pread(file, text, size - 1, 0);

	if (length <= 0)
		return false;
	text[length] = '\0';
	return true;
}

void watched_open(struct watched *watched, long long process, long long thread)
{
	bool any = process > 0 && thread > 0;

	watched->schedstat = any ? open_of(process, thread, "schedstat") : -1;
	watched->stat = any ? open_of(process, thread, "stat") : -1;
}

/* All 0 where nobody tells. */
static struct scheduled watched_look(const struct watched *watched)
{
	struct scheduled seen = {0};
	char text[64];
	char *rest;

	if (!text_of(watched->schedstat, text, sizeof(text)))
		return seen;
	seen.ran_ns = strtoull(text, &rest, 10);
	seen.waited_ns = strtoull(rest, NULL, 10);
	return seen;
}

/* A signal or a debugger has stopped it. Costs more than a look: ask when it neither ran nor waited. */
static bool watched_stopped(const struct watched *watched)
{
	char text[64]; /* a thread's name has at most 15 characters, and its state follows it */
	const char *name_end;

	if (!text_of(watched->stat, text, sizeof(text)))
		return false;
	name_end = strrchr(text, ')');
	return name_end != NULL && (strncmp(name_end, ") T", 3) == 0 || strncmp(name_end, ") t", 3) == 0);
}

static void watched_close(struct watched *watched)
{
	if (watched->schedstat >= 0)
		(void)close(watched->schedstat);
	if (watched->stat >= 0)
		(void)close(watched->stat);
}

/* ---- witnesses */

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

/* The DUT was started again, and has another thread there: what that has waited so far counts for nothing. */
static struct scheduled watch_next(struct witness *witness)
{
	struct scheduled seen;

	watched_close(&witness->watched);
	witness->watched = witness->next;
	__atomic_store_n(&witness->has_next, false, __ATOMIC_RELEASE);
	seen = watched_look(&witness->watched);
	witness->other_ns = (witness->count > 0 ? witness->kept[witness->count - 1].waited_ns : witness->began_ns) -
			    waited_for_others_ns(&seen);
	return seen;
}

bool witnesses_watch(struct witnesses *witnesses, unsigned int cpu, long long process, long long thread)
{
	for (unsigned int at = 0; at < witnesses->count; at++) {
		struct witness *witness = &witnesses->witness[at];

		if (witness->cpu != cpu || !witness->started || __atomic_load_n(&witness->has_next, __ATOMIC_ACQUIRE))
			continue;
		watched_open(&witness->next, process, thread);
		__atomic_store_n(&witness->has_next, true, __ATOMIC_RELEASE);
		return true;
	}
	return false;
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

		if (unlikely(__atomic_load_n(&witness->has_next, __ATOMIC_ACQUIRE)))
			before = watch_next(witness);
		struct scheduled seen;
		uint64_t now;

		due += run->window;
		sleep_through_window(witness, due, &look);
		now = rte_rdtsc();
		seen = watched_look(&witness->watched);
		look.late = now > due ? now - due : 0;
		look.speed = speed_probe();
		look.waited_ns = waited_for_others_ns(&seen) + witness->other_ns;
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
		if (witness->has_next)
			watched_close(&witness->next);
	}
	if (witnesses->count > 0)
		json_object_set(answer, "witnesses", all);
	json_decref(all);
}
