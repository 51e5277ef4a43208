/* SPDX-License-Identifier: Apache-2.0 */
/* Receives, tells our frames from others, and counts. */
#ifndef NFVPERF_RECEIVE_H
#define NFVPERF_RECEIVE_H

#include <stdint.h>
#include <string.h>

#include <rte_ether.h>

#include "cpu.h"
#include "hist.h"
#include "port.h"
#include "seq.h"
#include "stream.h"

struct arrivals {
	uint64_t received; /* distinct */
	uint64_t highest_seq; /* + 1 */
	uint64_t duplicated;
	uint64_t out_of_order;
	uint64_t corrupted;
};

enum { MOST_GAPS = 512 };

/* Nothing of a stream arrived, or nothing that was due in that time. TSC, of the frames on both sides. */
struct gap {
	uint64_t due_after, due_before; /* when they were due */
	uint64_t at_after, at_before; /* when they were read */
	uint64_t missing; /* frames sent between them that have not come by then */
	uint64_t absent; /* cycles in which the thread that reads was not there meanwhile */
};

struct gap_log {
	uint64_t limit; /* cycles: only longer ones are kept; more, once there is no room */
	const struct poll_clock *clock; /* of the thread that reads */
	uint64_t due, at, absent; /* of the last frame; `due` of the one that was due last */
	unsigned int count;
	struct gap kept[MOST_GAPS];
};

/*
 * What arrived of one stream on one port; on a monitor, of its frames to one destination address, of
 * which a stream has a chain: a frame that crosses a switch several times is then one frame each time,
 * and no duplicate. Written by one polling thread.
 */
struct track {
	struct stream *stream;
	struct track *next; /* of the same stream, for another address; owned */
	const struct rte_ether_addr *address; /* NULL: any */
	struct seq_window *window; /* owned */
	struct frame_cursor due; /* of the frame with the number that the window has next */
	struct hist *latency; /* from the scheduled time; owned; NULL when not asked for */
	struct hist *retired; /* the same of the interval before, the control thread's; NULL without intervals */
	struct hist *total; /* of all retired ones; the control thread's */
	struct hist *latency_raw; /* from the actual time */
	uint64_t bytes; /* with FCS */
	uint64_t corrupted;
	uint64_t truncated; /* part of corrupted: the end is missing, as a mirror's snaplen leaves it */
	uint64_t samples;
	/* When the frames that arrived were due, TSC: of the first, the last, and around the longest gap between two. */
	uint64_t first_due;
	uint64_t last_due;
	uint64_t gap_frames;
	uint64_t gap_after; /* of the last frame before it */
	uint64_t gap_before; /* of the first frame after it */
	struct gap_log *gaps; /* owned; NULL when none are asked for */
	uint64_t published; /* distinct frames, for other threads to see: atomic */
	struct arrivals arrivals; /* at the last interval's end: see interval.h */
};

/* NULL when memory is short. `intervals`: latency is also wanted of each interval. */
struct track *track_new(struct stream *stream, bool latency, bool intervals);
/* Gaps above so many cycles are kept. False when memory is short. */
bool track_keep_gaps(struct track *track, uint64_t limit);
/* When the trial starts, by the thread that reads. */
void track_begin(struct track *track, uint64_t start, const struct poll_clock *clock);
/* The whole chain. */
void track_free(struct track *track);

/* The chain's track for a destination; NULL when none takes it. */
static inline struct track *track_of(struct track *track, const void *destination)
{
	while (track != NULL && track->address != NULL && memcmp(track->address, destination, RTE_ETHER_ADDR_LEN) != 0)
		track = track->next;
	return track;
}

/* Of a stream, where it ends. */
static inline struct track *stream_track(const struct stream *stream)
{
	return stream->rx->tracks[stream->id];
}

/* Polls a port until it is empty, within reason. Returns frames received. */
uint32_t receive_turn(struct port *port, uint8_t trial, struct poll_clock *clock);

/* Takes what lies on a port; the frames of a host behind it go there. Returns the others. */
uint64_t receive_flush(struct port *port);

#endif
