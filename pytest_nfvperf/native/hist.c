/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "hist.h"

struct hist *hist_new(void)
{
	struct hist *hist = malloc(sizeof(*hist));

	if (hist == NULL)
		return NULL;
	/* memset rather than calloc: a page fault on the polling path would show up as lateness. */
	memset(hist, 0, sizeof(*hist));
	hist->min_ns = UINT64_MAX;
	return hist;
}

void hist_clear(struct hist *hist)
{
	if (hist->total != 0) {
		unsigned int first = hist_index(hist->min_ns);
		unsigned int last = hist_index(hist->max_ns);

		memset(&hist->counts[first], 0, (last - first + 1) * sizeof(hist->counts[0]));
	}
	hist->total = 0;
	hist->clamped = 0;
	hist->min_ns = UINT64_MAX;
	hist->max_ns = 0;
}

void hist_merge(struct hist *into, const struct hist *from)
{
	if (from->total == 0)
		return;
	for (unsigned int at = hist_index(from->min_ns); at <= hist_index(from->max_ns); at++)
		into->counts[at] += from->counts[at];
	into->total += from->total;
	into->clamped += from->clamped;
	if (from->min_ns < into->min_ns)
		into->min_ns = from->min_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
}

uint64_t hist_percentile(const struct hist *hist, uint32_t per_100000)
{
	/* Rounded up, and split so that no count overflows. */
	uint64_t rank = hist->total / 100000 * per_100000 + (hist->total % 100000 * per_100000 + 99999) / 100000;
	uint64_t seen = 0;

	if (hist->total == 0)
		return 0;
	for (unsigned int at = hist_index(hist->min_ns); at <= hist_index(hist->max_ns); at++) {
		seen += hist->counts[at];
		if (seen >= rank && seen != 0) {
			uint64_t top = hist_highest_equivalent(at);

			return top < hist->max_ns ? top : hist->max_ns;
		}
	}
	return hist->max_ns;
}

uint64_t hist_highest_equivalent(unsigned int index)
{
	unsigned int bucket = index / HIST_HALF_COUNT;
	uint64_t step = index % HIST_HALF_COUNT;

	/* The first 2 * HALF_COUNT values have a bucket each; index / HALF_COUNT is 0 or 1 there. */
	if (bucket <= 1)
		return index;
	bucket--;
	return ((step + HIST_HALF_COUNT + 1) << bucket) - 1;
}
