/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "pacer.h"
#include "sizes.h"

#define HZ UINT64_C(2600000000)

/* All frames, and no more, are due when the time is over; each not before its time. */
static void check_rate(uint64_t fps, uint64_t frames)
{
	struct pacer pacer;
	uint64_t before = 0;

	pacer_init(&pacer, HZ, fps, frames, HZ / 10000, 256);
	pacer.start = 12345;
	CHECK_EQUAL(pacer_backlog(&pacer, 12344), 0);
	CHECK_EQUAL(pacer_backlog(&pacer, 12345), 1);
	for (uint64_t at = 0; at < 1000; at++) {
		uint64_t now = pacer.start + (uint64_t)((__uint128_t)frames * HZ / fps * at / 1000);
		uint64_t due = pacer_backlog(&pacer, now);

		CHECK(due >= before);
		CHECK(due == 0 || pacer_scheduled(&pacer, due - 1) <= now + 1);
		/* 32.32 fixed point rounds down: by less than a cycle every 2^32 frames */
		CHECK(due == frames || pacer_scheduled(&pacer, due) + 2 + (due >> 32) >= now);
		before = due;
	}
	CHECK_EQUAL(pacer_backlog(&pacer, pacer.start + (uint64_t)((__uint128_t)frames * HZ / fps)), frames);
	CHECK_EQUAL(pacer_backlog(&pacer, UINT64_MAX / 4), frames);
}

static void test_rates(void)
{
	static const uint64_t rates[] = {1, 3, 1000, 999983, 1000000, 7000001, 14880952, 148809523};

	for (unsigned int at = 0; at < sizeof(rates) / sizeof(rates[0]); at++) {
		check_rate(rates[at], 1);
		check_rate(rates[at], rates[at]);
		check_rate(rates[at], rates[at] * 3600 * 24);
	}
}

/* A day at an odd rate: the last frame's time is right to a microsecond. */
static void test_drift(void)
{
	struct pacer pacer;
	uint64_t day = 86400;

	pacer_init(&pacer, HZ, 7000001, 7000001 * day, HZ, 256);
	CHECK(pacer_scheduled(&pacer, 7000001 * day) >= day * HZ - HZ / 1000000);
	CHECK(pacer_scheduled(&pacer, 7000001 * day) <= day * HZ);
}

static void test_skipping(void)
{
	struct pacer pacer;

	pacer_init(&pacer, HZ, 1000000, 1000, 0, 256);
	CHECK_EQUAL(pacer.backlog_limit, BURST_FRAMES);
	CHECK_EQUAL(pacer_backlog(&pacer, HZ / 10000 + 1), 101);
	pacer_skip_away(&pacer, 100);
	CHECK_EQUAL(pacer_backlog(&pacer, HZ / 10000 + 1), 1);
	pacer_skip_behind(&pacer, 1);
	CHECK_EQUAL(pacer_backlog(&pacer, HZ / 10000 + 1), 0);
	CHECK_EQUAL(pacer.skipped_away, 100);
	CHECK_EQUAL(pacer.skipped_behind, 1);
	CHECK_EQUAL(pacer_backlog(&pacer, HZ), 899);
}

/* At any rate at least a burst may be late, and never more than a share of the ring. */
static void test_backlog_limit(void)
{
	struct pacer pacer;

	pacer_init(&pacer, HZ, 1000000, 1000, HZ / 10000, 256);
	CHECK_EQUAL(pacer.backlog_limit, 99);
	pacer_init(&pacer, HZ, 10000000, 1000, HZ / 10000, 256);
	CHECK_EQUAL(pacer.backlog_limit, 256);
	pacer_init(&pacer, HZ, 10, 1000, HZ / 10000, 256);
	CHECK_EQUAL(pacer.backlog_limit, BURST_FRAMES);
}

/* An earlier look at the clock must never make the backlog negative. */
static void test_time_going_back(void)
{
	struct pacer pacer;

	pacer_init(&pacer, HZ, 1000000, 1000, 0, 256);
	pacer.next = 500;
	CHECK_EQUAL(pacer_backlog(&pacer, HZ / 10000 + 1), 0);
}

/* A frame that waited too long is the ring's refusal only where the ring held it up, and we were there. */
static void test_giving_up(void)
{
	struct pacer pacer;

	pacer_init(&pacer, HZ, 1000000, 1000, 0, 256);
	CHECK_EQUAL(pacer_give_up(&pacer, 7, false, true), 7);
	CHECK_EQUAL(pacer.skipped_away + pacer.skipped_behind, 0);
	CHECK_EQUAL(pacer_give_up(&pacer, 5, false, false), 0);
	CHECK_EQUAL(pacer.skipped_behind, 5);
	CHECK_EQUAL(pacer_give_up(&pacer, 3, true, true), 0);
	CHECK_EQUAL(pacer.skipped_away, 3);
	CHECK_EQUAL(pacer.next, 15);
}

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
	test_rates();
	test_drift();
	test_skipping();
	test_backlog_limit();
	test_time_going_back();
	test_giving_up();
	test_sizes();
	test_full_bursts();
	test_few_frames_do_not_wait();
	test_lead();
	return 0;
}
