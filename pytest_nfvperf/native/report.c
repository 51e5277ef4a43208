/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <rte_cycles.h>

#include "commands.h"
#include "protocol.h"
#include "windows.h"

static json_t *report_hist(const struct hist *hist)
{
	json_t *object = json_object();
	json_t *counts = json_array();

	answer_int(object, "min_ns", hist->total ? hist->min_ns : 0);
	answer_int(object, "max_ns", hist->max_ns);
	answer_int(object, "clamped", hist->clamped);
	json_object_set_new(object, "digits", json_integer(HIST_DIGITS));
	for (unsigned int at = 0; at < HIST_COUNTS; at++)
		if (hist->counts[at] != 0)
			json_array_append_new(counts, json_pack("[I, I]", (json_int_t)hist_highest_equivalent(at),
								(json_int_t)hist->counts[at]));
	json_object_set_new(object, "counts", counts);
	return object;
}

/* The first frame's time is rounded down, and so may be before the start. */
static uint64_t since_start(const struct run *run, uint64_t due)
{
	return due > run->start ? cycles_to_ns(&run->timebase, due - run->start) : 0;
}

/* Rows of an arrival after a long time without: see docs/reference/engine-protocol.md. */
static json_t *report_gaps(const struct run *run, const struct gap_log *log)
{
	json_t *rows = json_array();

	for (unsigned int at = 0; at < log->count; at++) {
		const struct gap *gap = &log->kept[at];

		json_array_append_new(rows, json_pack("[I, I, I, I, I, I]", (json_int_t)since_start(run, gap->due_after),
						      (json_int_t)since_start(run, gap->due_before),
						      (json_int_t)since_start(run, gap->at_after),
						      (json_int_t)since_start(run, gap->at_before),
						      (json_int_t)gap->missing,
						      (json_int_t)cycles_to_ns(&run->timebase, gap->absent)));
	}
	return rows;
}

/* When what arrived was due, ns from the trial's start. */
static json_t *report_dues(const struct run *run, const struct track *track)
{
	json_t *object = json_object();

	answer_int(object, "first_ns", since_start(run, track->first_due));
	answer_int(object, "last_ns", since_start(run, track->last_due));
	answer_int(object, "gap_frames", track->gap_frames);
	if (track->gaps != NULL)
		json_object_set_new(object, "gaps", report_gaps(run, track->gaps));
	if (track->gap_frames > 0) {
		answer_int(object, "gap_after_ns", since_start(run, track->gap_after));
		answer_int(object, "gap_before_ns", since_start(run, track->gap_before));
	}
	return object;
}

/* The trial's start by the clock that other programs of the machine have. */
static uint64_t started_ns(const struct run *run)
{
	uint64_t cycles = rte_rdtsc() - run->start;

	return monotonic_ns() - cycles_to_ns(&run->timebase, cycles);
}

static void report_arrivals(json_t *object, const struct track *track)
{
	const struct seq_window *window = track->window;

	answer_int(object, "received", window->received);
	answer_int(object, "received_bytes", track->bytes);
	answer_int(object, "duplicated", window->duplicated);
	answer_int(object, "out_of_order", window->out_of_order);
	answer_int(object, "beyond_window", window->beyond_window);
	answer_int(object, "highest_seq", window->next);
	answer_int(object, "corrupted", track->corrupted);
	answer_int(object, "truncated", track->truncated);
}

static json_t *report_address(const struct track *track)
{
	char address[MAC_TEXT];
	json_t *object = json_object();

	json_object_set_new(object, "address", json_string(track->address != NULL ? mac_text(track->address, address) : ""));
	report_arrivals(object, track);
	return object;
}

/* Of a stream to several ports, what each got. */
static json_t *report_receivers(const struct run *run, const struct stream *stream)
{
	json_t *receivers = json_object();

	for (unsigned int at = 0; at < stream->receivers; at++) {
		const struct track *track = stream->receiver[at]->tracks[stream->id];
		json_t *object = json_object();

		report_arrivals(object, track);
		if (track->window->received > 0)
			json_object_set_new(object, "due", report_dues(run, track));
		json_object_set_new(receivers, stream->receiver[at]->config.name, object);
	}
	return receivers;
}

/* Frames of a stream that came to ports at which it does not end, by port. */
static json_t *report_misdirected(const struct ports *ports, const struct stream *stream)
{
	json_t *object = json_object();

	for (int at = 0; at < MAX_PORTS; at++) {
		const struct port *port = &ports->port[at];

		if (port->used && port->misdirected[stream->id] > 0)
			answer_int(object, port->config.name, port->misdirected[stream->id]);
	}
	return object;
}

/* From the first frame to the end of the last one's interval, so that frames / time is the rate. */
static uint64_t elapsed_ns(const struct stream *stream)
{
	uint64_t cycles;

	if (stream->sent == 0)
		return 0;
	cycles = stream->last_sent - stream->first_sent + (stream->pacer.cycles_per_frame >> 32);
	return cycles_to_ns(&stream->timebase, cycles);
}

static json_t *report_stream(const struct engine *engine, const struct stream *stream)
{
	const struct run *run = &engine->run;
	const struct track *track = stream_track(stream);
	const struct pacer *pacer = &stream->pacer;
	/* A stopped run leaves frames undue: they were not served because we ended. */
	uint64_t undue = stream->answers == 0 ? pacer->frames - pacer->next : 0;
	json_t *object = json_pack("{s:s, s:s}", "tx", stream->tx->config.name, "rx", stream->rx->config.name);

	answer_int(object, "intended", pacer->frames - stream->failed_before);
	if (stream->after != NULL)
		answer_int(object, "failed_before", stream->failed_before);
	answer_int(object, "sent", stream->sent);
	answer_int(object, "sent_bytes", stream->sent_bytes);
	answer_int(object, "refused", stream->refused);
	answer_int(object, "skipped", pacer->skipped_away + pacer->skipped_behind + undue);
	answer_int(object, "fell_behind", pacer->skipped_behind);
	answer_int(object, "unbuilt", stream->unbuilt);
	answer_int(object, "elapsed_ns", elapsed_ns(stream));
	answer_int(object, "longest_lateness_ns", cycles_to_ns(&stream->timebase, stream->longest_lateness));
	answer_int(object, "largest_burst", stream->largest_burst);
	answer_int(object, "sample_every", stream->sample_every);
	report_arrivals(object, track);
	json_object_set_new(object, "misdirected", report_misdirected(&engine->ports, stream));
	if (track->window->received > 0)
		json_object_set_new(object, "due", report_dues(run, track));
	if (stream->receivers > 1)
		json_object_set_new(object, "receivers", report_receivers(run, stream));
	if (track->latency != NULL) {
		json_object_set_new(object, "latency", report_hist(track->total != NULL ? track->total : track->latency));
		json_object_set_new(object, "latency_raw", report_hist(track->latency_raw));
	}
	return object;
}

static json_t *report_foreign(const struct foreign *foreign)
{
	json_t *object = json_object();

	answer_int(object, "other_trial", foreign->other_trial);
	answer_int(object, "misdirected", foreign->misdirected);
	answer_int(object, "arp", foreign->arp);
	answer_int(object, "ipv6", foreign->ipv6);
	answer_int(object, "lldp", foreign->lldp);
	answer_int(object, "stp", foreign->stp);
	answer_int(object, "other", foreign->other);
	return object;
}

static json_t *report_forwarded(const struct forward_counts *counts)
{
	json_t *object = json_object();

	answer_int(object, "rx", counts->rx);
	answer_int(object, "tx", counts->tx);
	answer_int(object, "ring_full", counts->full);
	answer_int(object, "dropped_as_asked", counts->asked);
	return object;
}

static json_t *report_hosted(const struct host_counts *counts)
{
	json_t *object = json_object();

	answer_int(object, "to_host", counts->to_host);
	answer_int(object, "from_host", counts->from_host);
	answer_int(object, "dropped", counts->dropped);
	return object;
}

static json_t *report_monitored(const struct run *run, const struct port *port)
{
	json_t *streams = json_array();

	for (unsigned int at = 0; at < run->stream_count; at++) {
		json_t *copies = json_array();

		for (const struct track *track = port->tracks[at]; track != NULL; track = track->next)
			json_array_append_new(copies, report_address(track));
		json_array_append_new(streams, copies);
	}
	return streams;
}

json_t *report_lost(json_t *object, const struct nic_counts *counts)
{
	for (unsigned int at = 0; at < NIC_COUNTERS; at++)
		if (counts->known & 1u << at)
			answer_int(object, nic_counter_name((enum nic_counter)at), counts->of[at]);
	return object;
}

static void report_time(const struct run *run, json_t *object, const char *name, uint64_t at)
{
	int64_t ns = at >= run->start ? (int64_t)cycles_to_ns(&run->timebase, at - run->start)
				      : -(int64_t)cycles_to_ns(&run->timebase, run->start - at);

	json_object_set_new(object, name, json_integer(ns));
}

/* When a port had no link, from the trial's start; below 0: before it. */
static json_t *report_outages(const struct run *run, const struct link_log *links)
{
	json_t *outages = json_array();

	for (unsigned int at = 0; at < links->count; at++) {
		json_t *object = json_object();

		report_time(run, object, "lost_ns", links->outages[at].lost);
		if (links->outages[at].restored != 0)
			report_time(run, object, "restored_ns", links->outages[at].restored);
		json_array_append_new(outages, object);
	}
	return outages;
}

static json_t *report_port(const struct run *run, const struct port *port)
{
	json_t *object = json_object();

	answer_int(object, "flushed", port->flushed);
	if (port->config.role == ROLE_FORWARDER)
		json_object_set_new(object, "forwarded", report_forwarded(&port->forwarded));
	else if (port->config.role == ROLE_HOST)
		json_object_set_new(object, "hosted", report_hosted(&port->hosted));
	else if (!run->forward_only)
		json_object_set_new(object, "foreign", report_foreign(&port->foreign));
	if (port->config.role == ROLE_MONITOR && !run->forward_only)
		json_object_set_new(object, "monitored", report_monitored(run, port));
	if (port->kind == PORT_DPDK && !run->forward_only)
		json_object_set_new(object, "nic", report_lost(json_object(), &port->nic.lost));
	if (port->kind == PORT_DPDK && !run->forward_only && nic_link_watched(&port->nic))
		json_object_set_new(object, "link_outages", report_outages(run, &port->nic.links));
	if (run->rejoins && port->links.count > 0)
		json_object_set_new(object, "link_outages", report_outages(run, &port->links));
	return object;
}

static json_t *report_worker(const struct run *run, const struct worker *worker)
{
	const struct health *health = &worker->health;
	json_t *object = json_object();

	answer_int(object, "cpu", worker->cpu);
	answer_int(object, "longest_poll_gap_ns", cycles_to_ns(&run->timebase, health->longest_poll_gap));
	answer_int(object, "absences", worker->clock.absences);
	answer_int(object, "absent_ns", cycles_to_ns(&run->timebase, worker->clock.absent_cycles));
	answer_int(object, "preemptions", health->preemptions);
	if (health->run_delay_known)
		answer_int(object, "run_delay_ns", health->run_delay_ns);
	answer_int(object, "elapsed_ns", cycles_to_ns(&run->timebase, health->cycles));
	answer_int(object, "busy_ns", cycles_to_ns(&run->timebase, health->busy_cycles));
	answer_int(object, "turns", health->turns);
	if (worker->windows.kept != NULL)
		json_object_set_new(object, "windows", window_report(run, worker));
	return object;
}

void report_run(const struct engine *engine, json_t *answer)
{
	const struct run *run = &engine->run;
	json_t *streams = json_array();
	json_t *ports = json_object();
	json_t *workers = json_array();

	for (unsigned int at = 0; at < run->stream_count; at++)
		json_array_append_new(streams, report_stream(engine, &run->streams[at]));
	for (int at = 0; at < MAX_PORTS; at++)
		if (engine->ports.port[at].used)
			json_object_set_new(ports, engine->ports.port[at].config.name,
					    report_port(run, &engine->ports.port[at]));
	for (unsigned int at = 0; at < run->worker_count; at++)
		json_array_append_new(workers, report_worker(run, &engine->workers[at]));
	if (!run->forward_only) {
		json_object_set_new(answer, "streams", streams);
		answer_int(answer, "started_ns", started_ns(run));
		json_object_set_new(answer, "complete", json_boolean(run->complete));
		json_object_set_new(answer, "given_up", json_boolean(run->given_up));
	} else {
		json_decref(streams);
	}
	json_object_set_new(answer, "ports", ports);
	json_object_set_new(answer, "workers", workers);
}
