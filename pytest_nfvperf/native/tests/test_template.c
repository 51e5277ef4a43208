/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "frames.h"
#include "signature.h"
#include "template.h"

enum { SIGNATURE = 42, IPV4 = 14 };

static void make(uint8_t *bytes, size_t length)
{
	frame_make(bytes, length, PLAIN_IPV4);
}

static struct frame_set set_of(size_t length, struct flows flows)
{
	uint8_t bytes[MAX_FRAME_BYTES];
	static const uint8_t order[] = {0};
	struct frame_set set = {.signature = SIGNATURE};

	make(bytes, length);
	CHECK(frame_set_add(&set, bytes, length) == NULL);
	CHECK(frame_set_finish(&set, order, 1, flows) == NULL);
	return set;
}

static uint16_t port_at(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static void fill(uint8_t *buffer, size_t size)
{
	for (size_t at = 0; at < size; at++)
		buffer[at] = pattern_byte(at);
}

/* The next frame, sealed: it has the flow of its number, its checksums hold, and it is no other flow's. */
static void check_flow(const struct frame_set *set, struct frame_cursor *cursor, uint32_t seq, uint8_t *buffer, size_t size)
{
	const struct layout *layout = &set->layout;
	size_t length = set->template[0]->length;
	uint32_t flow = seq % set->flows.count;

	fill(buffer, size);
	frame_write(set, cursor, buffer);
	memcpy(buffer + set->signature + 4, &seq, sizeof(seq));
	frame_seal(set, seq, buffer);
	CHECK(frame_matches(set, seq, buffer, length, set->signature));
	CHECK(!frame_matches(set, seq + 1, buffer, length, set->signature));
	if (set->template[0]->lines != 0) {
		struct frame_cursor here = frame_cursor_at(set, seq), next = frame_cursor_at(set, seq + 1);

		CHECK(frame_is_as_sent(set, &here, buffer));
		CHECK(!frame_is_as_sent(set, &next, buffer));
	}
	CHECK_EQUAL(port_at(buffer + layout->udp), set->flows.first_port + flow / set->flows.addresses);
	if (layout->outer_udp != 0)
		CHECK_EQUAL(port_at(buffer + layout->outer_udp), 49152 + flow % 16384);
	if (layout->ipv6)
		CHECK_EQUAL(udp6_words_sum(buffer, layout->ip), 0xffff);
	else
		CHECK_EQUAL(words_sum(buffer + layout->ip, IPV4_HEADER_BYTES, 0), 0xffff);
}

/* Each frame written is the template but for its flow, its checksum holds, and it matches itself. */
static void test_flows(void)
{
	struct flows flows = {.count = 700, .addresses = 300, .first_address = 0xc612ff00, .first_port = 65000};
	struct frame_set set = set_of(60, flows);
	struct frame_cursor cursor = {0};
	uint8_t buffer[128];

	for (uint32_t frame = 0; frame < 1500; frame++) {
		uint32_t flow = frame % 700;
		uint32_t address = 0xc612ff00 + flow % 300;
		uint16_t port = (uint16_t)(65000 + flow / 300);

		fill(buffer, sizeof(buffer));
		CHECK(frame_write(&set, &cursor, buffer) == set.template[0]);
		CHECK_EQUAL((uint32_t)buffer[26] << 24 | buffer[27] << 16 | buffer[28] << 8 | buffer[29], address);
		CHECK_EQUAL(buffer[34] << 8 | buffer[35], port);
		CHECK_EQUAL(words_sum(buffer + IPV4, IPV4_HEADER_BYTES, 0), 0xffff);
		CHECK(frame_matches(&set, frame, buffer, 60, SIGNATURE));
		CHECK(!frame_matches(&set, frame + 1, buffer, 60, SIGNATURE));
	}
	frame_set_free(&set);
}

/* A long frame costs one cache line when its tail is the pattern, and is copied whole when not. */
static void test_copied_bytes(void)
{
	struct flows one = {.count = 1, .addresses = 1};
	static const uint8_t order[] = {0};
	struct frame_set set = set_of(1514, one);
	struct frame_set odd = {.signature = SIGNATURE};
	struct frame_cursor cursor = {0};
	uint8_t bytes[MAX_FRAME_BYTES];
	uint8_t buffer[2048];

	CHECK_EQUAL(set.template[0]->copied, 64);
	make(bytes, 1514);
	bytes[1500] ^= 1;
	CHECK(frame_set_add(&odd, bytes, 1514) == NULL);
	CHECK(frame_set_finish(&odd, order, 1, one) == NULL);
	CHECK(odd.template[0]->copied >= 1501);
	fill(buffer, sizeof(buffer));
	frame_write(&odd, &cursor, buffer);
	CHECK(memcmp(buffer, bytes, 1514) == 0);
	CHECK(!frame_matches(&set, 0, buffer, 1514, SIGNATURE));
	CHECK(frame_matches(&odd, 0, buffer, 1514, SIGNATURE));
	frame_set_free(&set);
	frame_set_free(&odd);
}

/* What switches and routers may change does not count as corruption; anything else does. */
static void test_matching(void)
{
	struct flows one = {.count = 1, .addresses = 1};
	struct frame_set set = set_of(124, one);
	uint8_t bytes[MAX_FRAME_BYTES];

	make(bytes, 124);
	memset(bytes, 0xff, 12);
	CHECK(frame_matches(&set, 0, bytes, 124, SIGNATURE));
	bytes[22]--; /* TTL, with the checksum of RFC 1624 */
	bytes[24]++;
	CHECK(frame_matches(&set, 0, bytes, 124, SIGNATURE));
	for (size_t at = IPV4; at < 124; at++) {
		bool signature = at >= SIGNATURE && at < SIGNATURE + sizeof(struct signature);

		if (at == 34 || at == 35)
			continue; /* UDP source port: a flow's */
		bytes[at] ^= 0x10;
		CHECK(signature == frame_matches(&set, 0, bytes, 124, SIGNATURE));
		bytes[at] ^= 0x10;
	}
	CHECK(!frame_matches(&set, 0, bytes, 123, SIGNATURE));
	frame_set_free(&set);
}

static void test_mix(void)
{
	static const uint8_t order[] = {0, 1, 0, 2};
	static const size_t lengths[] = {60, 590, 1514};
	struct flows one = {.count = 1, .addresses = 1};
	struct frame_set set = {.signature = SIGNATURE};
	struct frame_cursor cursor = {0};
	uint8_t bytes[MAX_FRAME_BYTES];
	uint8_t buffer[2048];

	for (int at = 0; at < 3; at++) {
		make(bytes, lengths[at]);
		CHECK(frame_set_add(&set, bytes, lengths[at]) == NULL);
	}
	CHECK(frame_set_finish(&set, order, 4, one) == NULL);
	for (uint64_t seq = 0; seq < 40; seq++) {
		const struct template *template = frame_write(&set, &cursor, buffer);

		CHECK_EQUAL(template->length, lengths[order[seq % 4]]);
		CHECK(template == frame_set_at(&set, seq));
	}
	frame_set_free(&set);
}

/* Every kind of frame: flows, checksums and matching hold, whatever is around the innermost packet. */
static void test_kinds(void)
{
	struct flows flows = {.count = 19000, .addresses = 300, .first_address = 0xff0001, .first_port = 0xc020};
	static const uint8_t order[] = {0};
	uint8_t bytes[MAX_FRAME_BYTES], buffer[512];

	for (int kind = 0; kind < FRAME_KINDS; kind++) {
		struct frame_set set = {.signature = (uint16_t)frame_headers((enum frame_kind)kind)};
		struct frame_cursor cursor = {0};

		for (size_t length = set.signature + 18U; length < set.signature + 60U; length += 15) {
			frame_make(bytes, length, (enum frame_kind)kind);
			CHECK(frame_set_add(&set, bytes, length) == NULL);
		}
		CHECK(frame_set_finish(&set, order, 1, flows) == NULL);
		for (uint32_t seq = 0; seq < 20000; seq++)
			check_flow(&set, &cursor, seq, buffer, sizeof(buffer));
		frame_set_free(&set);
	}
}

/* UDP's checksum over IPv6 is never 0, which would say that there is none. */
static void test_checksum_of_zero(void)
{
	struct flows one = {.count = 1, .addresses = 1};
	static const uint8_t order[] = {0};
	struct frame_set set = {.signature = (uint16_t)frame_headers(PLAIN_IPV6)};
	uint8_t bytes[MAX_FRAME_BYTES];
	uint16_t checksum;

	frame_make(bytes, 80, PLAIN_IPV6);
	CHECK(frame_set_add(&set, bytes, 80) == NULL);
	CHECK(frame_set_finish(&set, order, 1, one) == NULL);
	frame_seal(&set, 0, bytes);
	/* What is missing to a sum of 0xffff goes into the signature, whose words were 0. */
	memcpy(&checksum, bytes + set.layout.udp + UDP_CHECKSUM_OFFSET, sizeof(checksum));
	memcpy(bytes + set.signature, &checksum, sizeof(checksum));
	frame_seal(&set, 0, bytes);
	CHECK_EQUAL(bytes[set.layout.udp + 6] << 8 | bytes[set.layout.udp + 7], 0xffff);
	CHECK(frame_matches(&set, 0, bytes, 80, set.signature));
	bytes[set.layout.udp + 6] = bytes[set.layout.udp + 7] = 0;
	CHECK(!frame_matches(&set, 0, bytes, 80, set.signature));
	frame_set_free(&set);
}

/* A tunnel's end takes off what is around; every byte of what is inside counts but hop limit, class and label. */
static void test_matching_without_the_tunnel(void)
{
	struct flows one = {.count = 1, .addresses = 1};
	static const uint8_t order[] = {0};
	struct frame_set set = {.signature = (uint16_t)frame_headers(VXLAN6_IPV6)};
	size_t around = (size_t)frame_headers(VXLAN6_IPV6) - frame_headers(PLAIN_IPV6);
	uint8_t bytes[MAX_FRAME_BYTES];
	uint8_t *inner = bytes + around;

	frame_make(bytes, 200, VXLAN6_IPV6);
	CHECK(frame_set_add(&set, bytes, 200) == NULL);
	CHECK(frame_set_finish(&set, order, 1, one) == NULL);
	frame_seal(&set, 0, bytes);
	for (size_t at = ETHERNET_HEADER_BYTES; at < 200 - around; at++) {
		bool may_differ = at < IPV4 + 4 || at == IPV4 + 7;

		CHECK(frame_matches(&set, 0, inner, 200 - around, frame_headers(PLAIN_IPV6)));
		inner[at] ^= 0x10;
		CHECK(frame_matches(&set, 0, inner, 200 - around, frame_headers(PLAIN_IPV6)) == may_differ);
		inner[at] ^= 0x10;
	}
	CHECK(!frame_matches(&set, 0, inner, 199 - around, frame_headers(PLAIN_IPV6)));
	frame_set_free(&set);
}

static void test_refusals(void)
{
	struct flows one = {.count = 1, .addresses = 1};
	struct flows many = {.count = 100000, .addresses = 1, .first_port = 100};
	static const uint8_t order[] = {0, 1};
	struct frame_set set = {.signature = 46};
	struct frame_set good = {.signature = SIGNATURE};
	uint8_t bytes[MAX_FRAME_BYTES];

	make(bytes, 60);
	CHECK(frame_set_add(&good, bytes, 59) != NULL);
	CHECK(frame_set_add(&set, bytes, 60) != NULL); /* where no IPv4 header stands */
	bytes[14] = 0x46;
	CHECK(frame_set_add(&good, bytes, 60) != NULL);
	bytes[14] = 0x45;
	bytes[39]++;
	CHECK(frame_set_add(&good, bytes, 60) != NULL); /* the UDP length is beyond the end */
	bytes[39] = 21;
	CHECK(frame_set_add(&good, bytes, 60) != NULL); /* and too short for the signature */
	bytes[39] = 60 - 34;
	CHECK(frame_set_finish(&good, order, 1, one) != NULL); /* no template */
	CHECK(frame_set_add(&good, bytes, 60) == NULL);
	CHECK(frame_set_finish(&good, order, 2, one) != NULL);
	CHECK(frame_set_finish(&good, order, 0, one) != NULL);
	CHECK(frame_set_finish(&good, order, 1, many) != NULL);
	CHECK(frame_set_finish(&good, order, 1, one) == NULL);
	frame_set_free(&good);
	good.signature = (uint16_t)frame_headers(VXLAN4_IPV6);
	frame_make(bytes, 200, VXLAN4_IPV6);
	CHECK(frame_set_add(&good, bytes, 200) == NULL);
	frame_make(bytes, 200, VXLAN6_IPV4);
	CHECK(frame_set_add(&good, bytes, 200) != NULL); /* other headers of the same length */
	frame_set_free(&good);
}

int main(void)
{
	test_flows();
	test_copied_bytes();
	test_matching();
	test_mix();
	test_kinds();
	test_checksum_of_zero();
	test_matching_without_the_tunnel();
	test_refusals();
	return 0;
}
