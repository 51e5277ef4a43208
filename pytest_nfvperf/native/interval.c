/* SPDX-License-Identifier: Apache-2.0 */
#include "interval.h"

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
	for (unsigned int at = 0; at < worker->receiver_count; at++)
		for (int id = 0; id < MAX_STREAMS; id++)
			if (worker->receivers[at]->tracks[id] != NULL)
				tell_arrivals(worker->receivers[at]->tracks[id]);
	worker->presence.at = worker->clock.last;
	worker->presence.absences = worker->clock.absences;
	worker->presence.absent_cycles = worker->clock.absent_cycles;
	worker->presence.busy_cycles = worker->health.busy_cycles;
	worker->presence.longest_poll_gap = worker->presence.longest_so_far;
	worker->presence.longest_so_far = 0;
	__atomic_store_n(&worker->told, number, __ATOMIC_RELEASE);
}

void interval_ask(struct run *run)
{
	__atomic_add_fetch(&run->asked, 1, __ATOMIC_RELEASE);
}

bool interval_told(const struct run *run)
{
	for (unsigned int at = 0; at < run->worker_count; at++)
		if (__atomic_load_n(&run->workers[at].told, __ATOMIC_ACQUIRE) != run->asked)
			return false;
	return true;
}

void interval_tell_rest(struct run *run)
{
	for (unsigned int at = 0; at < run->worker_count; at++)
		interval_tell(&run->workers[at], run->asked);
}

void interval_keep(struct run *run)
{
	for (unsigned int at = 0; at < run->stream_count; at++) {
		struct track *track = run->tracks[at];

		if (track->retired == NULL)
			continue;
		hist_merge(track->total, track->retired);
		hist_clear(track->retired);
	}
}
