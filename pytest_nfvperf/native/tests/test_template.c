/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "signature.h"
#include "template.h"

enum { SIGNATURE = 42, IPV4 = 14 };

static uint16_t header_sum(const uint8_t *ipv4)
{
	uint32_t sum = 0;

	for (int at = 0; at < IPV4_HEADER_BYTES; at += 2)
		sum += (uint32_t)(ipv4[at] << 8 | ipv4[at + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* An IPv4/UDP frame whose tail is the pattern, with a right checksum. */
static void make(uint8_t *bytes, size_t length)
{
	static const uint8_t header[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0,
					 198, 18, 0, 1, 198, 19, 0, 1, 0xc0, 0x20, 0, 7, 0, 0, 0, 0};
	uint16_t checksum;

	for (size_t at = 0; at < length; at++)
		bytes[at] = pattern_byte(at);
	memcpy(bytes, header, sizeof(header));
	memset(bytes + SIGNATURE, 0, sizeof(struct signature));
	bytes[16] = (uint8_t)((length - IPV4) >> 8);
	bytes[17] = (uint8_t)(length - IPV4);
	bytes[38] = (uint8_t)((length - 34) >> 8);
	bytes[39] = (uint8_t)(length - 34);
	checksum = (uint16_t)~header_sum(bytes + IPV4);
	bytes[24] = (uint8_t)(checksum >> 8);
	bytes[25] = (uint8_t)checksum;
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

static void fill(uint8_t *buffer, size_t size)
{
	for (size_t at = 0; at < size; at++)
		buffer[at] = pattern_byte(at);
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
		CHECK_EQUAL(buffer[26] << 24 | buffer[27] << 16 | buffer[28] << 8 | buffer[29], (int32_t)address);
		CHECK_EQUAL(buffer[34] << 8 | buffer[35], port);
		CHECK_EQUAL(header_sum(buffer + IPV4), 0xffff);
		CHECK(frame_matches(&set, frame, buffer, 60, IPV4));
		CHECK(!frame_matches(&set, frame + 1, buffer, 60, IPV4));
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
	CHECK(!frame_matches(&set, 0, buffer, 1514, IPV4));
	CHECK(frame_matches(&odd, 0, buffer, 1514, IPV4));
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
	CHECK(frame_matches(&set, 0, bytes, 124, IPV4));
	bytes[22]--; /* TTL, with the checksum of RFC 1624 */
	bytes[24]++;
	CHECK(frame_matches(&set, 0, bytes, 124, IPV4));
	for (size_t at = IPV4; at < 124; at++) {
		bool signature = at >= SIGNATURE && at < SIGNATURE + sizeof(struct signature);

		if (at == 34 || at == 35)
			continue; /* UDP source port: a flow's */
		bytes[at] ^= 0x10;
		CHECK(signature == frame_matches(&set, 0, bytes, 124, IPV4));
		bytes[at] ^= 0x10;
	}
	CHECK(!frame_matches(&set, 0, bytes, 123, IPV4));
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
	CHECK(frame_set_finish(&good, order, 1, one) != NULL); /* no template */
	CHECK(frame_set_add(&good, bytes, 60) == NULL);
	CHECK(frame_set_finish(&good, order, 2, one) != NULL);
	CHECK(frame_set_finish(&good, order, 0, one) != NULL);
	CHECK(frame_set_finish(&good, order, 1, many) != NULL);
	CHECK(frame_set_finish(&good, order, 1, one) == NULL);
	frame_set_free(&good);
}

int main(void)
{
	test_flows();
	test_copied_bytes();
	test_matching();
	test_mix();
	test_refusals();
	return 0;
}
