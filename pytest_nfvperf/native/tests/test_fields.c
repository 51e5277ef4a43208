/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of fields and checksums as chance makes them, against a straightforward computation of each frame. */
#include <stdlib.h>

#include "check.h"
#include "frame.h"

enum { ROOM = 512, SETS = 3000, FRAMES = 60 };

static uint64_t seed = 42;

static uint32_t some(uint32_t below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(seed >> 33) % below;
}

/* What is where in a frame. */
struct chance {
	struct frame_set set;
	size_t length[3], signature[3];
	uint8_t bytes[3][ROOM];
	uint16_t pseudo[MAX_CHECKSUMS]; /* four bytes that a checksum is over, too; 0: there are none */
	unsigned int templates;
	bool taken[ROOM]; /* by a field, checksum or signature */
};

static bool take(struct chance *chance, size_t first, size_t count)
{
	for (size_t at = first; at < first + count; at++)
		if (chance->taken[at])
			return false;
	for (size_t at = first; at < first + count; at++)
		chance->taken[at] = true;
	return true;
}

/* Bit by bit, the first of a byte the highest. */
static uint64_t bits_at(const uint8_t *bytes, size_t first, size_t count)
{
	uint64_t number = 0;

	for (size_t at = first; at < first + count; at++)
		number = number << 1 | (bytes[at / 8] >> (7 - at % 8) & 1);
	return number;
}

static size_t first_bit(const struct field *field)
{
	return 8U * (field->offset + field->size) - field->shift - field->bits;
}

static void add_fields(struct chance *chance, size_t least)
{
	struct frame_set *set = &chance->set;
	uint32_t wanted = some(MAX_FIELDS + 1);

	while (set->fields < wanted) {
		static const uint8_t sizes[] = {1, 2, 4, 8};
		struct field field = {.size = sizes[some(4)], .random = some(3) == 0, .seed = some(1000)};
		uint64_t most;

		field.offset = (uint16_t)(14 + some((uint32_t)least - 14 - field.size));
		field.bits = (uint8_t)(1 + some(8U * field.size));
		field.shift = (uint8_t)some(8U * field.size - field.bits + 1);
		if (!take(chance, first_bit(&field) / 8, (first_bit(&field) % 8 + field.bits + 7) / 8))
			break;
		most = field.bits < 10 ? 1U << field.bits : 700;
		field.count = 1 + some((uint32_t)most);
		if (field.bits == 64 && !field.random)
			field.count = (uint64_t)some(1U << 30) << 33 | 1;
		field.every = 1 + some(4);
		field.first = (uint64_t)some(1U << 30) << 40 ^ some(1U << 30);
		field.step = some(3) ? 1 + some(5) : UINT64_MAX - some(3);
		set->field[set->fields++] = field;
	}
	set->combinations = 1 + some(3000);
}

static bool within(const struct field *field, size_t first, size_t end)
{
	return first_bit(field) >= 8 * first && first_bit(field) + field->bits <= 8 * end;
}

static bool outside(const struct field *field, size_t first, size_t end)
{
	return first_bit(field) >= 8 * end || first_bit(field) + field->bits <= 8 * first;
}

/* Over a piece of the frame that no field and no other checksum is only in part in. */
static void add_checksum(struct chance *chance, size_t least)
{
	struct frame_set *set = &chance->set;
	struct checksum checksum = {.crc32c = some(4) == 0, .never_zero = some(2)};
	size_t bytes = checksum.crc32c ? 4 : 2, end = least - (chance->templates > 1 ? 0 : some(10)), first = some((uint32_t)end), signature = chance->signature[0];
	uint16_t pseudo = !checksum.crc32c && some(2) ? (uint16_t)(some(4) * 2 + first % 2) : 0;

	/* The end moves with that of the frame: of frames of several lengths it is that of all of them. */
	checksum.start = (uint16_t)first;
	checksum.end = (uint16_t)(least - end);
	checksum.offset = (uint16_t)(14 + some((uint32_t)least - 18));
	checksum.signature = signature >= first && signature + 14 <= end;
	if ((!checksum.signature && signature < end && signature + 14 > first) || (pseudo != 0 && pseudo + 4U > first))
		return;
	for (unsigned int at = 0; at < set->fields; at++) {
		if (within(&set->field[at], first, end))
			checksum.fields |= (uint8_t)(1U << at);
		else if (!outside(&set->field[at], first, end))
			return;
		if (pseudo != 0 && within(&set->field[at], pseudo, pseudo + 4U))
			checksum.fields |= (uint8_t)(1U << at);
		else if (pseudo != 0 && !outside(&set->field[at], pseudo, pseudo + 4U))
			return;
	}
	for (unsigned int at = 0; at < set->checksums; at++) {
		size_t other = set->checksum[at].offset, behind = other + (set->checksum[at].crc32c ? 4 : 2);

		if (other >= first && behind <= end)
			checksum.checksums |= (uint8_t)(1U << at);
		else if (other < end && behind > first)
			return;
		if (pseudo != 0 && other < pseudo + 4U && behind > pseudo)
			return;
		/* One that stands in what an earlier one is over would change that. */
		if (checksum.offset + bytes > set->checksum[at].start && checksum.offset < least - set->checksum[at].end)
			return;
		if (chance->pseudo[at] != 0 && checksum.offset + bytes > chance->pseudo[at] &&
		    checksum.offset < chance->pseudo[at] + 4U)
			return;
	}
	if (pseudo != 0 && checksum.offset < pseudo + 4U)
		return;
	if (checksum.offset < end && checksum.offset + bytes > first && (checksum.offset < first || checksum.offset + bytes > end))
		return;
	/* The same words in all lengths of frames. */
	if ((checksum.offset - first) % 2 != 0 && checksum.offset >= first && checksum.offset < end && !checksum.crc32c)
		return;
	if (!take(chance, checksum.offset, bytes))
		return;
	chance->pseudo[set->checksums] = pseudo;
	set->checksum[set->checksums++] = checksum;
}

static uint32_t slow_crc32c(const struct checksum *checksum, const uint8_t *bytes, size_t length)
{
	uint32_t crc = UINT32_MAX;

	for (size_t at = checksum->start; at < length - checksum->end; at++) {
		crc ^= at - checksum->offset < 4 ? 0 : bytes[at];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static uint32_t words(const uint8_t *bytes, size_t first, size_t end, size_t without)
{
	uint32_t sum = 0;

	for (size_t at = first; at < end; at++)
		sum += at - without < 2 ? 0 : (at - first) % 2 == 0 ? (uint32_t)bytes[at] << 8 : bytes[at];
	return sum;
}

static uint32_t slow_internet(const struct checksum *checksum, uint16_t pseudo, const uint8_t *bytes, size_t length)
{
	uint32_t sum = words(bytes, checksum->start, length - checksum->end, checksum->offset);

	if (pseudo != 0)
		sum += words(bytes, pseudo, pseudo + 4U, checksum->offset);
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	sum = ~sum & 0xffff;
	return sum == 0 && checksum->never_zero ? 0xffff : sum;
}

static uint32_t right(const struct chance *chance, unsigned int which, const uint8_t *bytes, size_t length)
{
	const struct checksum *checksum = &chance->set.checksum[which];

	return checksum->crc32c ? slow_crc32c(checksum, bytes, length) :
				  slow_internet(checksum, chance->pseudo[which], bytes, length);
}

/* Whether a field or a checksum has a part on either side of a byte. */
static bool splits(const struct chance *chance, size_t byte)
{
	return byte > 0 && chance->taken[byte - 1] && chance->taken[byte];
}

static void make(struct chance *chance)
{
	size_t least = 60 + some(100);

	memset(chance, 0, sizeof(*chance));
	chance->templates = 1 + some(3);
	chance->length[0] = least;
	chance->signature[0] = 14 + some((uint32_t)least - 28);
	(void)take(chance, chance->signature[0], 14);
	add_fields(chance, least);
	for (int attempt = 0; attempt < 60 && chance->set.checksums < MAX_CHECKSUMS; attempt++)
		add_checksum(chance, least);
	for (unsigned int each = 0; each < chance->templates; each++) {
		uint8_t *bytes = chance->bytes[each];

		chance->length[each] = least + (each > 0 ? 2 * some(120) : 0);
		chance->signature[each] = chance->signature[0];
		for (size_t at = 0; at < ROOM; at++)
			bytes[at] = at < least || some(2) ? (uint8_t)some(256) : pattern_byte(at);
		memset(bytes + chance->signature[each], 0, 14);
		for (unsigned int which = 0; which < chance->set.checksums; which++) {
			const struct checksum *checksum = &chance->set.checksum[which];
			uint32_t value = right(chance, which, bytes, chance->length[each]);

			if (checksum->crc32c)
				memcpy(bytes + checksum->offset, &value, 4);
			else
				window_put(bytes + checksum->offset, 2, value);
		}
		CHECK(frame_set_add(&chance->set, bytes, chance->length[each], chance->signature[each]) == NULL);
	}
	do
		chance->set.compared_from = (uint16_t)some(40);
	while (splits(chance, chance->set.compared_from));
}

static uint64_t wanted_value(const struct field *field, uint64_t combination)
{
	uint64_t index = combination / field->every % field->count;

	if (field->random)
		index = permuted((uint32_t)index, (uint32_t)field->count, field->seed);
	return (field->first + field->step * index) & (field->bits == 64 ? UINT64_MAX : (1ULL << field->bits) - 1);
}

static void check_frame(const struct chance *chance, uint64_t seq, const uint8_t *frame)
{
	const struct frame_set *set = &chance->set;
	unsigned int which = set->order[seq % set->order_length];
	uint8_t unvaried[ROOM];

	memcpy(unvaried, frame, ROOM);
	for (unsigned int at = 0; at < set->fields; at++) {
		size_t first = first_bit(&set->field[at]), count = set->field[at].bits;

		CHECK_EQUAL(bits_at(frame, first, count), wanted_value(&set->field[at], seq % set->combinations));
		for (size_t bit = first; bit < first + count; bit++)
			unvaried[bit / 8] = (uint8_t)((unvaried[bit / 8] & ~(0x80 >> bit % 8)) |
						      (chance->bytes[which][bit / 8] & 0x80 >> bit % 8));
	}
	for (unsigned int at = 0; at < set->checksums; at++) {
		const struct checksum *checksum = &set->checksum[at];
		uint32_t stored = (uint32_t)window_get(frame + checksum->offset, 2);

		if (checksum->crc32c)
			memcpy(&stored, frame + checksum->offset, 4);
		CHECK_EQUAL(stored, right(chance, at, frame, chance->length[which]));
		memcpy(unvaried + checksum->offset, chance->bytes[which] + checksum->offset, checksum->crc32c ? 4 : 2);
	}
	memset(unvaried + chance->signature[which], 0, 14);
	CHECK(memcmp(unvaried, chance->bytes[which], chance->length[which]) == 0);
}

/* As it came it is right; with any bit of what is compared changed it is not. */
static void check_comparison(const struct chance *chance, uint64_t seq, uint8_t *frame)
{
	const struct frame_set *set = &chance->set;
	struct frame_cursor at = frame_cursor_at(set, seq);
	const struct template *template = frame_template(set, &at);
	size_t place = template->signature, byte = set->compared_from + some((uint32_t)template->length - set->compared_from);
	uint8_t bit = (uint8_t)(1U << some(8));

	CHECK(frame_is_as_sent(set, &at, frame, place));
	CHECK(frame_matches(set, &at, frame, place, true));
	if (byte >= place && byte < place + 14)
		return;
	frame[byte] ^= bit;
	CHECK(!frame_matches(set, &at, frame, place, true));
	if (template->length <= MAX_COMPARED)
		CHECK(!frame_is_as_sent(set, &at, frame, place));
	frame[byte] ^= bit;
}

static void check_set(struct chance *chance)
{
	struct frame_set *set = &chance->set;
	uint16_t order[5];
	struct frame_cursor cursor;
	uint8_t buffer[FRONT_BYTES + ROOM + HEAD_UNIT], *frame = buffer + FRONT_BYTES;

	for (int at = 0; at < 5; at++)
		order[at] = (uint16_t)some(set->templates);
	CHECK(frame_set_finish(set, order, 5) == NULL);
	frame_set_widen(set, frame_set_copied(set));
	for (size_t at = 0; at < ROOM + HEAD_UNIT; at++)
		frame[at] = pattern_byte(at);
	cursor = frame_cursor_at(set, 0);
	for (uint64_t seq = 0; seq < FRAMES; seq++, frame_next(set, &cursor)) {
		const struct template *template = frame_write(set, &cursor, frame);

		for (int at = 0; at < 14; at++)
			frame[template->signature + at] = (uint8_t)some(256);
		frame_seal(set, &cursor, frame);
		check_frame(chance, seq, frame);
		check_comparison(chance, seq, frame);
	}
}

/* Stepping from frame to frame and looking one up give the same, over more than all combinations. */
static void check_cursor(const struct frame_set *set)
{
	struct frame_cursor cursor = frame_cursor_at(set, 0);
	uint64_t jump = some(100000);

	for (uint64_t seq = 0; seq < 2 * set->combinations + 5; seq++, frame_next(set, &cursor)) {
		struct frame_cursor found = frame_cursor_at(set, seq);

		CHECK_EQUAL(cursor.order, found.order);
		for (unsigned int at = 0; at < set->fields; at++)
			CHECK_EQUAL(set->quick || set->quick_signed ? (uint32_t)cursor.value[at] : cursor.value[at], found.value[at]);
	}
	cursor = frame_cursor_at(set, jump);
	for (uint64_t seq = jump; seq < jump + 50; seq++, frame_next(set, &cursor))
		for (unsigned int at = 0; at < set->fields; at++)
			CHECK_EQUAL(cursor.value[at], wanted_value(&set->field[at], seq % set->combinations));
}

int main(void)
{
	static struct chance chance;
	unsigned int checksums = 0, late = 0, odd = 0, inside = 0;

	for (int each = 0; each < SETS; each++) {
		make(&chance);
		check_set(&chance);
		if (each % 10 == 0)
			check_cursor(&chance.set);
		checksums += chance.set.checksums;
		late += chance.set.late != 0;
		for (unsigned int at = 0; at < chance.set.checksums; at++) {
			odd += (chance.set.checksum[at].odd_fields & chance.set.checksum[at].fields) != 0;
			inside += chance.set.checksum[at].checksums != 0;
		}
		frame_set_free(&chance.set);
	}
	/* Chance made enough of each. */
	CHECK(checksums > SETS && late > SETS / 5 && odd > SETS / 20 && inside > SETS / 20);
	return 0;
}
