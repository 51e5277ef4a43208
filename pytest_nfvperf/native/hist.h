/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency histogram in HdrHistogram's log-linear layout (Gil Tene, http://hdrhistogram.org):
 * 1 ns to 10 s at 3 significant digits. Every power of two is divided into HALF_COUNT
 * equal steps, so the relative error is below 1/1000 at every magnitude.
 */
#ifndef NFVPERF_HIST_H
#define NFVPERF_HIST_H

#include <stdint.h>

enum {
	HIST_HALF_BITS = 10, /* log2 of the steps in one power of two */
	HIST_HALF_COUNT = 1 << HIST_HALF_BITS,
	HIST_BUCKETS = 24, /* 2048 << 23 ns is the first power above 10 s */
	HIST_COUNTS = (HIST_BUCKETS + 1) * HIST_HALF_COUNT,
	HIST_DIGITS = 3,
};

#define HIST_HIGHEST_NS UINT64_C(10000000000)

struct hist {
	uint64_t total;
	uint64_t clamped; /* values above HIST_HIGHEST_NS, counted as that */
	uint64_t min_ns;
	uint64_t max_ns;
	uint64_t counts[HIST_COUNTS];
};

/* An empty histogram whose pages are already resident, or NULL. Freed by free(). */
struct hist *hist_new(void);

/* Forgets everything; touches only what was used. */
void hist_clear(struct hist *hist);

/* Adds the counts of `from`. */
void hist_merge(struct hist *into, const struct hist *from);

/* Value at or below which this many in 100,000 samples lie; 0 without samples. */
uint64_t hist_percentile(const struct hist *hist, uint32_t per_100000);

/* The largest value that shares a bucket with the values at this index. */
uint64_t hist_highest_equivalent(unsigned int index);

static inline unsigned int hist_index(uint64_t value)
{
	unsigned int bucket = 63U - HIST_HALF_BITS - (unsigned int)__builtin_clzll(value | (2 * HIST_HALF_COUNT - 1));
	unsigned int step = (unsigned int)(value >> bucket);

	return (bucket + 1) * HIST_HALF_COUNT + step - HIST_HALF_COUNT;
}

static inline void hist_record(struct hist *hist, uint64_t value)
{
	if (__builtin_expect(value > HIST_HIGHEST_NS, 0)) {
		hist->clamped++;
		value = HIST_HIGHEST_NS;
	}
	if (value < hist->min_ns)
		hist->min_ns = value;
	if (value > hist->max_ns)
		hist->max_ns = value;
	hist->counts[hist_index(value)]++;
	hist->total++;
}

#endif
