/* SPDX-License-Identifier: Apache-2.0 */
/* One direction's frames, sent when they are due. Used by one polling thread. */
#ifndef NFVPERF_STREAM_H
#define NFVPERF_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu.h"
#include "frame.h"
#include "pacer.h"
#include "port.h"
#include "seq.h"
#include "signature.h"

enum { OPENED_EVERY = 64 }; /* numbers: a cache line of openings */

struct departures {
	uint64_t sent;
	uint64_t refused;
	uint64_t skipped_away;
	uint64_t skipped_behind;
};

struct stream {
	uint8_t id;
	uint8_t trial;
	struct port *tx;
	struct port *bond; /* its leader: tx is any of its members; NULL: tx is one port */
	struct port *rx; /* the first of those: its counts are the stream's */
	struct port *receiver[MAX_PORTS]; /* each gets every frame */
	unsigned int receivers;
	uint64_t fps;
	struct frame_set frames;
	struct timebase timebase;
	struct pacer pacer;
	uint32_t sample_every; /* 0: no latency samples */

	struct frame_cursor cursor; /* of the next frame to be sent */
	/*
	 * A trial begins in the middle of a line of the ring, mostly. The frames that complete it are
	 * sent alone, and the switch gets time to take them: it then begins with a line, as we do.
	 */
	uint64_t lead; /* how many they are */
	uint64_t lead_until; /* TSC before which nothing follows them */
	uint32_t until_sample; /* frames from the next one to be sent to the next sample */
	uint64_t absences_seen;

	/*
	 * Frames that find the ring full wait, as they would in the receive ring of a NIC, up to
	 * queue_depth; beyond it the oldest are refused. After give_up nothing waits: a switch that
	 * died must not hold up the end of the trial.
	 */
	uint64_t queue_depth;
	uint64_t give_up; /* TSC */
	bool waiting; /* the ring was full, and what waits for it is not worked off yet */
	uint64_t found_full; /* TSC at which it last was */
	uint64_t full_for; /* cycles: a ring that was full so lately holds up what waits; otherwise we do */
	uint64_t asked_depth; /* frames that waited when the witnesses were last asked why, or fewer that do since */
	uint64_t asked_stall; /* last_sent when they were asked why the ring takes nothing */

	uint64_t sent; /* also the sequence number of the next frame */
	uint64_t sent_bytes; /* with FCS */
	uint64_t refused;
	uint64_t unbuilt; /* part of skipped_behind: no buffer was free */
	uint64_t first_sent; /* TSC */
	uint64_t last_sent;
	uint64_t longest_lateness; /* cycles */
	uint64_t largest_burst; /* frames due at once and sent back to back, those that had waited apart */
	struct departures departures; /* at the last interval's end: see interval.h */

	/* Of conversations: see answer.h. */
	uint64_t delay; /* cycles from the trial's start to its own */
	/* bits: earlier streams, whose frames this one answers; 0: its own are due as the pacer says. The pacer of one that
	 * answers only counts `frames` that were due. */
	uint64_t answers;
	struct stream *after; /* it sends only numbers that came of that one, `delay` after the opener sent them; NULL: all */
	const struct stream *opener;
	uint64_t *opened; /* owned, of an opener that others are sent after: TSC of its numbers 0, OPENED_EVERY, ... */
	struct answer_queue *queue; /* of either: in which its frames wait; NULL: it is neither */
	/* Where others answer it, or are sent after it. */
	const struct seq_window *arrived; /* its track's; NULL: there are none */
	struct stream *streams; /* all of the run */
	uint64_t answered_by; /* bits: those that answer */
	uint64_t noted; /* distinct frames */
	uint64_t *came; /* owned; a bit of each number, where a stream is sent after it */
	uint64_t came_room; /* numbers */
	uint64_t failed_before; /* numbers that had not come when they were due here */
	uint8_t opening; /* the stream that begins its conversation */
	bool final; /* the conversation ends with it: what arrives of it are conversations */
	uint64_t cursor_number; /* of an answer: the frame that the cursor stands at */
};

/* `patience`: cycles after the last frame is due until frames no longer wait. */
void stream_begin(struct stream *stream, uint64_t start, uint64_t patience);

/* Sends at most a burst of what is due. Returns frames sent. */
uint16_t stream_turn(struct stream *stream, struct poll_clock *clock);

static inline bool stream_done(const struct stream *stream)
{
	return stream->pacer.next >= stream->pacer.frames;
}

/* What is not sent by now is no longer due. */
static inline void stream_halt(struct stream *stream)
{
	stream->pacer.frames = stream->pacer.next;
}

#endif
