/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "check.h"
#include "frames.h"
#include "signature.h"

static void test_lateness_keeps_three_digits(void)
{
	for (uint64_t units = 0; units < UINT64_C(4095) << 15; units += units / 100 + 1) {
		uint64_t decoded = lateness_decode(lateness_encode(units));

		CHECK(decoded <= units);
		CHECK(units - decoded <= units / 2000);
	}
}

static void test_lateness_saturates(void)
{
	uint64_t most = lateness_decode(UINT16_MAX);

	CHECK_EQUAL(lateness_decode(lateness_encode(most)), most);
	CHECK_EQUAL(lateness_encode(UINT64_C(1) << 40), UINT16_MAX);
}

/* 32 bits of time units hold the histogram's 10 s on any TSC, and convert to ns within 1/1000. */
static void check_timebase(uint64_t hz)
{
	struct timebase base = timebase_of(hz);
	uint64_t ten_seconds = hz * 10 >> base.shift;

	CHECK(ten_seconds <= UINT32_MAX);
	CHECK(units_to_ns(&base, ten_seconds) > UINT64_C(9990000000));
	CHECK(units_to_ns(&base, ten_seconds) <= UINT64_C(10000000000));
	CHECK_EQUAL(cycles_to_ns(&base, hz), 1000000000);
	CHECK_EQUAL(ns_to_cycles(&base, 1000000000), hz);
}

enum { TRIAL = 7, PLACE = 42, LENGTH = 120 };

static uint32_t seed = 1;

static uint32_t some(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static void put(uint8_t *at, uint8_t trial, uint8_t stream)
{
	struct signature signature = {.magic = SIGNATURE_MAGIC, .trial = trial, .stream = stream, .seq = some(1 << 20),
				      .lateness = stream & SIGNATURE_SAMPLED ? 5 : 0};

	memcpy(at, &signature, sizeof(signature));
}

/* What a switch makes of a frame: so many bytes more or fewer behind its MAC addresses. */
static size_t pushed(uint8_t *bytes, const uint8_t *sent, size_t length, int more)
{
	memset(bytes, 0x45, 12 + (more > 0 ? (size_t)more : 0));
	memcpy(bytes + 12 + more + (more < 0 ? -more : 0), sent + 12 + (more < 0 ? -more : 0),
	       length - 12 - (more < 0 ? (size_t)-more : 0));
	return length + (size_t)more;
}

/* Tags, labels and tunnels of any length pushed and popped: each frame is found, and the next one at once. */
static void test_pushed_and_popped(void)
{
	static const int changes[] = {0, 4, 8, 12, 16, 24, 28, 36, 38, 42, 50, 54, 58, 70, 74, 124, -4, -8, -12, -16, -28};
	struct places places = {0};
	uint8_t sent[LENGTH], bytes[512];

	places_add(&places, PLACE);
	for (size_t each = 0; each < 2 * sizeof(changes) / sizeof(changes[0]); each++) {
		int more = changes[each / 2];
		size_t length, place = (size_t)(PLACE + more);

		frame_make(sent, LENGTH, PLAIN_IPV4);
		put(sent + PLACE, TRIAL, (uint8_t)(each % 2 ? 3 : 3 | SIGNATURE_SAMPLED));
		length = pushed(bytes, sent, LENGTH, more);
		CHECK_EQUAL(signature_layout(&places, bytes, length, TRIAL), place);
		CHECK_EQUAL(places.last, place);
	}
	/* Those that were registered first are known as long as there is room. */
	CHECK_EQUAL(places.count, MAX_PLACES);
}

/* Streams with different headers on one port take turns. */
static void test_turns(void)
{
	struct places places = {0};
	uint8_t bytes[LENGTH];

	for (uint16_t at = 0; at < 4; at++)
		places_add(&places, (uint16_t)(42 + 20 * at));
	places_add(&places, 42);
	CHECK_EQUAL(places.count, 4);
	for (uint16_t turn = 0; turn < 20; turn++) {
		frame_make(bytes, LENGTH, PLAIN_IPV4);
		memset(bytes + PLACE, 0, sizeof(struct signature));
		put(bytes + 42 + 20 * (turn % 4), TRIAL, 1);
		CHECK_EQUAL(signature_layout(&places, bytes, LENGTH, TRIAL), 42 + 20 * (turn % 4));
	}
	CHECK_EQUAL(places.count, 4);
}

static void test_strangers(void)
{
	struct places places = {0};
	uint8_t bytes[LENGTH];

	places_add(&places, PLACE);
	frame_make(bytes, LENGTH, PLAIN_IPV4);
	CHECK_EQUAL(signature_layout(&places, bytes, LENGTH, TRIAL), 0);
	/* Another trial's is told from strangers where ours stand, and nowhere else. */
	put(bytes + PLACE, TRIAL + 1, 1);
	CHECK_EQUAL(signature_layout(&places, bytes, LENGTH, TRIAL), PLACE);
	frame_make(bytes, LENGTH, PLAIN_IPV4);
	put(bytes + PLACE + 4, TRIAL + 1, 1);
	CHECK_EQUAL(signature_layout(&places, bytes, LENGTH, TRIAL), 0);
	/* What our senders never write. */
	put(bytes + PLACE + 4, TRIAL, MAX_STREAMS);
	CHECK_EQUAL(signature_layout(&places, bytes, LENGTH, TRIAL), 0);
	put(bytes + PLACE + 4, TRIAL, 1);
	bytes[PLACE + 4 + 13] = 1;
	CHECK_EQUAL(signature_layout(&places, bytes, LENGTH, TRIAL), 0);
}

/* Two things that look like a signature: both are offered, in the order of the frame. */
static void test_the_one_behind(void)
{
	uint8_t bytes[LENGTH];

	frame_make(bytes, LENGTH, PLAIN_IPV4);
	put(bytes + 50, TRIAL, 1);
	put(bytes + LENGTH - sizeof(struct signature), TRIAL, 2);
	CHECK_EQUAL(place_behind(bytes, LENGTH, TRIAL, 0), 50);
	CHECK_EQUAL(place_behind(bytes, LENGTH, TRIAL, 50), LENGTH - sizeof(struct signature));
	CHECK_EQUAL(place_behind(bytes, LENGTH, TRIAL, LENGTH - sizeof(struct signature)), 0);
	CHECK_EQUAL(place_behind(bytes, LENGTH - 1, TRIAL, 50), 0);
}

/* Any bytes, of any length: nothing beyond them is read (AddressSanitizer looks), and what is found is there. */
static void test_any_bytes(void)
{
	for (int turn = 0; turn < 200000; turn++) {
		size_t length = some(100), place;
		uint8_t *bytes = malloc(length > 0 ? length : 1);
		struct places places = {.last = (uint16_t)some(120)};

		for (uint32_t at = some(10); at > 0; at--)
			places_add(&places, (uint16_t)(14 + some(100)));
		for (size_t at = 0; at < length; at++)
			bytes[at] = (uint8_t)(some(3) ? (const uint8_t[]){0x4e, 0x66, TRIAL, 0}[some(4)] : some(256));
		if (length >= sizeof(struct signature) && some(2))
			put(bytes + some((uint32_t)(length - sizeof(struct signature) + 1)), TRIAL, 1);
		place = signature_layout(&places, bytes, length, TRIAL);
		CHECK(place == 0 || place + sizeof(struct signature) <= length);
		CHECK(place == 0 || (bytes[place] == 0x4e && bytes[place + 1] == 0x66));
		place = place_behind(bytes, length, TRIAL, length > 0 ? some((uint32_t)length) : 0);
		CHECK(place == 0 || (place + sizeof(struct signature) <= length && signature_begins(bytes + place, TRIAL)));
		free(bytes);
	}
}

int main(void)
{
	test_lateness_keeps_three_digits();
	test_lateness_saturates();
	check_timebase(UINT64_C(1000000000));
	check_timebase(UINT64_C(2600000000));
	check_timebase(UINT64_C(5700000000));
	check_timebase(UINT64_C(25000000));
	test_pushed_and_popped();
	test_turns();
	test_strangers();
	test_the_one_behind();
	test_any_bytes();
	return 0;
}
