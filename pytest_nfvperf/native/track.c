/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "track.h"

struct track *track_new(const struct stream *stream, bool latency)
{
	struct track *track = calloc(1, sizeof(*track));

	if (track == NULL)
		return NULL;
	track->stream = stream;
	track->window = seq_new();
	if (latency) {
		track->latency = hist_new();
		track->latency_raw = hist_new();
	}
	if (track->window != NULL && (!latency || (track->latency != NULL && track->latency_raw != NULL)))
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
		free(track);
		track = next;
	}
}
