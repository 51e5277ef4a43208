/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open-loop pacing from the TSC: when each frame of a stream is due, whatever became of the frames before it, and how
 * many of those that are due one burst takes. Frame k is due k / fps seconds after the start.
 */
#ifndef NFVPERF_PACER_H
#define NFVPERF_PACER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sizes.h"

struct pacer {
	uint64_t start; /* TSC */
	uint64_t frames; /* due in total */
	uint64_t next; /* first frame not yet dealt with */
	uint64_t frames_per_cycle; /* 0.64 fixed point */
	uint64_t cycles_per_frame; /* 32.32 fixed point */
	uint64_t backlog_limit; /* frames; more than this is given up as "fell behind" */
	uint64_t skipped_away; /* due while the thread was not running */
	uint64_t skipped_behind; /* due while it ran, but too slowly */
};

/*
 * fps must be below hz. Up to `slack` cycles of frames may be sent late, but no more than
 * `ring_share`, so that our own catching up cannot fill the ring, and never less than a burst.
 */
static inline void pacer_init(struct pacer *pacer, uint64_t hz, uint64_t fps, uint64_t frames, uint64_t slack,
			      uint64_t ring_share)
{
	memset(pacer, 0, sizeof(*pacer));
	pacer->frames = frames;
	pacer->frames_per_cycle = (uint64_t)(((__uint128_t)fps << 64) / hz);
	pacer->cycles_per_frame = (uint64_t)(((__uint128_t)hz << 32) / fps);
	pacer->backlog_limit = (uint64_t)((__uint128_t)slack * pacer->frames_per_cycle >> 64);
	if (pacer->backlog_limit > ring_share)
		pacer->backlog_limit = ring_share;
	if (pacer->backlog_limit < BURST_FRAMES)
		pacer->backlog_limit = BURST_FRAMES;
}

/* Frames that are due at `now` and not yet dealt with. */
static inline uint64_t pacer_backlog(const struct pacer *pacer, uint64_t now)
{
	uint64_t due;

	if ((int64_t)(now - pacer->start) < 0)
		return 0;
	due = (uint64_t)((__uint128_t)(now - pacer->start) * pacer->frames_per_cycle >> 64) + 1;
	if (due > pacer->frames)
		due = pacer->frames;
	/* Rounding may put a frame a cycle earlier than the last call did: never go back. */
	return due > pacer->next ? due - pacer->next : 0;
}

/* TSC at which frame `index` is due, as 64.32 fixed point would round it down. */
static inline uint64_t pacer_scheduled(const struct pacer *pacer, uint64_t index)
{
	return pacer->start + (uint64_t)((__uint128_t)index * pacer->cycles_per_frame >> 32);
}

static inline void pacer_skip_away(struct pacer *pacer, uint64_t frames)
{
	pacer->next += frames;
	pacer->skipped_away += frames;
}

static inline void pacer_skip_behind(struct pacer *pacer, uint64_t frames)
{
	pacer->next += frames;
	pacer->skipped_behind += frames;
}

/*
 * Frames that waited too long. Those that came due while we were away are skipped, and so are those
 * that no ring held up: we were too slow. Returns the others, which the ring refused.
 */
static inline uint64_t pacer_give_up(struct pacer *pacer, uint64_t frames, bool away, bool held_up)
{
	if (away) {
		pacer_skip_away(pacer, frames);
	} else if (!held_up) {
		pacer_skip_behind(pacer, frames);
	} else {
		pacer->next += frames;
		return frames;
	}
	return 0;
}

/* ---- bursts */

enum { LINE_DESCRIPTORS = 4 }; /* of a packed virtqueue, in a cache line of 64 bytes */

/*
 * A burst ends where a line of the ring's descriptors does, if enough frames are due. Both drivers
 * (DPDK's virtio and vhost) write and read whole lines at once, and single descriptors at the ends
 * of a burst that begins elsewhere. A switch that always finds 32 frames keeps the place in its line
 * at which it began, for a whole trial: by chance it then pays for the ends of every burst, or never.
 */
static inline uint16_t burst_of(uint64_t due, uint64_t position)
{
	uint16_t burst = (uint16_t)(due < BURST_FRAMES ? due : BURST_FRAMES);
	uint16_t beyond = (uint16_t)((position + burst) % LINE_DESCRIPTORS);

	return burst > beyond ? (uint16_t)(burst - beyond) : burst;
}

/* How many complete the line in which the next descriptor stands; 0 where it begins one. */
static inline uint64_t lead_of(uint64_t position)
{
	return (LINE_DESCRIPTORS - position % LINE_DESCRIPTORS) % LINE_DESCRIPTORS;
}

#endif
