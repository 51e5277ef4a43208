/* SPDX-License-Identifier: Apache-2.0 */
/* What arrived of one stream on one port. Written by one polling thread. */
#ifndef NFVPERF_TRACK_H
#define NFVPERF_TRACK_H

#include <stdint.h>

#include "hist.h"
#include "seq.h"
#include "stream.h"

struct track {
	const struct stream *stream;
	struct seq_window *window; /* owned */
	struct hist *latency; /* from the scheduled time; owned; NULL when not asked for */
	struct hist *latency_raw; /* from the actual time */
	uint64_t bytes; /* with FCS */
	uint64_t corrupted;
	uint64_t samples;
	uint64_t published; /* distinct frames, for other threads to see: atomic */
};

/* NULL when memory is short. */
struct track *track_new(const struct stream *stream, bool latency);
void track_free(struct track *track);

#endif
