/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "windows.h"

bool window_plan(struct worker *worker, const struct run *run)
{
	struct window_log *log = &worker->windows;

	*log = (struct window_log){.length = run->window, .next = UINT64_MAX};
	if (run->window == 0)
		return true;
	log->room = run->window_room;
	log->kept = calloc(log->room, sizeof(*log->kept));
	return log->kept != NULL;
}

void window_free(struct worker *worker)
{
	free(worker->windows.kept);
	worker->windows = (struct window_log){.next = UINT64_MAX};
}

void window_begin(struct window_log *log, uint64_t start)
{
	log->next = log->kept != NULL ? start + log->length : UINT64_MAX;
}

static void count_streams(const struct worker *worker, struct window *window)
{
	for (unsigned int at = 0; at < worker->stream_count; at++) {
		const struct stream *stream = worker->streams[at];

		window->sent += stream->sent;
		window->refused += stream->refused;
		window->skipped += stream->pacer.skipped_away + stream->pacer.skipped_behind;
	}
}

/* Where a stream ends, and not the copies of it that monitors have. */
static void count_arrivals(const struct worker *worker, struct window *window)
{
	for (unsigned int at = 0; at < worker->receiver_count; at++)
		for (int id = 0; id < MAX_STREAMS; id++) {
			const struct track *track = worker->receivers[at]->tracks[id];

			if (track != NULL && track->stream->rx == worker->receivers[at]) {
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
