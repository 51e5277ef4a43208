/* SPDX-License-Identifier: Apache-2.0 */
#include "burst.h"
#include "check.h"

static void test_sizes(void)
{
	for (uint64_t position = 0; position < 3 * LINE_DESCRIPTORS; position++) {
		CHECK_EQUAL(burst_of(0, position), 0);
		for (uint64_t due = 1; due < 3 * BURST_FRAMES; due++) {
			uint16_t burst = burst_of(due, position);

			CHECK(burst >= 1 && burst <= due && burst <= BURST_FRAMES);
			/* Nothing waits that could be sent without a part of a line. */
			CHECK(due - burst < LINE_DESCRIPTORS || burst + LINE_DESCRIPTORS > BURST_FRAMES);
			if (due >= LINE_DESCRIPTORS)
				CHECK_EQUAL((position + burst) % LINE_DESCRIPTORS, 0);
		}
	}
}

/* After the first burst of a ring whose place is odd, all that follow are full and begin with a line. */
static void test_full_bursts(void)
{
	uint64_t position = 7;

	position += burst_of(1000, position);
	CHECK_EQUAL(position, 7 + 29);
	for (int at = 0; at < 10; at++) {
		CHECK_EQUAL(burst_of(1000, position), BURST_FRAMES);
		position += BURST_FRAMES;
	}
}

static void test_few_frames_do_not_wait(void)
{
	CHECK_EQUAL(burst_of(1, 0), 1);
	CHECK_EQUAL(burst_of(3, 0), 3);
	CHECK_EQUAL(burst_of(3, 2), 2);
	CHECK_EQUAL(burst_of(4, 1), 3);
}

static void test_lead(void)
{
	for (uint64_t position = 0; position < 3 * LINE_DESCRIPTORS; position++) {
		CHECK(lead_of(position) < LINE_DESCRIPTORS);
		CHECK_EQUAL((position + lead_of(position)) % LINE_DESCRIPTORS, 0);
	}
}

int main(void)
{
	test_sizes();
	test_full_bursts();
	test_few_frames_do_not_wait();
	test_lead();
	return 0;
}
