/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that answer: frame n of one is sent when frame n of each stream that it answers has come. So a conversation is
 * a chain of streams between two ports, and nothing is kept of one between its frames: each carries the number, and the
 * time at which the conversation was due. Who receives the frames of a port also sends its answers: one thread.
 *
 * A stream may also send frame n some time after the conversation was opened, if that of another one has come: so
 * conversations are held, and one bit is kept of each.
 */
#ifndef NFVPERF_ANSWER_H
#define NFVPERF_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "port.h"
#include "stream.h"

enum { MOST_WAITING = 8192 }; /* answers of a port; a power of two */

/* One that is due, and what it takes from the frame that came last of those that it answers. */
struct answer {
	struct stream *stream;
	uint64_t number;
	uint32_t scheduled;
	uint16_t lateness;
	bool sampled;
	uint64_t value[MAX_FIELDS]; /* of the fields that are learned, one after the other */
};

/* The answers that leave by one port, in the order in which they became due. They wait while its ring is full. */
struct answer_queue {
	struct port *port;
	bool bonded; /* that is the leader of a bond, and any member of it sends */
	uint32_t first, count;
	struct answer waiting[MOST_WAITING];
};

/* A frame of a stream that others answer was counted, whatever is in it; its signature is at that place. */
void answers_note(struct stream *stream, const uint8_t *bytes, size_t place);

/* Sends what waits, as far as there is room. Returns frames sent. */
uint32_t answers_send(struct answer_queue *queue, struct poll_clock *clock);

/* Nobody will send what waits. */
void answers_refuse(struct answer_queue *queue);

/* Of a stream that is sent after another: what was opened long enough ago is sent with the answers if that came. */
void answers_follow(struct stream *stream, struct poll_clock *clock);

/* What was due by now of a stream whose frames wait in such a queue does not wait any more. */
static inline bool answers_done(const struct stream *stream)
{
	const struct pacer *pacer = &stream->pacer;

	return stream->sent + stream->refused + stream->failed_before + pacer->skipped_away + pacer->skipped_behind ==
	       pacer->frames;
}

#endif
