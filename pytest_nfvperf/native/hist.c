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
