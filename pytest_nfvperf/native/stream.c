/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <rte_ethdev.h>
#include <rte_prefetch.h>

#include "burst.h"
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

void stream_begin(struct stream *stream, uint64_t start, uint64_t absences, uint64_t patience)
{
	stream->full_for = ns_to_cycles(&stream->timebase, FULL_FOR_NS);
	stream->pacer.start = start;
	stream->lead = lead_of(position_of(stream));
	stream->lead_until = stream->lead != 0 ? start + ns_to_cycles(&stream->timebase, LEAD_NS) : 0;
	stream->give_up = pacer_scheduled(&stream->pacer, stream->pacer.frames) + patience;
	stream->absences_seen = absences;
	stream->until_sample = 0;
}

static struct signature *signature_of(const struct stream *stream, struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_mtod_offset(mbuf, struct signature *, stream->frames.signature);
}

/* Makes sure that `count` frames are built; returns how many are. */
static uint16_t build(struct stream *stream, uint16_t count)
{
	uint64_t seq = stream->sent + stream->staged;

	if (stream->staged >= count)
		return count;
	/* Not rte_pktmbuf_alloc_bulk(): that writes the second cache line of each, which a freed one has in order. */
	if (rte_mempool_get_bulk(stream->tx->tx_pool, (void **)&stream->stage[stream->staged], count - stream->staged) != 0)
		return stream->staged;
	for (uint16_t at = stream->staged; at < count; at++) {
		struct rte_mbuf *mbuf = stream->stage[at];
		const struct template *template =
			frame_write(&stream->frames, &stream->cursor, (uint8_t *)mbuf->buf_addr + RTE_PKTMBUF_HEADROOM);
		struct signature *signature;

		/* First of all: a driver may have moved it to where its own header begins. */
		mbuf->data_off = RTE_PKTMBUF_HEADROOM;
		signature = signature_of(stream, mbuf);
		mbuf->ol_flags = 0;
		mbuf->data_len = template->length;
		mbuf->pkt_len = template->length;
		signature->magic = SIGNATURE_MAGIC;
		signature->trial = stream->trial;
		signature->stream = stream->id;
		signature->seq = (uint32_t)seq++;
	}
	stream->staged = count;
	return count;
}

static void stamp_sample(const struct stream *stream, struct signature *signature, uint64_t late)
{
	signature->stream |= SIGNATURE_SAMPLED;
	signature->lateness = lateness_encode(late >> stream->timebase.shift);
}

/* Writes the checksums that the times are part of. */
static void seal(struct stream *stream, uint16_t count)
{
	for (uint16_t at = 0; at < count; at++)
		frame_seal(&stream->frames, stream->sent + at, rte_pktmbuf_mtod(stream->stage[at], uint8_t *));
}

/* Writes the times of the frames about to be sent. */
static void stamp(struct stream *stream, uint16_t count, uint64_t now)
{
	const struct pacer *pacer = &stream->pacer;
	unsigned int shift = stream->timebase.shift;
	__uint128_t scheduled = ((__uint128_t)pacer->next * pacer->cycles_per_frame) + ((__uint128_t)pacer->start << 32);
	uint32_t sample = stream->sample_every ? stream->until_sample : UINT32_MAX;

	for (uint16_t at = 0; at < count; at++, scheduled += pacer->cycles_per_frame) {
		struct signature *signature = signature_of(stream, stream->stage[at]);
		uint64_t due = (uint64_t)(scheduled >> 32);

		signature->scheduled = (uint32_t)(due >> shift);
		signature->stream = stream->id;
		if (at == sample) {
			stamp_sample(stream, signature, now > due ? now - due : 0);
			sample += stream->sample_every;
		}
	}
	if (unlikely(stream->frames.layout.ipv6))
		seal(stream, count);
}

/*
 * Several queues: blocks of a burst's length of flows take turns, so that a flow keeps its
 * queue and its order, and fewer flows than that use one queue.
 */
static uint16_t hand_over_spread(struct stream *stream, uint16_t count)
{
	uint16_t sent = 0;

	while (sent < count) {
		uint64_t flow = (stream->sent + sent) % stream->frames.flows.count;
		uint64_t run = RTE_MIN(BURST_FRAMES - flow % BURST_FRAMES, stream->frames.flows.count - flow);
		uint16_t queue = (uint16_t)(flow / BURST_FRAMES % stream->tx->config.queues);
		uint16_t wanted = (uint16_t)RTE_MIN(run, (uint64_t)(count - sent));
		uint16_t taken = port_send(stream->tx, queue, stream->stage + sent, wanted);

		sent += taken;
		if (taken < wanted)
			break;
	}
	return sent;
}

static uint16_t hand_over(struct stream *stream, uint16_t count)
{
	if (stream->tx->config.queues == 1)
		return port_send(stream->tx, 0, stream->stage, count);
	return hand_over_spread(stream, count);
}

static void account(struct stream *stream, uint16_t sent, uint64_t bytes, uint64_t now)
{
	uint64_t late = now - pacer_scheduled(&stream->pacer, stream->pacer.next);

	if ((int64_t)late > 0 && late > stream->longest_lateness)
		stream->longest_lateness = late;
	if (stream->sent == 0)
		stream->first_sent = now;
	stream->last_sent = now;
	stream->sent += sent;
	stream->sent_bytes += bytes;
	stream->staged -= sent;
	memmove(stream->stage, stream->stage + sent, stream->staged * sizeof(stream->stage[0]));
	if (stream->sample_every) {
		uint32_t past = stream->until_sample;

		while (past < sent)
			past += stream->sample_every;
		stream->until_sample = past - sent;
	}
}

/* To the shared cache: the switch's core reads these lines next, and a snoop of ours is slower. */
static void demote(struct stream *stream, uint16_t count)
{
	for (uint16_t at = 0; at < count; at++)
		rte_cldemote(rte_pktmbuf_mtod(stream->stage[at], void *));
}

/* Bytes of the next `count` frames, from their templates: the buffers may be the driver's by now. */
static uint64_t staged_bytes(const struct stream *stream, uint16_t count)
{
	uint64_t bytes = (uint64_t)count * FCS_BYTES;

	if (stream->frames.order_length == 1)
		return bytes + (uint64_t)count * stream->frames.template[0]->length;
	for (uint16_t at = 0; at < count; at++)
		bytes += frame_set_at(&stream->frames, stream->sent + at)->length;
	return bytes;
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

static uint16_t send_due(struct stream *stream, uint64_t backlog, uint64_t now, struct poll_clock *clock)
{
	uint16_t wanted = burst_size(stream, backlog);
	uint16_t count = build(stream, wanted);
	uint64_t began;
	uint16_t sent;

	if (count == 0) {
		stream->unbuilt += wanted;
		pacer_skip_behind(&stream->pacer, wanted);
		return 0;
	}
	stamp(stream, count, now);
	demote(stream, count);
	began = rte_rdtsc();
	sent = hand_over(stream, count);
	clock_burst(clock, &clock->tx, began, rte_rdtsc(), sent);
	if (sent > 0)
		account(stream, sent, staged_bytes(stream, sent), now);
	stream->pacer.next += sent;
	backlog -= sent;
	if (sent < count) {
		stream->waiting = true;
		stream->found_full = now;
		(void)keep_waiting(stream, backlog, false, now);
	} else if (backlog <= BURST_FRAMES) {
		stream->waiting = false;
	}
	return sent;
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

uint16_t stream_turn(struct stream *stream, struct poll_clock *clock)
{
	uint64_t now = clock_look(clock);
	uint64_t backlog = pacer_backlog(&stream->pacer, now);
	bool away = clock->absences != stream->absences_seen;

	stream->absences_seen = clock->absences;
	if (backlog > 0)
		backlog = to_send(stream, backlog, away, now);
	if (unlikely(lead_stands_alone(stream, now)))
		return 0;
	return backlog > 0 ? send_due(stream, backlog, now, clock) : 0;
}

void stream_end(struct stream *stream)
{
	for (uint16_t at = 0; at < stream->staged; at++)
		rte_pktmbuf_free(stream->stage[at]);
	stream->staged = 0;
}
