/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs the engine to write a frame, and to compare a received one with what was sent: cycles of the time stamp
 * counter, the fewest of some rounds, without a ring. frame_costs.py writes the frames (frame_costs.h) and compiles
 * this with the engine's own template.c and frame.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <x86intrin.h>

#include "frame.h"

struct stack {
	const char *name;
	struct frame_set set;
	const uint8_t *bytes;
	size_t length, signature;
};

#include "frame_costs.h"

enum { BURST = 32, BURSTS = 2000, ROUNDS = 40, SLOTS = 256, SLOT_BYTES = 2048 };

static uint8_t ring[SLOTS][SLOT_BYTES] __attribute__((aligned(64)));

/* As stream.c does it. */
static __attribute__((noinline)) void write_burst(const struct frame_set *set, struct frame_cursor *cursor,
						  unsigned int slot, uint32_t seq)
{
	for (unsigned int at = 0; at < BURST; at++) {
		uint8_t *frame = ring[slot + at];
		const struct template *template = frame_write(set, cursor, frame);
		struct signature signature = {
			.magic = SIGNATURE_MAGIC, .trial = 3, .stream = 1, .seq = seq + at, .scheduled = (seq + at) * 7};

		memcpy(frame + template->signature, &signature, sizeof(signature));
		if (__builtin_expect(set->sealed, 0))
			frame_seal(set, cursor, frame);
		frame_next(set, cursor);
	}
}

/* As receive.c does it. Returns the frames that are not as they were sent. */
static __attribute__((noinline)) unsigned int check_burst(const struct frame_set *set, struct frame_cursor *cursor,
							  unsigned int slot, size_t place)
{
	unsigned int wrong = 0;

	for (unsigned int at = 0; at < BURST; at++) {
		wrong += !frame_is_as_sent(set, cursor, ring[slot + at], place);
		frame_next(set, cursor);
	}
	return wrong;
}

static int measure(struct stack *stack)
{
	static const uint16_t order[] = {0};
	uint64_t least_write = UINT64_MAX, least_check = UINT64_MAX;
	const char *refused = frame_set_add(&stack->set, stack->bytes, stack->length, stack->signature);
	unsigned int wrong = 0;

	if (refused == NULL)
		refused = frame_set_finish(&stack->set, order, 1);
	if (refused != NULL) {
		fprintf(stderr, "%s: %s\n", stack->name, refused);
		return 1;
	}
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		for (size_t at = 0; at < SLOT_BYTES; at++)
			ring[slot][at] = pattern_byte(at);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct frame_cursor writes = frame_cursor_at(&stack->set, 0), checks = writes;
		uint64_t write = 0, check = 0;

		for (unsigned int burst = 0; burst < BURSTS; burst++) {
			unsigned int slot = burst * BURST % SLOTS;
			uint64_t began = __rdtsc(), wrote;

			write_burst(&stack->set, &writes, slot, burst * BURST);
			wrote = __rdtsc();
			wrong += check_burst(&stack->set, &checks, slot, stack->signature);
			check += __rdtsc() - wrote;
			write += wrote - began;
		}
		least_write = write < least_write ? write : least_write;
		least_check = check < least_check ? check : least_check;
	}
	printf("%s\t%.1f\t%.1f\t%u\n", stack->name, (double)least_write / (BURST * BURSTS),
	       (double)least_check / (BURST * BURSTS), wrong);
	frame_set_free(&stack->set);
	return 0;
}

int main(void)
{
	for (size_t at = 0; at < sizeof(stacks) / sizeof(stacks[0]); at++)
		if (measure(&stacks[at]) != 0)
			return 1;
	return 0;
}
