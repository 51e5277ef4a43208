/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rte_pause.h>

#include "forward.h"
#include "interval.h"
#include "receive.h"
#include "rejoin.h"
#include "run.h"
#include "windows.h"

enum {
	START_DELAY_US = 200, /* from the last thread's readiness to the first frame */
	END_CHECK_TURNS = 256,
	FIRST_GIVE_UP_MS = 1000, /* in less, one absence of ours is too large a share to judge the trial by */
};

/* Leftovers of an earlier trial must not be counted in this one. */
static void flush_ports(struct worker *worker)
{
	for (unsigned int at = 0; at < worker->receiver_count; at++)
		worker->receivers[at]->flushed = receive_flush(worker->receivers[at]);
	for (unsigned int at = 0; at < worker->forwarder_count; at++)
		worker->forwarders[at]->flushed = receive_flush(worker->forwarders[at]);
}

static void wait_for_start(struct worker *worker)
{
	struct run *run = worker->run;
	uint64_t start;

	if (__atomic_add_fetch(&run->ready, 1, __ATOMIC_ACQ_REL) == run->worker_count)
		__atomic_store_n(&run->start, rte_rdtsc() + ns_to_cycles(&run->timebase, START_DELAY_US * 1000),
				 __ATOMIC_RELEASE);
	while ((start = __atomic_load_n(&run->start, __ATOMIC_ACQUIRE)) == 0)
		rte_pause();
	worker->clock = (struct poll_clock){.last = rte_rdtsc(), .gap_limit = run->gap_limit};
	for (unsigned int at = 0; at < worker->stream_count; at++)
		stream_begin(worker->streams[at], start, run->residual);
	for (unsigned int at = 0; at < worker->answer_count; at++)
		worker->answers[at]->cursor = frame_cursor_at(&worker->answers[at]->frames, 0);
	for (unsigned int at = 0; run->gap != 0 && at < worker->receiver_count; at++)
		for (int id = 0; id < MAX_STREAMS; id++)
			if (worker->receivers[at]->tracks[id] != NULL)
				track_begin(worker->receivers[at]->tracks[id],
					    start + worker->receivers[at]->tracks[id]->stream->delay, &worker->clock);
	worker->windows.next = worker->windows.kept != NULL ? start + worker->windows.length : UINT64_MAX;
}

/* More frames wait than at the last question, by as many as are asked for. */
static bool piles_up(struct stream *stream, uint64_t now, uint64_t step)
{
	uint64_t depth = stream->waiting ? pacer_backlog(&stream->pacer, now) : 0;
	bool deeper = depth >= stream->asked_depth + step;

	if (deeper || depth + step <= stream->asked_depth)
		stream->asked_depth = depth;
	return deeper;
}

/* Frames wait, and the ring has taken none for as long as the frames in it would take. Told once a time. */
static bool stalls(struct stream *stream, uint64_t now, uint64_t limit)
{
	if (!stream->waiting || now - stream->last_sent <= limit || stream->asked_stall == stream->last_sent)
		return false;
	stream->asked_stall = stream->last_sent;
	return true;
}

/* Is the DUT too slow, or is its CPU not there, or ours not? */
static void ask_if_held_up(struct worker *worker, struct stream *stream)
{
	uint64_t now = worker->clock.last;
	bool deeper = piles_up(stream, now, worker->run->ask_depth);

	if (!stalls(stream, now, worker->run->gap_limit) && !deeper)
		return;
	witnesses_ask(&worker->run->witnesses, now);
	worker->windows.asked_speed = RTE_MAX(worker->windows.asked_speed, speed_probe());
}

static uint32_t send_turn(struct worker *worker)
{
	uint32_t sent = 0;

	/* First: a full ring is to hold up new conversations, and not those that have begun. */
	for (unsigned int at = 0; at < worker->queue_count; at++)
		sent += answers_send(worker->queues[at], &worker->clock);
	for (unsigned int at = 0; at < worker->stream_count; at++) {
		struct stream *stream = worker->streams[at];

		if (stream_done(stream))
			continue;
		if (unlikely(stream->after != NULL))
			answers_follow(stream, &worker->clock);
		else
			sent += stream_turn(stream, &worker->clock);
		if (worker->run->ask_depth != 0)
			ask_if_held_up(worker, stream);
		if (stream_done(stream) && __atomic_sub_fetch(&worker->run->sending, 1, __ATOMIC_ACQ_REL) == 0)
			__atomic_store_n(&worker->run->all_sent, worker->clock.last, __ATOMIC_RELEASE);
	}
	return sent;
}

/* Hosts share this thread's rings. */
static uint32_t host_turns(struct worker *worker)
{
	uint32_t frames = 0;

	for (unsigned int at = 0; at < worker->host_count; at++) {
		struct port *host = worker->hosts[at];
		uint64_t due = 0, refused = 0;

		for (unsigned int id = 0; id < worker->stream_count; id++) {
			due += worker->streams[id]->tx == host->peer ? worker->streams[id]->pacer.next : 0;
			refused += worker->streams[id]->tx == host->peer ? worker->streams[id]->refused : 0;
		}
		frames += host_turn(host, due, refused);
		if (worker->run->forward_only)
			(void)receive_flush(host->peer);
	}
	return frames;
}

static uint32_t poll_turn(struct worker *worker)
{
	uint32_t received = 0;

	for (unsigned int at = 0; at < worker->receiver_count; at++)
		if (likely(!worker->receivers[at]->left))
			received += receive_turn(worker->receivers[at], worker->run->trial, &worker->clock);
	for (unsigned int at = 0; at < worker->forwarder_count; at++) {
		received += forward_turn(worker->forwarders[at]);
		(void)clock_look(&worker->clock);
	}
	if (worker->host_count != 0)
		received += host_turns(worker);
	return received;
}

/*
 * Where copies go to a monitor the residual time is waited for them, since none of them may be due. Streams that answer
 * come behind those that they answer: whose frames have all come by now, of that all answers are due by now.
 */
static bool all_received(const struct run *run)
{
	for (unsigned int at = 0; at < run->stream_count; at++) {
		const struct stream *stream = &run->streams[at];

		if (stream->queue != NULL && !answers_done(stream))
			return false;
		for (unsigned int each = 0; each < stream->receivers; each++) {
			const struct track *track = stream->receiver[each]->tracks[stream->id];

			if (__atomic_load_n(&track->published, __ATOMIC_ACQUIRE) < stream->sent)
				return false;
		}
	}
	return true;
}

/* Sends no more; frames under way are still received. */
static void halt(struct worker *worker)
{
	struct run *run = worker->run;

	worker->halted = true;
	for (unsigned int at = 0; at < worker->stream_count; at++) {
		/* What was opened is closed, and then all is sent. */
		if (stream_done(worker->streams[at]) || worker->streams[at]->after != NULL)
			continue;
		stream_halt(worker->streams[at]);
		if (__atomic_sub_fetch(&run->sending, 1, __ATOMIC_ACQ_REL) == 0)
			__atomic_store_n(&run->all_sent, worker->clock.last, __ATOMIC_RELEASE);
	}
}

/* A trial that can no longer pass need not go on to its end. Each thread looks at what it sends itself. */
static void give_up_if_lost(struct worker *worker)
{
	struct run *run = worker->run;
	uint64_t refused = 0;

	if (run->most_refused == UINT64_MAX || worker->halted)
		return;
	if (worker->clock.last - run->start < ns_to_cycles(&run->timebase, FIRST_GIVE_UP_MS * 1000000ull))
		return;
	if (run->undisturbed.most_speed != 0)
		refused = worker->windows.refused_undisturbed;
	else
		for (unsigned int at = 0; at < worker->stream_count; at++)
			refused += worker->streams[at]->opening == worker->streams[at]->id ? worker->streams[at]->refused : 0;
	if (refused > run->most_refused) {
		__atomic_store_n(&run->given_up, true, __ATOMIC_RELEASE);
		__atomic_store_n(&run->halt, true, __ATOMIC_RELEASE);
	}
}

static bool ended(struct worker *worker, uint64_t turn)
{
	struct run *run = worker->run;
	unsigned int asked;
	uint64_t all_sent;

	if (turn % END_CHECK_TURNS != 0)
		return false;
	if (unlikely(run->rejoins))
		rejoin_look(worker);
	asked = __atomic_load_n(&run->asked, __ATOMIC_ACQUIRE);
	if (unlikely(asked != worker->told))
		interval_tell(worker, asked);
	give_up_if_lost(worker);
	if (unlikely(__atomic_load_n(&run->halt, __ATOMIC_ACQUIRE)) && !worker->halted)
		halt(worker);
	if (__atomic_load_n(&run->stop, __ATOMIC_ACQUIRE) || __atomic_load_n(&run->complete, __ATOMIC_ACQUIRE))
		return true;
	all_sent = __atomic_load_n(&run->all_sent, __ATOMIC_ACQUIRE);
	if (run->forward_only || all_sent == 0)
		return false;
	if (!run->monitored && all_received(run)) {
		__atomic_store_n(&run->complete, true, __ATOMIC_RELEASE);
		return true;
	}
	return rte_rdtsc() - all_sent > run->residual;
}

static void poll_until_end(struct worker *worker)
{
	struct health *health = &worker->health;
	uint64_t begin = worker->clock.last;
	uint64_t turn_began = begin;

	for (uint64_t turn = 1; !ended(worker, turn); turn++) {
		uint32_t frames = send_turn(worker) + poll_turn(worker);
		uint64_t now = clock_look(&worker->clock);
		uint64_t took = now - turn_began;

		turn_began = now;
		if (took > health->longest_poll_gap)
			health->longest_poll_gap = took;
		if (took > worker->presence.longest_so_far)
			worker->presence.longest_so_far = took;
		if (frames != 0)
			health->busy_cycles += took;
		if (unlikely(now >= worker->windows.next))
			window_keep(worker, now);
		health->turns++;
	}
	health->cycles = worker->clock.last - begin;
	for (unsigned int at = 0; at < worker->queue_count; at++)
		answers_refuse(worker->queues[at]);
}

int worker_main(void *opaque)
{
	struct worker *worker = opaque;
	uint64_t one = 1;

	/* Of this thread alone (Linux). Without the right to it we poll at the priority we have. */
	(void)setpriority(PRIO_PROCESS, 0, worker->run->nice);
	flush_ports(worker);
	health_begin(&worker->health);
	wait_for_start(worker);
	poll_until_end(worker);
	health_end(&worker->health);
	return write(worker->run->finished_fd, &one, sizeof(one)) == (ssize_t)sizeof(one) ? 0 : -1;
}
