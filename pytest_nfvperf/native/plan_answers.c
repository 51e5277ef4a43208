/* SPDX-License-Identifier: Apache-2.0 */
/* Which streams of a trial answer which, and where their frames wait: see answer.h. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "protocol.h"

enum { MOST_HELD = 1000000000 }; /* conversations: a bit each */

/* Of the port or the bond. */
static struct answer_queue *answer_queue(struct run *run, const struct stream *stream)
{
	struct answer_queue *queue;

	for (unsigned int at = 0; at < run->queue_count; at++)
		if (run->queues[at]->port == stream->tx && run->queues[at]->bonded == (stream->bond != NULL))
			return run->queues[at];
	queue = calloc(1, sizeof(*queue));
	if (queue == NULL)
		return NULL;
	queue->port = stream->tx;
	queue->bonded = stream->bond != NULL;
	run->queues[run->queue_count++] = queue;
	return queue;
}

/* Frames of both must have the same two ends, each where the other begins: one thread receives there and sends. */
static bool turns_back(const struct stream *stream, const struct stream *other)
{
	const struct port *end = stream->tx->leader != NULL ? stream->tx->leader : stream->tx;
	const struct port *begin = other->tx->leader != NULL ? other->tx->leader : other->tx;

	return other->rx == end && stream->rx == begin && other->receivers == 1 && stream->receivers == 1;
}

/* An earlier stream, with the same two ends and in the same conversation as those before it. */
static bool plan_answered(const struct run *run, struct stream *stream, const json_t *index, json_t *answer)
{
	json_int_t id = json_is_integer(index) ? json_integer_value(index) : -1;
	const struct stream *other = &run->streams[id >= 0 && id < stream->id ? id : 0];

	if (id < 0 || id >= stream->id)
		return answer_error(answer, "bad_request", "answers must be a list of indexes of earlier streams");
	if (!turns_back(stream, other))
		return answer_error(answer, "bad_request", "stream %u cannot answer stream %u: the tx of each must be the other's only rx",
				    stream->id, other->id);
	if (stream->answers != 0 && stream->opening != other->opening)
		return answer_error(answer, "bad_request", "stream %u answers streams of two conversations", stream->id);
	stream->answers |= UINT64_C(1) << id;
	stream->opening = other->opening;
	stream->fps = other->fps;
	stream->delay = other->delay;
	return true;
}

bool plan_answers(struct run *run, struct stream *stream, const json_t *indexes, json_t *answer)
{
	size_t at;
	json_t *index;

	if (json_array_size(indexes) == 0)
		return answer_error(answer, "bad_request", "answers must be a list of indexes of earlier streams");
	json_array_foreach(indexes, at, index)
		if (!plan_answered(run, stream, index, answer))
			return false;
	stream->queue = answer_queue(run, stream);
	return stream->queue != NULL || answer_error(answer, "no_memory", "no memory for answers");
}

bool plan_after(struct run *run, struct stream *stream, json_int_t index, json_int_t frames, json_t *answer)
{
	struct stream *other = &run->streams[index >= 0 && index < stream->id ? index : 0];

	if (index < 0 || index >= stream->id)
		return answer_error(answer, "bad_request", "after must be the index of an earlier stream");
	if (!turns_back(stream, other))
		return answer_error(answer, "bad_request",
				    "stream %u cannot be sent after stream %u: the tx of each must be the other's only rx",
				    stream->id, other->id);
	if (frames > MOST_HELD)
		return answer_error(answer, "bad_request", "a stream that is sent after another has at most %d frames", MOST_HELD);
	stream->opening = other->opening;
	stream->after = other;
	stream->queue = answer_queue(run, stream);
	return stream->queue != NULL || answer_error(answer, "no_memory", "no memory for answers");
}

/* A bit of each number that a stream may send after this one's, resident. False when memory is short. */
static bool keep_numbers(struct stream *stream, uint64_t numbers)
{
	size_t bytes = (numbers + 63) / 64 * sizeof(*stream->came);

	if (numbers <= stream->came_room)
		return true;
	free(stream->came);
	stream->came = malloc(bytes);
	if (stream->came == NULL)
		return false;
	memset(stream->came, 0, bytes);
	stream->came_room = numbers;
	return true;
}

/* When the numbers of the stream that opens were sent. */
static bool keep_times(struct stream *opener)
{
	if (opener->opened == NULL)
		opener->opened = calloc(opener->pacer.frames / OPENED_EVERY + 1, sizeof(*opener->opened));
	return opener->opened != NULL;
}

/* Members of a bond share its tracks. */
static void mark_answered(struct ports *ports, const struct stream *stream)
{
	for (int at = 0; at < MAX_PORTS; at++)
		if (ports->port[at].used && (&ports->port[at] == stream->rx || ports->port[at].leader == stream->rx))
			ports->port[at].answered = true;
}

static void plan_arrivals(struct engine *engine, struct stream *stream)
{
	stream->streams = engine->run.streams;
	stream->arrived = stream_track(stream)->window;
	mark_answered(&engine->ports, stream);
}

bool plan_conversations(struct engine *engine, json_t *answer)
{
	struct run *run = &engine->run;

	for (unsigned int at = 0; at < run->stream_count; at++) {
		struct stream *stream = &run->streams[at];

		stream->final = true;
		for (unsigned int before = 0; before < at; before++)
			run->streams[before].final &= run->streams[before].opening != stream->opening;
		for (uint64_t left = stream->answers; left != 0; left &= left - 1) {
			struct stream *answered = &run->streams[__builtin_ctzll(left)];

			answered->answered_by |= UINT64_C(1) << at;
			plan_arrivals(engine, answered);
		}
		if (stream->after == NULL)
			continue;
		plan_arrivals(engine, stream->after);
		stream->opener = &run->streams[stream->opening];
		if (!keep_numbers(stream->after, stream->pacer.frames) || !keep_times(&run->streams[stream->opening]))
			return answer_error(answer, "no_memory", "no memory for the numbers of conversations");
	}
	return true;
}

void conversations_free(struct run *run)
{
	for (unsigned int at = 0; at < run->stream_count; at++) {
		free(run->streams[at].came);
		free(run->streams[at].opened);
	}
	for (unsigned int at = 0; at < run->queue_count; at++)
		free(run->queues[at]);
	run->queue_count = 0;
}
