/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "frames.h"
#include "layout.h"

static void check_kind(enum frame_kind kind, size_t tag)
{
	size_t around = frame_headers(kind) - (inner_version(kind) == 4 ? 42 : 62);
	struct layout layout;
	uint8_t bytes[256];

	frame_make(bytes, 200, kind);
	if (tag) {
		memmove(bytes + 16, bytes + 12, 200 - 16);
		memcpy(bytes + 12, (const uint8_t[]){0x81, 0, 0, 7}, 4);
	}
	CHECK(layout_of(bytes, 200, &layout));
	CHECK_EQUAL(layout.ip, around + 14 + tag);
	CHECK_EQUAL(layout.payload, frame_headers(kind) + tag);
	CHECK_EQUAL(layout.udp, layout.payload - 8);
	CHECK_EQUAL(layout.ipv6, inner_version(kind) == 6);
	CHECK_EQUAL(layout.outer_udp, outer_version(kind) ? around - 16 + tag : 0);
	/* However short the frame, nothing beyond it is read (AddressSanitizer looks), and it is none of ours. */
	for (size_t length = 0; length < layout.payload; length++) {
		struct layout unused;
		uint8_t *exact = malloc(length > 0 ? length : 1);

		memcpy(exact, bytes, length);
		CHECK(!layout_of(exact, length, &unused));
		free(exact);
	}
}

static void test_strangers(void)
{
	static const struct {
		size_t at;
		uint8_t value;
	} changes[] = {{12, 0x88}, {14, 0x46}, {23, 6}, {62, 0x09}, {64, 0x46}, {73, 6}};
	struct layout layout;
	uint8_t bytes[256];

	for (size_t at = 0; at < sizeof(changes) / sizeof(changes[0]); at++) {
		frame_make(bytes, 200, VXLAN4_IPV4);
		CHECK(layout_of(bytes, 200, &layout));
		bytes[changes[at].at] = changes[at].value;
		CHECK(!layout_of(bytes, 200, &layout));
	}
	frame_make(bytes, 200, PLAIN_IPV6);
	bytes[20] = 44; /* a fragment */
	CHECK(!layout_of(bytes, 200, &layout));
}

int main(void)
{
	for (int kind = 0; kind < FRAME_KINDS; kind++) {
		check_kind((enum frame_kind)kind, 0);
		check_kind((enum frame_kind)kind, 4);
	}
	test_strangers();
	return 0;
}
