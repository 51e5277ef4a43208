/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_cycles.h>

#include "stream.h"

enum {
	FULL_FOR_NS = 50000,
	LEAD_NS = 15000, /* a switch polls its ports every few us; at 14.88 Mpps 223 frames are late by as much */
};

/* Of the descriptors of the ring. Several queues take whole lines in turn. */
static uint64_t position_of(const struct stream *stream)
{
	return stream->tx->config.queues == 1 ? stream->tx->position : 0;
}

void stream_begin(struct stream *stream, uint64_t start, uint64_t patience)
{
	stream->full_for = ns_to_cycles(&stream->timebase, FULL_FOR_NS);
	stream->pacer.start = start + stream->delay;
	stream->lead = lead_of(position_of(stream));
	stream->lead_until = stream->lead != 0 ? stream->pacer.start + ns_to_cycles(&stream->timebase, LEAD_NS) : 0;
	stream->give_up = pacer_scheduled(&stream->pacer, stream->pacer.frames) + patience;
	stream->absences_seen = 0;
	stream->until_sample = 0;
	stream->cursor = frame_cursor_at(&stream->frames, 0);
}

/* Writes the signature of a frame about to be sent; `due` is when it should have been. */
static inline void sign(const struct stream *stream, uint8_t *at, uint32_t seq, uint64_t due, bool sampled, uint64_t now)
{
	unsigned int shift = stream->timebase.shift;
	struct signature signature = {
		.magic = SIGNATURE_MAGIC,
		.trial = stream->trial,
		.stream = (uint8_t)(stream->id | (sampled ? SIGNATURE_SAMPLED : 0)),
		.seq = seq,
		.scheduled = (uint32_t)(due >> shift),
	};

	if (sampled)
		signature.lateness = lateness_encode(now > due ? (now - due) >> shift : 0);
	memcpy(at, &signature, sizeof(signature));
}

/* Writes the next `count` frames into the burst's buffers, `first` frames behind those that are accounted for. */
static void write_frames(struct stream *stream, struct burst *burst, uint16_t first, uint16_t count, uint64_t now)
{
	const struct frame_set *frames = &stream->frames;
	const struct pacer *pacer = &stream->pacer;
	uint64_t seq = stream->sent + first;
	__uint128_t scheduled =
		(__uint128_t)(pacer->next + first) * pacer->cycles_per_frame + ((__uint128_t)pacer->start << 32);
	uint32_t sample = stream->sample_every ? stream->until_sample : UINT32_MAX;

	while (sample < first)
		sample += stream->sample_every;
	for (uint16_t at = first; at < first + count; at++, scheduled += pacer->cycles_per_frame) {
		uint8_t *frame = burst->bytes[at - first];
		const struct template *template = frame_write(frames, &stream->cursor, frame);
		bool sampled = at == sample;

		burst->length[at - first] = template->length;
		sign(stream, frame + template->signature, (uint32_t)seq++, (uint64_t)(scheduled >> 32), sampled, now);
		if (sampled)
			sample += stream->sample_every;
		/* Checksums that cover the times. */
		if (unlikely(frames->sealed))
			frame_seal(frames, &stream->cursor, frame);
		frame_next(frames, &stream->cursor);
	}
}

/* What became of frames that were handed to a port. */
struct handed {
	uint16_t sent;
	uint64_t bytes; /* with FCS */
	bool full; /* the ring took not all */
	bool unbuilt; /* no buffer was free: not the ring's doing */
};

static struct handed send_burst(struct stream *stream, uint16_t queue, uint16_t first, uint16_t wanted, uint64_t now)
{
	struct port *port = stream->tx;
	struct burst burst;
	uint16_t room = port_room(port, queue, &burst, wanted);
	bool full = room < wanted && port->kind != PORT_DPDK;
	struct handed handed = {.full = full, .unbuilt = room < wanted && !full};

	write_frames(stream, &burst, first, room, now);
	handed.sent = port_send(port, queue, &burst, room);
	for (uint16_t at = 0; at < handed.sent; at++)
		handed.bytes += burst.length[at] + FCS_BYTES;
	if (unlikely(handed.sent < room)) {
		handed.full = true;
		stream->cursor = frame_cursor_at(&stream->frames, stream->sent + first + handed.sent);
	}
	return handed;
}

/*
 * Several queues: blocks of a burst's length of flows take turns, so that a flow keeps its
 * queue and its order, and fewer flows than that use one queue.
 */
static struct handed send_spread(struct stream *stream, uint16_t wanted, uint64_t now)
{
	uint64_t flows = stream->frames.fields != 0 ? stream->frames.combinations : 1;
	struct handed handed = {0};

	while (handed.sent < wanted && !handed.full && !handed.unbuilt) {
		uint64_t flow = (stream->sent + handed.sent) % flows;
		uint64_t run = RTE_MIN(BURST_FRAMES - flow % BURST_FRAMES, flows - flow);
		uint16_t queue = (uint16_t)(flow / BURST_FRAMES % stream->tx->config.queues);
		uint16_t count = (uint16_t)RTE_MIN(run, (uint64_t)(wanted - handed.sent));
		struct handed more = send_burst(stream, queue, handed.sent, count, now);

		more.sent += handed.sent;
		more.bytes += handed.bytes;
		handed = more;
	}
	return handed;
}

/* When numbers were sent, for those that are sent after them: what was opened late is closed late. */
static void note_opened(struct stream *stream, uint64_t first)
{
	uint64_t at = (first + OPENED_EVERY - 1) / OPENED_EVERY;

	for (; at * OPENED_EVERY < stream->sent; at++)
		stream->opened[at] = stream->last_sent;
}

static void account(struct stream *stream, const struct handed *handed, uint64_t now)
{
	uint64_t late = now - pacer_scheduled(&stream->pacer, stream->pacer.next);

	if ((int64_t)late > 0 && late > stream->longest_lateness)
		stream->longest_lateness = late;
	if (stream->sent == 0)
		stream->first_sent = now;
	stream->last_sent = now;
	stream->sent += handed->sent;
	stream->sent_bytes += handed->bytes;
	if (unlikely(stream->opened != NULL))
		note_opened(stream, stream->sent - handed->sent);
	if (stream->sample_every) {
		uint32_t past = stream->until_sample;

		while (past < handed->sent)
			past += stream->sample_every;
		stream->until_sample = past - handed->sent;
	}
}

/*
 * Lets frames wait as far as the queue is deep. What is beyond is refused, if the ring is what holds
 * it up; skipped, if it came due while we were away, or if the ring has had room and we are too slow
 * to work off what waits. Returns the frames that still wait.
 */
static uint64_t keep_waiting(struct stream *stream, uint64_t backlog, bool away, uint64_t now)
{
	uint64_t room = (int64_t)(now - stream->give_up) < 0 ? stream->queue_depth : 0;
	uint64_t beyond = backlog > room ? backlog - room : 0;
	bool held_up = now - stream->found_full <= stream->full_for;

	stream->refused += pacer_give_up(&stream->pacer, beyond, away, held_up);
	return backlog - beyond;
}

static uint16_t burst_size(const struct stream *stream, uint64_t backlog)
{
	if (unlikely(stream->sent < stream->lead))
		return (uint16_t)RTE_MIN(backlog, stream->lead - stream->sent);
	return burst_of(backlog, position_of(stream));
}

static bool lead_stands_alone(const struct stream *stream, uint64_t now)
{
	return now < stream->lead_until && stream->sent >= stream->lead;
}

static uint16_t send_due(struct stream *stream, uint64_t backlog, uint64_t now)
{
	uint16_t wanted = burst_size(stream, backlog);
	struct handed handed = stream->tx->config.queues == 1 ? send_burst(stream, 0, 0, wanted, now) :
								 send_spread(stream, wanted, now);

	if (unlikely(handed.unbuilt && handed.sent == 0)) {
		stream->unbuilt += wanted;
		pacer_skip_behind(&stream->pacer, wanted);
		return 0;
	}
	if (handed.sent > 0)
		account(stream, &handed, now);
	stream->pacer.next += handed.sent;
	backlog -= handed.sent;
	if (handed.full) {
		stream->waiting = true;
		stream->found_full = now;
		(void)keep_waiting(stream, backlog, false, now);
	} else if (backlog <= BURST_FRAMES) {
		stream->waiting = false;
	}
	return handed.sent;
}

/* What is left to send of the frames due by now, when those are taken out that nobody will send. */
static uint64_t to_send(struct stream *stream, uint64_t backlog, bool away, uint64_t now)
{
	if (unlikely(stream->waiting))
		return keep_waiting(stream, backlog, away, now);
	if (unlikely(away)) {
		pacer_skip_away(&stream->pacer, backlog);
		return 0;
	}
	if (unlikely(backlog > stream->pacer.backlog_limit)) {
		pacer_skip_behind(&stream->pacer, backlog - BURST_FRAMES);
		backlog = BURST_FRAMES;
	}
	if (backlog > stream->largest_burst)
		stream->largest_burst = backlog;
	return backlog;
}

/* Nobody takes frames from this port. What is due is refused; not by the ring, which had no time to fill. */
static void refuse_due(struct stream *stream, uint64_t backlog, bool away)
{
	stream->refused += pacer_give_up(&stream->pacer, backlog, away, true);
	stream->waiting = false;
}

uint16_t stream_turn(struct stream *stream, struct poll_clock *clock)
{
	uint64_t now = clock_look(clock);
	uint64_t backlog = pacer_backlog(&stream->pacer, now);
	bool away = clock->absences != stream->absences_seen;

	stream->absences_seen = clock->absences;
	if (unlikely(stream->bond != NULL))
		stream->tx = port_sender(stream->bond);
	if (unlikely(stream->tx->left)) {
		refuse_due(stream, backlog, away);
		return 0;
	}
	if (backlog > 0)
		backlog = to_send(stream, backlog, away, now);
	if (unlikely(lead_stands_alone(stream, now)))
		return 0;
	return backlog > 0 ? send_due(stream, backlog, now) : 0;
}
