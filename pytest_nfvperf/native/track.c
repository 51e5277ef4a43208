/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "track.h"

static bool add_histograms(struct track *track, bool intervals)
{
	track->latency = hist_new();
	track->latency_raw = hist_new();
	if (intervals) {
		track->retired = hist_new();
		track->total = hist_new();
	}
	return track->latency != NULL && track->latency_raw != NULL &&
	       (!intervals || (track->retired != NULL && track->total != NULL));
}

struct track *track_new(const struct stream *stream, bool latency, bool intervals)
{
	struct track *track = calloc(1, sizeof(*track));

	if (track == NULL)
		return NULL;
	track->stream = stream;
	track->window = seq_new(stream->frames.fields != 0 ? stream->frames.combinations : 1);
	if (track->window != NULL && (!latency || add_histograms(track, intervals)))
		return track;
	track_free(track);
	return NULL;
}

void track_free(struct track *track)
{
	while (track != NULL) {
		struct track *next = track->next;

		free(track->window);
		free(track->latency);
		free(track->latency_raw);
		free(track->retired);
		free(track->total);
		free(track);
		track = next;
	}
}
