/* SPDX-License-Identifier: Apache-2.0 */
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

int main(void)
{
	test_precision();
	test_buckets_tile();
	test_known_buckets();
	test_record();
	return 0;
}
