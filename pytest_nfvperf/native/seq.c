/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "seq.h"

struct seq_window *seq_new(void)
{
	struct seq_window *window = malloc(sizeof(*window));

	if (window != NULL)
		memset(window, 0, sizeof(*window));
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
	} else {
		window->out_of_order++;
	}
	*word |= bit;
	window->received++;
}
