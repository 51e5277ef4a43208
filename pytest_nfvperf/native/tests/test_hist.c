/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "hist.h"

/* Every value lies in a bucket whose top is at or above it, and within 1/1000 of it. */
static void test_precision(void)
{
	for (uint64_t value = 0; value < HIST_HIGHEST_NS; value += value / 997 + 1) {
		uint64_t top = hist_highest_equivalent(hist_index(value));

		CHECK(hist_index(value) < HIST_COUNTS);
		CHECK(top >= value);
		CHECK(top - value <= value / 1000);
	}
}

/* Tops and indexes are each other's inverse, and neighbours touch. */
static void test_buckets_tile(void)
{
	for (unsigned int index = 0; index + 1 < HIST_COUNTS; index++) {
		uint64_t top = hist_highest_equivalent(index);

		CHECK_EQUAL(hist_index(top), index);
		CHECK_EQUAL(hist_index(top + 1), index + 1);
	}
}

/* Values that HdrHistogram's own implementations give for 3 digits. */
static void test_known_buckets(void)
{
	CHECK_EQUAL(hist_highest_equivalent(hist_index(2047)), 2047);
	CHECK_EQUAL(hist_highest_equivalent(hist_index(2048)), 2049);
	CHECK_EQUAL(hist_highest_equivalent(hist_index(10000)), 10007);
	CHECK_EQUAL(hist_highest_equivalent(hist_index(1000000)), 1000447);
}

static void test_record(void)
{
	struct hist *hist = hist_new();

	CHECK(hist != NULL);
	hist_record(hist, 5);
	hist_record(hist, 5);
	hist_record(hist, 123456);
	hist_record(hist, HIST_HIGHEST_NS + 1);
	CHECK_EQUAL(hist->total, 4);
	CHECK_EQUAL(hist->counts[5], 2);
	CHECK_EQUAL(hist->min_ns, 5);
	CHECK_EQUAL(hist->max_ns, HIST_HIGHEST_NS);
	CHECK_EQUAL(hist->clamped, 1);
	CHECK_EQUAL(hist->counts[hist_index(123456)], 1);
	free(hist);
}

static void test_percentiles(void)
{
	struct hist *hist = hist_new();

	CHECK(hist != NULL);
	CHECK_EQUAL(hist_percentile(hist, 50000), 0);
	for (uint64_t value = 1; value <= 1000; value++)
		hist_record(hist, value);
	CHECK_EQUAL(hist_percentile(hist, 0), 1);
	CHECK_EQUAL(hist_percentile(hist, 50000), 500);
	CHECK_EQUAL(hist_percentile(hist, 99900), 999);
	CHECK_EQUAL(hist_percentile(hist, 99910), 1000);
	CHECK_EQUAL(hist_percentile(hist, 100000), 1000);
	free(hist);
}

/* Merging in parts gives what recording in one gives, and clearing leaves nothing behind. */
static void test_merge_and_clear(void)
{
	struct hist *part = hist_new(), *sum = hist_new(), *whole = hist_new();

	CHECK(part != NULL && sum != NULL && whole != NULL);
	for (uint64_t turn = 0; turn < 5; turn++) {
		for (uint64_t value = 1; value < HIST_HIGHEST_NS * 2; value = value * 3 + turn) {
			hist_record(part, value);
			hist_record(whole, value);
		}
		hist_merge(sum, part);
		hist_clear(part);
		CHECK_EQUAL(part->total, 0);
		for (unsigned int at = 0; at < HIST_COUNTS; at++)
			CHECK_EQUAL(part->counts[at], 0);
	}
	hist_merge(sum, part);
	CHECK(memcmp(sum, whole, sizeof(*sum)) == 0);
	free(part);
	free(sum);
	free(whole);
}

int main(void)
{
	test_precision();
	test_buckets_tile();
	test_known_buckets();
	test_record();
	test_percentiles();
	test_merge_and_clear();
	return 0;
}
