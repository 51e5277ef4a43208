/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "check.h"
#include "frame.h"
#include "frames.h"

enum { IPV4 = 14, UDP = 34, SIGNATURE = 42, ROOM = 512, FRONT = 16 };

static const uint16_t only_first[] = {0};

/* The flows of plain traffic: source address, UDP source port, and the outer one's of a VXLAN. */
struct flows {
	uint32_t count, addresses, first_address;
	uint16_t first_port;
};

static void vary(struct frame_set *set, struct field field)
{
	field.step = 1;
	field.bits = (uint8_t)(8 * field.size);
	set->field[set->fields++] = field;
}

/* What frames.py makes of a Traffic. */
static struct frame_set set_of_kind(enum frame_kind kind, struct flows flows)
{
	uint16_t headers = (uint16_t)frame_headers(kind), udp = headers - 8;
	bool ipv6 = inner_version(kind) == 6;
	uint16_t ip = udp - (ipv6 ? 40 : 20);
	uint64_t ports = (flows.count - 1) / flows.addresses + 1;
	struct frame_set set = {.combinations = flows.count, .compared_from = ip};
	uint8_t inner;

	set.changeable[set.changeables++] = (struct byte_range){ipv6 ? ip : ip + 1, ipv6 ? 4 : 1};
	set.changeable[set.changeables++] = (struct byte_range){ip + (ipv6 ? 7 : 8), 1};
	if (!ipv6)
		set.changeable[set.changeables++] = (struct byte_range){ip + 10, 2};
	if (flows.addresses > 1)
		vary(&set, (struct field){.offset = ip + (ipv6 ? 20 : 12), .size = 4, .first = flows.first_address,
					  .count = flows.addresses, .every = 1});
	if (ports > 1)
		vary(&set, (struct field){.offset = udp, .size = 2, .first = flows.first_port, .count = ports,
					  .every = flows.addresses});
	inner = (uint8_t)((1U << set.fields) - 1U);
	if (outer_version(kind) && flows.count > 1)
		vary(&set, (struct field){.offset = outer_version(kind) == 4 ? 34 : 54, .size = 2, .first = 49152,
					  .count = 16384, .every = 1});
	set.checksum[set.checksums++] =
		ipv6 ? (struct checksum){.offset = udp + 6, .start = udp, .fields = inner, .signature = true,
					 .never_zero = true} :
		       (struct checksum){.offset = ip + 10, .start = ip, .fields = flows.addresses > 1};
	return set;
}

static void add(struct frame_set *set, enum frame_kind kind, size_t length)
{
	uint8_t bytes[MAX_FRAME_BYTES];

	frame_make(bytes, length, kind);
	if (inner_version(kind) == 4 && set->checksums != 0)
		set->checksum[0].end = (uint16_t)(length - set->checksum[0].start - 20);
	CHECK(frame_set_add(set, bytes, length, frame_headers(kind)) == NULL);
}

static struct frame_set set_of(size_t length, struct flows flows)
{
	struct frame_set set = set_of_kind(PLAIN_IPV4, flows);

	add(&set, PLAIN_IPV4, length);
	CHECK(frame_set_finish(&set, only_first, 1) == NULL);
	return set;
}

static uint32_t number_at(const uint8_t *bytes, size_t size)
{
	uint32_t number = 0;

	for (size_t at = 0; at < size; at++)
		number = number << 8 | bytes[at];
	return number;
}

static void fill(uint8_t *buffer, size_t size)
{
	for (size_t at = 0; at < size; at++)
		buffer[at] = pattern_byte(at);
}

static void sign(const struct template *template, uint8_t *bytes, uint32_t seed)
{
	for (size_t at = 0; at < sizeof(struct signature); at++)
		bytes[template->signature + at] = (uint8_t)(seed * 2654435761U >> (at % 4 * 8) ^ at);
}

static bool matches(const struct frame_set *set, uint64_t seq, const uint8_t *bytes, size_t place)
{
	struct frame_cursor at = frame_cursor_at(set, seq);

	return frame_matches(set, &at, bytes, place, true);
}

/* The next frame, sealed: it has the flow of its number, its checksums hold, and it is no other flow's. */
static void check_flow(const struct frame_set *set, enum frame_kind kind, struct flows flows, struct frame_cursor *cursor,
		       uint32_t seq, uint8_t *buffer)
{
	size_t udp = frame_headers(kind) - 8, ip = udp - (inner_version(kind) == 4 ? 20 : 40);
	uint32_t flow = seq % flows.count;
	struct frame_cursor here = frame_cursor_at(set, seq), next = frame_cursor_at(set, seq + 1);

	fill(buffer, ROOM);
	sign(frame_write(set, cursor, buffer), buffer, seq);
	frame_seal(set, cursor, buffer);
	frame_next(set, cursor);
	CHECK(frame_matches(set, &here, buffer, frame_headers(kind), true));
	CHECK(frame_is_as_sent(set, &here, buffer, frame_headers(kind)));
	CHECK(!frame_matches(set, &next, buffer, frame_headers(kind), true));
	CHECK(!frame_is_as_sent(set, &next, buffer, frame_headers(kind)));
	CHECK_EQUAL(number_at(buffer + udp, 2), flows.first_port + flow / flows.addresses);
	CHECK_EQUAL(number_at(buffer + ip + (inner_version(kind) == 4 ? 12 : 20), 4),
		    flows.first_address + flow % flows.addresses);
	if (outer_version(kind) != 0)
		CHECK_EQUAL(number_at(buffer + (outer_version(kind) == 4 ? 34 : 54), 2), 49152 + flow % 16384);
	if (inner_version(kind) == 6)
		CHECK_EQUAL(udp6_words_sum(buffer, ip), 0xffff);
	else
		CHECK_EQUAL(words_sum(buffer + ip, 20, 0), 0xffff);
}

/* Every kind of plain traffic: flows, checksums and matching hold, whatever is around the innermost packet. */
static void test_kinds(void)
{
	static const struct flows many[] = {{19000, 300, 0xff0001, 0xc020}, {700, 700, 0xc612ff00, 0xc020},
					    {65000, 1000, 0xc612ff00, 0xc000}};
	uint8_t buffer[ROOM];

	for (int each = 0; each < 3 * FRAME_KINDS; each++) {
		enum frame_kind kind = (enum frame_kind)(each / 3);
		struct flows flows = many[each % 3];
		/* Of two fields at most, which count up together. */
		bool quick = outer_version(kind) == 0 || each % 3 == 1;

		for (size_t length = frame_headers(kind) + 18U; length < frame_headers(kind) + 60U; length += 15) {
			struct frame_set set = set_of_kind(kind, flows);
			struct frame_cursor cursor;

			add(&set, kind, length);
			CHECK(frame_set_finish(&set, only_first, 1) == NULL);
			cursor = frame_cursor_at(&set, 0);
			for (uint32_t seq = 0; seq < flows.count + 100; seq++)
				check_flow(&set, kind, flows, &cursor, seq, buffer);
			CHECK_EQUAL(set.quick, quick && inner_version(kind) == 4);
			CHECK_EQUAL(set.quick_signed, quick && inner_version(kind) == 6);
			frame_set_free(&set);
		}
	}
}

/* A long frame costs one cache line when its tail is the pattern, and is copied whole when not. */
static void test_copied_bytes(void)
{
	struct flows one = {1, 1, 0, 0};
	struct frame_set set = set_of(1514, one), odd = set_of_kind(PLAIN_IPV4, one);
	struct frame_cursor cursor;
	uint8_t bytes[MAX_FRAME_BYTES], buffer[2048];

	CHECK_EQUAL(set.template[0]->copied, 64);
	frame_make(bytes, 1514, PLAIN_IPV4);
	bytes[1500] ^= 1;
	odd.checksum[0].end = 1514 - 34;
	CHECK(frame_set_add(&odd, bytes, 1514, SIGNATURE) == NULL);
	CHECK(frame_set_add(&odd, bytes, 60, SIGNATURE) == NULL);
	odd.checksums = 0;
	CHECK(frame_set_finish(&odd, only_first, 1) == NULL);
	CHECK(odd.template[0]->copied >= 1501);
	cursor = frame_cursor_at(&odd, 0);
	fill(buffer, sizeof(buffer));
	frame_write(&odd, &cursor, buffer);
	CHECK(memcmp(buffer, bytes, 1514) == 0);
	CHECK(!matches(&set, 0, buffer, SIGNATURE));
	CHECK(matches(&odd, 0, buffer, SIGNATURE));
	frame_set_widen(&odd, frame_set_copied(&odd));
	CHECK_EQUAL(odd.template[1]->copied, 64); /* no more than there is of it */
	frame_set_widen(&set, 128);
	CHECK_EQUAL(set.template[0]->copied, 128);
	frame_set_widen(&set, UINT16_MAX);
	CHECK_EQUAL(set.template[0]->copied, 1514);
	frame_set_free(&set);
	frame_set_free(&odd);
}

/* What switches and routers may change does not count as corruption; anything else does. */
static void test_matching(void)
{
	static const size_t lengths[] = {60, 124, 125, 300};

	for (size_t each = 0; each < 4; each++) {
		size_t length = lengths[each];
		struct frame_set set = set_of(length, (struct flows){1, 1, 0, 0});
		struct frame_cursor first = frame_cursor_at(&set, 0);
		uint8_t bytes[MAX_FRAME_BYTES];

		frame_make(bytes, length, PLAIN_IPV4);
		memset(bytes, 0xff, 12);
		CHECK(matches(&set, 0, bytes, SIGNATURE));
		bytes[22]--; /* TTL, with the checksum of RFC 1624 */
		bytes[24]++;
		CHECK(matches(&set, 0, bytes, SIGNATURE));
		CHECK(!frame_is_as_sent(&set, &first, bytes, SIGNATURE));
		bytes[24]--;
		CHECK(!matches(&set, 0, bytes, SIGNATURE));
		bytes[22]++;
		for (size_t at = IPV4; at < length; at++) {
			bool signature = at >= SIGNATURE && at < SIGNATURE + sizeof(struct signature);

			CHECK(frame_is_as_sent(&set, &first, bytes, SIGNATURE));
			bytes[at] ^= 0x10;
			CHECK_EQUAL(matches(&set, 0, bytes, SIGNATURE), signature);
			/* Of a long frame the headers are looked at, and what is behind them now and then. */
			CHECK_EQUAL(frame_matches(&set, &first, bytes, SIGNATURE, false),
				    signature || (length > MAX_COMPARED && at >= HEAD_UNIT));
			if (length <= MAX_COMPARED && at != 15 && at != 22)
				CHECK_EQUAL(frame_is_as_sent(&set, &first, bytes, SIGNATURE), signature);
			bytes[at] ^= 0x10;
		}
		frame_set_free(&set);
	}
}

static void test_mix(void)
{
	static const uint16_t order[] = {0, 1, 0, 2};
	static const size_t lengths[] = {60, 590, 1514};
	struct frame_set set = {.combinations = 1};
	struct frame_cursor cursor;
	uint8_t buffer[2048];

	for (int at = 0; at < 3; at++)
		add(&set, PLAIN_IPV4, lengths[at]);
	CHECK(frame_set_finish(&set, order, 4) == NULL);
	cursor = frame_cursor_at(&set, 0);
	for (uint64_t seq = 0; seq < 40; seq++, frame_next(&set, &cursor)) {
		const struct template *template = frame_write(&set, &cursor, buffer);

		CHECK_EQUAL(template->length, lengths[order[seq % 4]]);
		CHECK(template == frame_set_at(&set, seq));
	}
	frame_set_free(&set);
}

/* A capture: as many templates as there may be, each of its own length and with its own place of the signature. */
static void test_many_templates(void)
{
	struct frame_set set = {.combinations = 1};
	uint16_t *order = calloc(MAX_ORDER, sizeof(*order));
	uint8_t bytes[MAX_FRAME_BYTES] = {0}, buffer[2048];
	struct frame_cursor cursor;

	for (uint32_t at = 0; at < MAX_TEMPLATES; at++) {
		order[at] = (uint16_t)(MAX_TEMPLATES - 1 - at);
		memcpy(bytes + 20, &at, sizeof(at));
		CHECK(frame_set_add(&set, bytes, 60 + at % 100, 24 + at % 20) == NULL);
	}
	CHECK(strstr(frame_set_add(&set, bytes, 60, 24), "65536 templates") != NULL);
	CHECK(frame_set_finish(&set, order, MAX_ORDER) == NULL);
	cursor = frame_cursor_at(&set, 0);
	for (uint32_t seq = 0; seq < MAX_ORDER + 10; seq++, frame_next(&set, &cursor)) {
		uint32_t number = MAX_TEMPLATES - 1 - seq % MAX_ORDER;

		CHECK_EQUAL(frame_write(&set, &cursor, buffer)->length, 60 + number % 100);
		CHECK(memcmp(buffer + 20, &number, sizeof(number)) == 0);
	}
	frame_set_free(&set);
	free(order);
}

/* UDP's checksum over IPv6 is never 0, which would say that there is none. */
static void test_checksum_of_zero(void)
{
	struct frame_set set = set_of_kind(PLAIN_IPV6, (struct flows){1, 1, 0, 0});
	size_t place = frame_headers(PLAIN_IPV6);
	struct frame_cursor first;
	uint8_t bytes[MAX_FRAME_BYTES];

	add(&set, PLAIN_IPV6, 80);
	frame_make(bytes, 80, PLAIN_IPV6);
	CHECK(frame_set_finish(&set, only_first, 1) == NULL);
	first = frame_cursor_at(&set, 0);
	frame_seal(&set, &first, bytes);
	/* What is missing to a sum of 0xffff goes into the signature, whose words were 0. */
	memcpy(bytes + place, bytes + place - 2, 2);
	frame_seal(&set, &first, bytes);
	CHECK_EQUAL(number_at(bytes + place - 2, 2), 0xffff);
	CHECK(frame_matches(&set, &first, bytes, place, true));
	CHECK(frame_is_as_sent(&set, &first, bytes, place));
	bytes[place - 2] = bytes[place - 1] = 0;
	CHECK(!frame_matches(&set, &first, bytes, place, true));
	frame_set_free(&set);
}

/* A tunnel's end takes off what is around; every byte of what is inside counts but hop limit, class and label. */
static void test_matching_without_the_tunnel(void)
{
	struct frame_set set = set_of_kind(VXLAN6_IPV6, (struct flows){1, 1, 0, 0});
	size_t place = frame_headers(PLAIN_IPV6), around = frame_headers(VXLAN6_IPV6) - place;
	struct frame_cursor first;
	uint8_t bytes[MAX_FRAME_BYTES], *inner = bytes + around;

	frame_make(bytes, 200, VXLAN6_IPV6);
	add(&set, VXLAN6_IPV6, 200);
	CHECK(frame_set_finish(&set, only_first, 1) == NULL);
	first = frame_cursor_at(&set, 0);
	frame_seal(&set, &first, bytes);
	for (size_t at = 14; at < 200 - around; at++) {
		bool signature = at >= place && at < place + sizeof(struct signature);
		bool may_differ = at < IPV4 + 4 || at == IPV4 + 7;

		CHECK(frame_matches(&set, &first, inner, place, true));
		CHECK(frame_is_as_sent(&set, &first, inner, place));
		inner[at] ^= 0x10;
		/* The checksum is over the signature, too. */
		CHECK_EQUAL(frame_matches(&set, &first, inner, place, true), may_differ);
		CHECK(!signature || !frame_is_as_sent(&set, &first, inner, place));
		inner[at] ^= 0x10;
	}
	frame_set_free(&set);
}

/* A tag that was taken off: the frame begins so much later, and what is looked at begins in front of the buffer. */
static void test_matching_without_a_tag(void)
{
	struct frame_set set = {.combinations = 1, .compared_from = 18};
	uint8_t bytes[MAX_FRAME_BYTES], *exact = malloc(FRONT_BYTES + 128);
	struct frame_cursor first;

	frame_make(bytes, 64, PLAIN_IPV4);
	memmove(bytes + 16, bytes + 12, 48);
	CHECK(frame_set_add(&set, bytes, 64, SIGNATURE + 4) == NULL);
	CHECK(frame_set_finish(&set, only_first, 1) == NULL);
	first = frame_cursor_at(&set, 0);
	memcpy(exact + FRONT_BYTES, bytes, 12);
	memcpy(exact + FRONT_BYTES + 12, bytes + 16, 48);
	CHECK(frame_is_as_sent(&set, &first, exact + FRONT_BYTES, SIGNATURE));
	CHECK(frame_matches(&set, &first, exact + FRONT_BYTES, SIGNATURE, true));
	exact[FRONT_BYTES + 14] ^= 1;
	CHECK(!frame_is_as_sent(&set, &first, exact + FRONT_BYTES, SIGNATURE));
	CHECK(!frame_matches(&set, &first, exact + FRONT_BYTES, SIGNATURE, true));
	/* So much is gone that it begins behind what is compared. */
	CHECK(!frame_is_as_sent(&set, &first, exact + FRONT_BYTES, 20));
	CHECK(!frame_matches(&set, &first, exact + FRONT_BYTES, 20, true));
	free(exact);
	frame_set_free(&set);
}

/* A TCP segment whose addresses, ports and TTL a router translates: the checksums must fit what came. */
static void test_translated(void)
{
	static const size_t lengths[] = {76, 77, 200};

	for (size_t each = 0; each < 3; each++) {
		size_t length = lengths[each];
		struct frame_set set = {.combinations = 50, .compared_from = 14};
		uint8_t bytes[MAX_FRAME_BYTES], got[MAX_FRAME_BYTES];
		struct frame_cursor at;

		frame_make(bytes, length, PLAIN_IPV4);
		bytes[23] = 6;
		memset(bytes + 54, 0, 14);
		word_put(bytes + 24, 0);
		word_put(bytes + 24, (uint16_t)~words_sum(bytes + 14, 20, 0));
		word_put(bytes + 50, 0);
		word_put(bytes + 50, (uint16_t)~words_sum(bytes + 34, length - 34,
							  words_sum(bytes + 26, 8, 6 + (uint32_t)length - 34)));
		vary(&set, (struct field){.offset = 26, .size = 4, .first = 0xc6120001, .count = 50, .every = 1});
		set.checksum[0] = (struct checksum){.offset = 24, .start = 14, .end = (uint16_t)(length - 34), .fields = 1};
		set.checksum[1] = (struct checksum){.offset = 50, .start = 34, .fields = 1, .signature = true};
		set.checksums = 2;
		memcpy(set.changeable, (struct byte_range[]){{50, 2}, {22, 1}, {34, 2}, {24, 2}, {26, 4}},
		       5 * sizeof(struct byte_range));
		set.changeables = 5;
		CHECK(frame_set_add(&set, bytes, length, 54) == NULL);
		CHECK(frame_set_finish(&set, only_first, 1) == NULL);
		for (uint32_t seq = 0; seq < 60; seq++) {
			at = frame_cursor_at(&set, seq);
			fill(got, sizeof(got));
			sign(frame_write(&set, &at, got), got, seq);
			frame_seal(&set, &at, got);
			CHECK_EQUAL(words_sum(got + 34, length - 34, words_sum(got + 26, 8, 6 + (uint32_t)length - 34)), 0xffff);
			CHECK(frame_is_as_sent(&set, &at, got, 54));
			got[27] ^= 1; /* the address alone, and the checksum of its own header with it */
			word_put(got + 24, 0);
			word_put(got + 24, (uint16_t)~words_sum(got + 14, 20, 0));
			CHECK(!frame_matches(&set, &at, got, 54, true));
			memcpy(got + 26, (const uint8_t[]){100, 64, 9, (uint8_t)seq}, 4);
			word_put(got + 34, 1024 + seq);
			got[22]--;
			CHECK(!frame_matches(&set, &at, got, 54, true)); /* none was mended */
			word_put(got + 24, 0);
			word_put(got + 24, (uint16_t)~words_sum(got + 14, 20, 0));
			CHECK(!frame_matches(&set, &at, got, 54, true)); /* TCP's was not */
			word_put(got + 50, 0);
			word_put(got + 50, (uint16_t)~words_sum(got + 34, length - 34,
								words_sum(got + 26, 8, 6 + (uint32_t)length - 34)));
			CHECK(frame_matches(&set, &at, got, 54, true));
			got[36] ^= 1;
			CHECK(!frame_matches(&set, &at, got, 54, true));
		}
		frame_set_free(&set);
	}
}

/* Frames of a capture: each has a checksum of its own that the signature changes, and counts from there on. */
static void test_balances(void)
{
	static const uint16_t order[] = {1, 0, 2};
	struct frame_set set = {.combinations = 1};
	uint8_t bytes[MAX_FRAME_BYTES], buffer[ROOM];

	for (int each = 0; each < 3; each++) {
		enum frame_kind kind = each == 0 ? PLAIN_IPV6 : VXLAN4_IPV6;
		size_t place = frame_headers(kind) + (each == 2 ? 20U : 0);

		frame_make(bytes, 200, each == 0 ? PLAIN_IPV6 : VXLAN4_IPV6);
		for (size_t at = 0; each == 2 && at < 14; at++)
			bytes[frame_headers(kind) + at] = (uint8_t)(at * 9);
		memset(bytes + place, 0, 14);
		word_put(bytes + frame_headers(kind) - 2, 0);
		word_put(bytes + frame_headers(kind) - 2, (uint16_t)~udp6_words_sum(bytes, frame_headers(kind) - 48U));
		CHECK(frame_set_add(&set, bytes, 200, place) == NULL);
		CHECK(frame_set_balance(&set, (uint32_t)each, frame_headers(kind) - 2U, true) == NULL);
	}
	CHECK(strstr(frame_set_balance(&set, 0, frame_headers(PLAIN_IPV6), true), "balances[0] overlaps") != NULL);
	CHECK(strstr(frame_set_balance(&set, 0, 199, true), "beyond the end") != NULL);
	CHECK(frame_set_finish(&set, order, 3) == NULL);
	CHECK(set.sealed);
	for (uint32_t seq = 0; seq < 30; seq++) {
		struct frame_cursor at = frame_cursor_at(&set, seq);
		const struct template *template = frame_template(&set, &at);
		enum frame_kind kind = order[seq % 3] == 0 ? PLAIN_IPV6 : VXLAN4_IPV6;

		fill(buffer, ROOM);
		frame_write(&set, &at, buffer);
		sign(template, buffer, seq);
		frame_seal(&set, &at, buffer);
		CHECK_EQUAL(udp6_words_sum(buffer, frame_headers(kind) - 48U), 0xffff);
		buffer[16] ^= 1; /* in front of the signature anything may change */
		CHECK(frame_matches(&set, &at, buffer, template->signature, true));
		CHECK(frame_is_as_sent(&set, &at, buffer, template->signature));
		buffer[template->signature + 15] ^= 1;
		CHECK(!frame_matches(&set, &at, buffer, template->signature, true));
	}
	frame_set_free(&set);
}

/* RFC 3720 appendix B.4, and the check value of the polynomial. */
static void test_crc32c(void)
{
	uint8_t bytes[32];

	memset(bytes, 0, 32);
	CHECK_EQUAL(crc32c(0, bytes, 32), 0x8a9136aaU);
	memset(bytes, 0xff, 32);
	CHECK_EQUAL(crc32c(0, bytes, 32), 0x62a8ab43U);
	for (uint8_t at = 0; at < 32; at++)
		bytes[at] = at;
	CHECK_EQUAL(crc32c(0, bytes, 32), 0x46dd794eU);
	CHECK_EQUAL(crc32c(crc32c(0, bytes, 13), bytes + 13, 19), 0x46dd794eU);
	for (uint8_t at = 0; at < 32; at++)
		bytes[at] = 31 - at;
	CHECK_EQUAL(crc32c(0, bytes, 32), 0x113fdb5cU);
	CHECK_EQUAL(crc32c(0, (const uint8_t *)"123456789", 9), 0xe3069283U);
}

static struct frame_set broken(void)
{
	struct frame_set set = {.combinations = 10, .compared_from = 14, .fields = 2, .checksums = 2, .changeables = 1};
	uint8_t bytes[MAX_FRAME_BYTES];

	set.field[0] = (struct field){.offset = 26, .size = 4, .bits = 32, .step = 1, .count = 10, .every = 1};
	set.field[1] = (struct field){.offset = 34, .size = 2, .bits = 12, .step = 1, .count = 10, .every = 1};
	set.checksum[0] = (struct checksum){.offset = 24, .start = 14, .end = 26, .fields = 1};
	set.checksum[1] = (struct checksum){.offset = 40, .start = 34};
	set.changeable[0] = (struct byte_range){22, 1};
	frame_make(bytes, 60, PLAIN_IPV4);
	CHECK(frame_set_add(&set, bytes, 60, SIGNATURE) == NULL);
	return set;
}

#define REFUSED(change, wanted) do { \
	struct frame_set set = broken(); \
	const char *wrong; \
	change; \
	wrong = frame_set_finish(&set, only_first, 1); \
	if (wrong == NULL || strcmp(wrong, wanted) != 0) \
		fprintf(stderr, "%s\n", wrong != NULL ? wrong : "taken"); \
	CHECK(wrong != NULL && strcmp(wrong, wanted) == 0); \
	frame_set_free(&set); \
} while (0)

static void test_refusals(void)
{
	static const uint16_t order[] = {0, 1};
	struct frame_set good = broken();
	uint8_t bytes[MAX_FRAME_BYTES] = {0};

	CHECK(strstr(frame_set_add(&good, bytes, 59, SIGNATURE), "60 to 9216 bytes") != NULL);
	CHECK(strstr(frame_set_add(&good, bytes, 60, 47), "use a longer frame") != NULL);
	CHECK(strstr(frame_set_add(&good, bytes, 60, 13), "behind the first 14") != NULL);
	CHECK(strstr(frame_set_finish(&good, order, 2), "not there") != NULL);
	CHECK(strstr(frame_set_finish(&good, order, 0), "1 to 65536 entries") != NULL);
	CHECK(frame_set_finish(&good, order, 1) == NULL);
	frame_set_free(&good);
	CHECK(strstr(frame_set_finish(&good, order, 1), "at least one template") != NULL);
	REFUSED(set.field[1].offset = 59, "fields[1] is beyond the end of a template");
	REFUSED(set.field[1].size = 3, "fields[1] must have a size of 1, 2, 4 or 8 bytes");
	REFUSED(set.field[1].shift = 5, "fields[1] has bits that do not fit its window");
	REFUSED(set.field[1].bits = 3, "fields[1] has too few bits for its count of values");
	REFUSED(set.field[1].offset = 28, "fields[1] overlaps a field before it");
	REFUSED(set.field[1].offset = 41, "fields[1] overlaps the signature");
	REFUSED(set.field[1].count = 0, "fields[1] must have a count and an every of at least 1");
	REFUSED(set.field[1].every = 0, "fields[1] must have a count and an every of at least 1");
	REFUSED((set.field[0].random = true, set.field[0].count = (1 << 24) + 1),
		"fields[0] is one too many in random order: those of a stream have at most 16777216 values together");
	REFUSED((set.field[0].random = set.field[1].random = true, set.field[0].count = 1 << 24),
		"fields[1] is one too many in random order: those of a stream have at most 16777216 values together");
	REFUSED(set.field[0].from = -1, "fields[0] must learn a value that is in front of the signature");
	REFUSED(set.checksum[0].offset = 59, "checksums[0] is beyond the end of a template");
	REFUSED(set.checksum[0].offset = 28, "checksums[0] overlaps a field");
	REFUSED(set.checksum[1].offset = 23, "checksums[1] overlaps a checksum before it");
	REFUSED(set.checksum[1].offset = 45, "checksums[1] overlaps the signature");
	REFUSED(set.checksum[1].crc32c = true, "checksums[1] overlaps the signature");
	REFUSED((set.checksum[0].offset = 20, set.checksum[0].crc32c = true, set.checksum[0].end = 47), "checksums[0] must start before its end");
	REFUSED(set.checksum[0].fields = 4, "checksums[0] names a field that is not there");
	REFUSED(set.checksum[0].checksums = 2,
		"checksums[0] names a checksum that does not stand before it: inner ones come first");
	REFUSED(set.changeable[0].offset = 60, "changeable[0] is beyond the end of a template");
	REFUSED(set.compared_from = 61, "compared_from is beyond the end of a template");
	REFUSED(set.balanced = true, "balances are for templates that have no fields, checksums and changeable bytes in common");
	REFUSED(set.combinations = 0, "combinations must be 1 to 2^63 - 1");
}

int main(void)
{
	test_kinds();
	test_copied_bytes();
	test_matching();
	test_mix();
	test_many_templates();
	test_checksum_of_zero();
	test_matching_without_the_tunnel();
	test_matching_without_a_tag();
	test_translated();
	test_balances();
	test_crc32c();
	test_refusals();
	return 0;
}
