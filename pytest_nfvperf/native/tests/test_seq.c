/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check.h"
#include "seq.h"

static struct seq_window *window;

static void record(uint32_t low)
{
	seq_record(window, seq_expand(window, low));
}

static void fresh_with_flows(uint64_t next, uint64_t flows)
{
	free(window);
	window = seq_new(flows);
	CHECK(window != NULL);
	window->next = next;
}

static void fresh(uint64_t next)
{
	fresh_with_flows(next, 1);
}

static void check_counts(uint64_t received, uint64_t duplicated, uint64_t out_of_order, uint64_t beyond)
{
	CHECK_EQUAL(window->received, received);
	CHECK_EQUAL(window->duplicated, duplicated);
	CHECK_EQUAL(window->out_of_order, out_of_order);
	CHECK_EQUAL(window->beyond_window, beyond);
}

static void test_in_order(void)
{
	fresh(0);
	for (uint32_t seq = 0; seq < 3 * SEQ_WINDOW; seq++)
		record(seq);
	check_counts(3 * SEQ_WINDOW, 0, 0, 0);
	record(3 * SEQ_WINDOW - 1);
	check_counts(3 * SEQ_WINDOW, 1, 0, 0);
}

static void test_loss_and_reordering(void)
{
	fresh(0);
	record(0);
	record(5); /* 1-4 missing */
	record(3);
	record(3);
	record(0);
	record(6);
	check_counts(4, 2, 1, 0);
	CHECK_EQUAL(window->next, 7);
}

/* Two queues: the even flows come before the odd ones. Then one frame is overtaken within its flow. */
static void test_flows_overtake_one_another(void)
{
	fresh_with_flows(0, 4);
	for (uint32_t first = 0; first < 4096; first += 1024)
		for (uint32_t odd = 0; odd < 2; odd++)
			for (uint32_t seq = first + odd; seq < first + 1024; seq += 2)
				if (seq != 7 && seq != 2000)
					record(seq);
	check_counts(4094, 0, 0, 0);
	record(7);
	record(2000);
	record(2000);
	check_counts(4096, 1, 2, 0);
}

/* A lost frame that comes late, where all later ones near it are lost, too, but the flow's last. */
static void test_the_last_frame_of_a_flow_overtakes(void)
{
	fresh_with_flows(0, 2);
	record(0);
	record(20001);
	record(1);
	record(3);
	record(10000);
	check_counts(5, 0, 2, 0);
	fresh_with_flows(0, UINT64_C(1) << 62);
	record(1);
	record(0);
	check_counts(2, 0, 0, 0);
}

/* What was recorded a window ago must not make a new number a duplicate, wherever the jump lands. */
static void test_jumps_forget(void)
{
	static const uint32_t jumps[] = {1, 63, 64, 65, 1000, SEQ_WINDOW - 64, SEQ_WINDOW - 1, SEQ_WINDOW, SEQ_WINDOW + 1,
					 5 * SEQ_WINDOW + 17};

	for (size_t at = 0; at < sizeof(jumps) / sizeof(jumps[0]); at++) {
		uint32_t seq;

		fresh(0);
		for (seq = 0; seq < 2 * SEQ_WINDOW + 77; seq++)
			record(seq);
		seq += jumps[at];
		record(seq);
		CHECK_EQUAL(window->duplicated, 0);
		/* all that the jump left out can still arrive, once each, within the window */
		for (uint32_t back = 1; back <= jumps[at] && back <= SEQ_WINDOW - 64; back++)
			record(seq - back);
		CHECK_EQUAL(window->duplicated, 0);
		for (uint32_t back = 1; back <= jumps[at] && back <= SEQ_WINDOW - 64; back++)
			record(seq - back);
		CHECK_EQUAL(window->duplicated, jumps[at] < SEQ_WINDOW - 64 ? jumps[at] : SEQ_WINDOW - 64);
		CHECK_EQUAL(window->beyond_window, 0);
	}
}

static void test_too_old(void)
{
	fresh(0);
	for (uint32_t seq = 0; seq < 2 * SEQ_WINDOW; seq++)
		record(seq);
	record(0);
	check_counts(2 * SEQ_WINDOW, 0, 0, 1);
}

/* The 32 bits on the wire wrap after ten minutes at 7 Mpps. */
static void test_wrap(void)
{
	fresh(UINT64_C(0xfffffff0));
	for (uint64_t seq = UINT64_C(0xfffffff0); seq < UINT64_C(0x100000100); seq++)
		record((uint32_t)seq);
	CHECK_EQUAL(window->next, UINT64_C(0x100000100));
	record(UINT32_C(0xfffffff8));
	check_counts(0x110, 1, 0, 0);
}

/* Against a plain table, with random loss, copies and reordering. */
static void test_random(void)
{
	enum { FRAMES = 200000 };
	uint8_t *seen = calloc(FRAMES, 1);
	uint64_t distinct = 0, copies = 0;

	CHECK(seen != NULL);
	fresh(0);
	srand(1);
	for (uint32_t at = 0; at < FRAMES; at++) {
		uint32_t back = (uint32_t)rand() % 3000;
		uint32_t seq = rand() % 4 == 0 && back <= at ? at - back : at;

		if (rand() % 10 == 0)
			continue;
		record(seq);
		distinct += !seen[seq];
		copies += seen[seq];
		seen[seq] = 1;
	}
	CHECK_EQUAL(window->received, distinct);
	CHECK_EQUAL(window->duplicated, copies);
	free(seen);
}

int main(void)
{
	test_in_order();
	test_loss_and_reordering();
	test_flows_overtake_one_another();
	test_the_last_frame_of_a_flow_overtakes();
	test_jumps_forget();
	test_too_old();
	test_wrap();
	test_random();
	free(window);
	return 0;
}
