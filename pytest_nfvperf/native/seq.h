/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sequence numbers of one stream have arrived: a sliding bitmap, so that distinct,
 * duplicated and reordered frames are told apart exactly within the window.
 */
#ifndef NFVPERF_SEQ_H
#define NFVPERF_SEQ_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SEQ_WINDOW = 1 << 20, /* frames; 0.1 s at 10 Mpps, rings hold some thousand */
	SEQ_WORDS = SEQ_WINDOW / 64,
};

struct seq_window {
	uint64_t next; /* highest sequence number seen + 1 */
	uint64_t received; /* distinct */
	uint64_t duplicated;
	uint64_t out_of_order; /* a later frame of the same flow was there before */
	uint64_t beyond_window; /* too old to tell whether they are duplicates */
	uint64_t flows; /* frames until the next one of the same flow: queues may overtake one another, flows may not */
	uint64_t bits[SEQ_WORDS];
};

/* An empty window whose pages are already resident, or NULL. Freed by free(). */
struct seq_window *seq_new(uint64_t flows);

/* The 64-bit number that a 32-bit one stands for: the nearest to what is expected next. */
static inline uint64_t seq_expand(const struct seq_window *window, uint32_t low)
{
	return window->next + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)window->next);
}

/* Whether this one came, as far back as the window reaches. */
static inline bool seq_came(const struct seq_window *window, uint64_t seq)
{
	return seq < window->next && seq / 64 + SEQ_WORDS > (window->next - 1) / 64 &&
	       (window->bits[seq / 64 % SEQ_WORDS] >> (seq % 64) & 1);
}

/* The path for frames that are not the next expected one. */
void seq_record_slow(struct seq_window *window, uint64_t seq);

static inline void seq_record(struct seq_window *window, uint64_t seq)
{
	uint64_t *word = &window->bits[seq / 64 % SEQ_WORDS];

	if (__builtin_expect(seq != window->next, 0)) {
		seq_record_slow(window, seq);
		return;
	}
	/* Entering a word forgets what it held a whole window ago. */
	if (seq % 64 == 0)
		*word = 0;
	*word |= UINT64_C(1) << (seq % 64);
	window->next = seq + 1;
	window->received++;
}

#endif
