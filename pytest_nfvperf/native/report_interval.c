/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"
#include "report.h"

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

static json_t *told_stream(const struct stream *stream, const struct track *track)
{
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

void report_interval(const struct engine *engine)
{
	const struct run *run = &engine->run;
	uint64_t at = run->workers[0].presence.at - run->start;
	json_t *interval = json_object();
	json_t *streams = json_array();
	json_t *workers = json_array();
	json_t *line;

	answer_int(interval, "at_ns", (int64_t)at > 0 ? cycles_to_ns(&run->timebase, at) : 0);
	for (unsigned int number = 0; number < run->stream_count; number++)
		json_array_append_new(streams, told_stream(&run->streams[number], run->tracks[number]));
	for (unsigned int number = 0; number < run->worker_count; number++)
		json_array_append_new(workers, told_worker(run, &run->workers[number]));
	json_object_set_new(interval, "streams", streams);
	json_object_set_new(interval, "workers", workers);
	line = json_pack("{s:I, s:o}", "id", engine->request, "interval", interval);
	answer_write(engine->answers, line);
	json_decref(line);
}
