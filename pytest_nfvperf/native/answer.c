/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>

#include "answer.h"

_Static_assert(MAX_STREAMS <= 64, "streams that answer, and are answered, are bits of a word");
_Static_assert((MOST_WAITING & (MOST_WAITING - 1)) == 0, "places of those that wait are masked");

/* ---- frames that come */

/* The frame with this number has come of all streams that this one answers. */
static bool all_came(const struct stream *stream, const struct stream *streams, uint64_t number)
{
	for (uint64_t left = stream->answers; left != 0; left &= left - 1)
		if (!seq_came(streams[__builtin_ctzll(left)].arrived, number))
			return false;
	return true;
}

/* A place behind those that wait; NULL where there is none, and the frame is refused. */
static struct answer *queue_next(struct stream *stream, uint64_t number)
{
	struct answer_queue *queue = stream->queue;
	struct answer *answer;

	if (unlikely(queue->count == MOST_WAITING)) {
		stream->refused++;
		return NULL;
	}
	answer = &queue->waiting[(queue->first + queue->count++) % MOST_WAITING];
	answer->stream = stream;
	answer->number = number;
	return answer;
}

static void learn(struct answer *answer, const uint8_t *signature_at)
{
	const struct frame_set *frames = &answer->stream->frames;
	unsigned int at = 0;

	for (unsigned int left = frames->learned; left != 0; left &= left - 1) {
		const struct field *field = &frames->field[__builtin_ctz(left)];

		answer->value[at++] = window_get(signature_at + field->from, field->size) >> field->shift & field->mask;
	}
}

/* Of a frame from which headers were taken on the way, what is learned may be gone: such a frame is not answered. */
static void add(struct stream *stream, const uint8_t *bytes, size_t place, uint64_t number)
{
	const struct signature *signature = (const void *)(bytes + place);
	struct answer *answer;

	if (unlikely(place < stream->frames.learned_in_front))
		return;
	stream->pacer.frames++;
	answer = queue_next(stream, number);
	if (unlikely(answer == NULL))
		return;
	answer->scheduled = signature->scheduled;
	answer->lateness = signature->lateness;
	answer->sampled = signature->stream & SIGNATURE_SAMPLED;
	learn(answer, bytes + place);
}

void answers_note(struct stream *stream, const uint8_t *bytes, size_t place)
{
	const struct seq_window *arrived = stream->arrived;
	const struct signature *signature = (const void *)(bytes + place);
	uint64_t seq = seq_expand(arrived, signature->seq);

	/* A duplicate is counted, and not as received. */
	if (unlikely(arrived->received == stream->noted))
		return;
	stream->noted = arrived->received;
	if (stream->came != NULL && seq < stream->came_room)
		stream->came[seq / 64] |= UINT64_C(1) << seq % 64;
	for (uint64_t left = stream->answered_by; left != 0; left &= left - 1) {
		struct stream *answer = &stream->streams[__builtin_ctzll(left)];

		if (all_came(answer, stream->streams, seq))
			add(answer, bytes, place, seq);
	}
}

/* ---- frames that are due by themselves, after others */

static void follow(struct stream *stream, uint64_t number, uint64_t due, uint64_t now)
{
	unsigned int shift = stream->timebase.shift;
	uint64_t late = now - due;
	struct answer *answer;

	if (!(stream->after->came[number / 64] >> number % 64 & 1)) {
		stream->failed_before++;
		return;
	}
	answer = queue_next(stream, number); /* there is room: see answers_follow() */
	if (late > stream->longest_lateness)
		stream->longest_lateness = late;
	answer->scheduled = (uint32_t)(due >> shift);
	answer->sampled = number % stream->sample_every == 0;
	answer->lateness = answer->sampled ? lateness_encode(late >> shift) : 0;
}

/* When the number was sent, or one a little later; 0: it was not, or not all of those yet. */
static uint64_t opened_at(const struct stream *opener, uint64_t number)
{
	uint64_t next = number / OPENED_EVERY + 1;

	if (next * OPENED_EVERY < opener->sent)
		return opener->opened[next];
	return stream_done(opener) && number < opener->sent ? opener->last_sent : 0;
}

void answers_follow(struct stream *stream, struct poll_clock *clock)
{
	uint64_t now = clock_look(clock);
	struct pacer *pacer = &stream->pacer;

	while (pacer->next < pacer->frames && stream->queue->count < MOST_WAITING) {
		uint64_t opened = opened_at(stream->opener, pacer->next);

		if (opened == 0 || (int64_t)(now - opened - stream->delay) < 0)
			break;
		follow(stream, pacer->next++, opened + stream->delay, now);
	}
	/* What was not opened is not due. */
	if (stream_done(stream->opener))
		pacer->frames = RTE_MIN(pacer->frames, stream->opener->sent);
}

/* ---- answers that go */

static uint16_t write_answer(const struct answer *answer, uint8_t *bytes)
{
	struct stream *stream = answer->stream;
	const struct frame_set *frames = &stream->frames;
	const struct template *template;
	unsigned int at = 0;
	struct signature signature = {
		.magic = SIGNATURE_MAGIC,
		.trial = stream->trial,
		.stream = (uint8_t)(stream->id | (answer->sampled ? SIGNATURE_SAMPLED : 0)),
		.seq = (uint32_t)answer->number,
		.scheduled = answer->scheduled,
		.lateness = answer->lateness,
	};

	if (unlikely(answer->number != stream->cursor_number))
		stream->cursor = frame_cursor_at(frames, answer->number);
	for (unsigned int left = frames->learned; left != 0; left &= left - 1)
		stream->cursor.value[__builtin_ctz(left)] = answer->value[at++];
	template = frame_write(frames, &stream->cursor, bytes);
	memcpy(bytes + template->signature, &signature, sizeof(signature));
	if (frames->sealed)
		frame_seal(frames, &stream->cursor, bytes);
	frame_next(frames, &stream->cursor);
	stream->cursor_number = answer->number + 1;
	return template->length;
}

static void account(struct stream *stream, uint16_t length, uint64_t now)
{
	if (unlikely(stream->sent == 0))
		stream->first_sent = now;
	stream->last_sent = now;
	stream->sent++;
	stream->sent_bytes += length + FCS_BYTES;
}

/* As stream.c spreads flows: they keep their queue and their order. */
static uint16_t queue_of(const struct answer *answer, uint16_t queues)
{
	const struct frame_set *frames = &answer->stream->frames;
	uint64_t flows = frames->fields != 0 ? frames->combinations : 1;

	return (uint16_t)(answer->number % flows / BURST_FRAMES % queues);
}

static const struct answer *answer_at(const struct answer_queue *queue, uint32_t at)
{
	return &queue->waiting[(queue->first + at) % MOST_WAITING];
}

/* How many of the first leave together, and by which of the port's queues. */
static uint16_t burst_together(const struct answer_queue *queue, const struct port *port, uint16_t *by)
{
	uint16_t queues = port->config.queues, together = 1;

	*by = 0;
	if (likely(queues == 1))
		return burst_of(queue->count, port->position);
	*by = queue_of(answer_at(queue, 0), queues);
	while (together < BURST_FRAMES && together < queue->count && queue_of(answer_at(queue, together), queues) == *by)
		together++;
	return together;
}

/* Those that a driver does not take are written again. */
static uint16_t send_burst(struct answer_queue *queue, struct port *port, uint16_t by, uint16_t wanted, uint64_t now)
{
	struct burst burst;
	uint16_t room = port_room(port, by, &burst, wanted), sent;

	for (uint16_t at = 0; at < room; at++)
		burst.length[at] = write_answer(answer_at(queue, at), burst.bytes[at]);
	sent = port_send(port, by, &burst, room);
	for (uint16_t at = 0; at < sent; at++)
		account(answer_at(queue, at)->stream, burst.length[at], now);
	queue->count -= sent;
	/* Where all are gone the next ones find the same places in the cache. */
	queue->first = queue->count == 0 ? 0 : queue->first + sent;
	return sent;
}

uint32_t answers_send(struct answer_queue *queue, struct poll_clock *clock)
{
	struct port *port = queue->bonded ? port_sender(queue->port) : queue->port;
	uint32_t sent = 0;

	if (unlikely(port->left)) {
		answers_refuse(queue);
		return 0;
	}
	while (queue->count > 0) {
		uint16_t by, wanted = burst_together(queue, port, &by);
		uint16_t gone = send_burst(queue, port, by, wanted, clock_look(clock));

		sent += gone;
		if (gone < wanted)
			break;
	}
	return sent;
}

void answers_refuse(struct answer_queue *queue)
{
	for (uint32_t at = 0; at < queue->count; at++)
		answer_at(queue, at)->stream->refused++;
	queue->first = queue->count = 0;
}
