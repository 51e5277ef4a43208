/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "seq.h"

struct seq_window *seq_new(uint64_t flows)
{
	struct seq_window *window = malloc(sizeof(*window));

	if (window == NULL)
		return NULL;
	memset(window, 0, sizeof(*window));
	window->flows = flows;
	return window;
}

/* Move the window's front to seq, forgetting the words that are entered on the way. */
static void advance(struct seq_window *window, uint64_t seq)
{
	uint64_t first = (window->next + 63) / 64; /* next's own word was entered unless next starts it */
	uint64_t last = seq / 64;

	if (last - first >= SEQ_WORDS && last >= first) {
		memset(window->bits, 0, sizeof(window->bits));
	} else {
		for (uint64_t word = first; word <= last; word++)
			window->bits[word % SEQ_WORDS] = 0;
	}
	window->next = seq + 1;
}

enum { MOST_LOOKS = 1024 };

static bool has(const struct seq_window *window, uint64_t seq)
{
	return window->bits[seq / 64 % SEQ_WORDS] & UINT64_C(1) << (seq % 64);
}

/*
 * Of a frame that comes after later ones: whether one of those is of its flow. The flow's last one is looked at, and the
 * next so many: a queue that stood still is not worth more looks at each of its frames.
 */
static bool overtaken(const struct seq_window *window, uint64_t seq)
{
	uint64_t later = (window->next - 1 - seq) / window->flows; /* frames of the flow */

	if (later == 0)
		return false;
	if (window->flows == 1 || has(window, seq + later * window->flows))
		return true;
	for (uint64_t at = 1; at < later && at <= MOST_LOOKS; at++)
		if (has(window, seq + at * window->flows))
			return true;
	return false;
}

void seq_record_slow(struct seq_window *window, uint64_t seq)
{
	uint64_t *word = &window->bits[seq / 64 % SEQ_WORDS];
	uint64_t bit = UINT64_C(1) << (seq % 64);

	if (seq >= window->next) {
		advance(window, seq);
	} else if (seq / 64 + SEQ_WORDS <= (window->next - 1) / 64) {
		window->beyond_window++;
		return;
	} else if (*word & bit) {
		window->duplicated++;
		return;
	} else if (overtaken(window, seq)) {
		window->out_of_order++;
	}
	*word |= bit;
	window->received++;
}
