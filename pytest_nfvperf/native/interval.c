/* SPDX-License-Identifier: Apache-2.0 */
#include "interval.h"
#include "protocol.h"

/* ---- polling threads */

static void tell_departures(struct stream *stream)
{
	stream->departures = (struct departures){
		.sent = stream->sent,
		.refused = stream->refused,
		.skipped_away = stream->pacer.skipped_away,
		.skipped_behind = stream->pacer.skipped_behind,
	};
}

static void tell_arrivals(struct track *track)
{
	const struct seq_window *window = track->window;
	struct hist *full = track->latency;

	track->arrivals = (struct arrivals){
		.received = window->received,
		.highest_seq = window->next,
		.duplicated = window->duplicated,
		.out_of_order = window->out_of_order,
		.corrupted = track->corrupted,
	};
	if (track->retired == NULL)
		return;
	/* Two pointers, and not a copy of 200 KiB, on the polling path. */
	track->latency = track->retired;
	track->retired = full;
}

void interval_tell(struct worker *worker, unsigned int number)
{
	for (unsigned int at = 0; at < worker->stream_count; at++)
		tell_departures(worker->streams[at]);
	for (unsigned int at = 0; at < worker->answer_count; at++)
		tell_departures(worker->answers[at]);
	for (unsigned int at = 0; at < worker->receiver_count; at++)
		for (int id = 0; id < MAX_STREAMS; id++)
			if (worker->receivers[at]->tracks[id] != NULL &&
			    (worker->receivers[at]->leader == NULL || worker->receivers[at]->leader == worker->receivers[at]))
				tell_arrivals(worker->receivers[at]->tracks[id]);
	worker->presence.at = worker->clock.last;
	worker->presence.absences = worker->clock.absences;
	worker->presence.absent_cycles = worker->clock.absent_cycles;
	worker->presence.busy_cycles = worker->health.busy_cycles;
	worker->presence.longest_poll_gap = worker->presence.longest_so_far;
	worker->presence.longest_so_far = 0;
	__atomic_store_n(&worker->told, number, __ATOMIC_RELEASE);
}

/* ---- the control thread */

/* Have all polling threads told? Only then may their copies be read, until they are asked again. */
static bool all_told(const struct run *run)
{
	for (unsigned int at = 0; at < run->worker_count; at++)
		if (__atomic_load_n(&run->workers[at].told, __ATOMIC_ACQUIRE) != run->asked)
			return false;
	return true;
}

/* Adds what was retired to the totals, and makes room for the next interval. */
static void keep(struct run *run)
{
	for (unsigned int at = 0; at < run->stream_count; at++) {
		struct track *track = stream_track(&run->streams[at]);

		if (track->retired == NULL)
			continue;
		hist_merge(track->total, track->retired);
		hist_clear(track->retired);
	}
}

static json_t *told_latency(const struct hist *hist)
{
	static const struct {
		const char *name;
		uint32_t per_100000;
	} percentiles[] = {{"p50_ns", 50000}, {"p90_ns", 90000}, {"p99_ns", 99000}, {"p999_ns", 99900}};
	json_t *object = json_object();

	answer_int(object, "samples", hist->total);
	answer_int(object, "min_ns", hist->total != 0 ? hist->min_ns : 0);
	for (size_t at = 0; at < sizeof(percentiles) / sizeof(percentiles[0]); at++)
		answer_int(object, percentiles[at].name, hist_percentile(hist, percentiles[at].per_100000));
	answer_int(object, "max_ns", hist->max_ns);
	return object;
}

static json_t *told_stream(const struct stream *stream)
{
	const struct track *track = stream_track(stream);
	const struct departures *left = &stream->departures;
	const struct arrivals *came = &track->arrivals;
	json_t *object = json_object();

	answer_int(object, "sent", left->sent);
	answer_int(object, "refused", left->refused);
	answer_int(object, "skipped", left->skipped_away + left->skipped_behind);
	answer_int(object, "fell_behind", left->skipped_behind);
	answer_int(object, "received", came->received);
	answer_int(object, "highest_seq", came->highest_seq);
	answer_int(object, "duplicated", came->duplicated);
	answer_int(object, "out_of_order", came->out_of_order);
	answer_int(object, "corrupted", came->corrupted);
	if (track->retired != NULL)
		json_object_set_new(object, "latency", told_latency(track->retired));
	return object;
}

static json_t *told_worker(const struct run *run, const struct worker *worker)
{
	const struct presence *presence = &worker->presence;
	json_t *object = json_object();

	answer_int(object, "absences", presence->absences);
	answer_int(object, "absent_ns", cycles_to_ns(&run->timebase, presence->absent_cycles));
	answer_int(object, "busy_ns", cycles_to_ns(&run->timebase, presence->busy_cycles));
	answer_int(object, "longest_poll_gap_ns", cycles_to_ns(&run->timebase, presence->longest_poll_gap));
	return object;
}

/* One line with what the running trial has counted up to the end of an interval. */
static void report_interval(const struct engine *engine)
{
	const struct run *run = &engine->run;
	uint64_t at = run->workers[0].presence.at - run->start;
	json_t *interval = json_object();
	json_t *streams = json_array();
	json_t *workers = json_array();
	json_t *line;

	answer_int(interval, "at_ns", (int64_t)at > 0 ? cycles_to_ns(&run->timebase, at) : 0);
	for (unsigned int number = 0; number < run->stream_count; number++)
		json_array_append_new(streams, told_stream(&run->streams[number]));
	for (unsigned int number = 0; number < run->worker_count; number++)
		json_array_append_new(workers, told_worker(run, &run->workers[number]));
	json_object_set_new(interval, "streams", streams);
	json_object_set_new(interval, "workers", workers);
	line = json_pack("{s:I, s:o}", "id", engine->request, "interval", interval);
	answer_write(engine->answers, line);
	json_decref(line);
}

int interval_sleep_ms(const struct run *run, const struct schedule *schedule)
{
	uint64_t now;

	if (run->interval_ns == 0)
		return -1;
	if (schedule->asked)
		return 1;
	now = monotonic_ns();
	return schedule->next_ns > now ? (int)((schedule->next_ns - now + 999999) / 1000000) : 0;
}

void interval_turn(struct engine *engine, struct schedule *schedule)
{
	struct run *run = &engine->run;
	uint64_t now = monotonic_ns();

	if (run->interval_ns == 0)
		return;
	if (!schedule->asked && now >= schedule->next_ns) {
		__atomic_add_fetch(&run->asked, 1, __ATOMIC_RELEASE);
		schedule->asked = true;
	}
	if (!schedule->asked || !all_told(run))
		return;
	report_interval(engine);
	keep(run);
	schedule->asked = false;
	/* An interval that was missed is missing: two short ones in its place would only look complete. */
	while (schedule->next_ns <= now)
		schedule->next_ns += run->interval_ns;
}

void interval_end(struct engine *engine)
{
	struct run *run = &engine->run;

	if (run->interval_ns == 0)
		return;
	for (unsigned int at = 0; at < run->worker_count; at++)
		interval_tell(&run->workers[at], run->asked);
	report_interval(engine);
	keep(run);
}
