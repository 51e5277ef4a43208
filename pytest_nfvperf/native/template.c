/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "template.h"

enum {
	LINES_BEHIND = 2 * HEAD_UNIT, /* a comparison reads so many bytes from where it begins */
};

static uint16_t whole_units(size_t bytes)
{
	return (uint16_t)((bytes + HEAD_UNIT - 1) / HEAD_UNIT * HEAD_UNIT);
}

static size_t larger(size_t one, size_t other)
{
	return one > other ? one : other;
}

static size_t smaller(size_t one, size_t other)
{
	return one < other ? one : other;
}

/* ---- making a set */

static const char *range_wrong(struct frame_set *set, const char *what, unsigned int which, const char *why)
{
	snprintf(set->wrong, sizeof(set->wrong), "%s[%u] %s", what, which, why);
	return set->wrong;
}

const char *frame_set_add(struct frame_set *set, const uint8_t *bytes, size_t length, size_t signature)
{
	size_t room = whole_units(length) + LINES_BEHIND;
	struct template *template;

	if (set->templates == MAX_TEMPLATES)
		return "a stream has at most 65536 templates";
	if (length < MIN_FRAME_BYTES || length > MAX_FRAME_BYTES)
		return "a template must have 60 to 9216 bytes (without FCS)";
	if (signature < 14 || signature + sizeof(struct signature) > length)
		return "the signature's 14 bytes must be behind the first 14 and within the template; use a longer frame";
	if (set->templates == set->room) {
		uint32_t more = set->room == 0 ? 8 : 2 * set->room;
		struct template **grown = realloc(set->template, more * sizeof(struct template *));

		if (grown == NULL)
			return "out of memory";
		set->template = grown;
		set->room = more;
	}
	template = aligned_alloc(64, sizeof(*template) + room);
	if (template == NULL)
		return "out of memory";
	memset(template, 0, sizeof(*template));
	memcpy(template->bytes, bytes, length);
	for (size_t at = length; at < room; at++)
		template->bytes[at] = pattern_byte(at);
	template->length = (uint16_t)length;
	template->signature = (uint16_t)signature;
	set->template[set->templates++] = template;
	return NULL;
}

const char *frame_set_balance(struct frame_set *set, uint32_t which, size_t offset, bool never_zero)
{
	struct template *template = set->template[which];
	uint16_t sum;

	set->balanced = true;
	if (offset == 0)
		return NULL;
	if (offset + 2 > template->length ||
	    (offset + 2 > template->signature && offset < template->signature + sizeof(struct signature)))
		return range_wrong(set, "balances", which, "overlaps the signature, or is beyond the end of the template");
	sum = (uint16_t)(UINT16_MAX - window_get(template->bytes + offset, 2));
	template->base[0] = sum == 0 ? UINT16_MAX : sum;
	template->balance = (uint16_t)offset;
	template->balance_never_zero = never_zero;
	return NULL;
}

static size_t shortest(const struct frame_set *set)
{
	size_t length = MAX_FRAME_BYTES;

	for (uint32_t at = 0; at < set->templates; at++)
		length = set->template[at]->length < length ? set->template[at]->length : length;
	return length;
}

static bool over_signature(const struct frame_set *set, struct bits bits)
{
	for (uint32_t at = 0; at < set->templates; at++) {
		size_t signature = set->template[at]->signature;

		if (overlap(bits, (struct bits){8 * signature, 8 * (signature + sizeof(struct signature))}))
			return true;
	}
	return false;
}

static const char *check_field(struct frame_set *set, unsigned int which, size_t length)
{
	const struct field *field = &set->field[which];
	uint64_t random = 0;

	if (field->size != 1 && field->size != 2 && field->size != 4 && field->size != 8)
		return range_wrong(set, "fields", which, "must have a size of 1, 2, 4 or 8 bytes");
	if (field->bits < 1 || field->shift + field->bits > 8 * field->size)
		return range_wrong(set, "fields", which, "has bits that do not fit its window");
	if ((size_t)field->offset + field->size > length)
		return range_wrong(set, "fields", which, "is beyond the end of a template");
	if (field->count < 1 || field->every < 1)
		return range_wrong(set, "fields", which, "must have a count and an every of at least 1");
	if (field->bits < 64 && field->count > UINT64_C(1) << field->bits)
		return range_wrong(set, "fields", which, "has too few bits for its count of values");
	for (unsigned int at = 0; at <= which; at++)
		random += set->field[at].random ? set->field[at].count : 0;
	if (random > MAX_RANDOM_COUNT)
		return range_wrong(set, "fields", which,
				   "is one too many in random order: those of a stream have at most 16777216 values together");
	if (field->from != 0 && field->from > -field->size)
		return range_wrong(set, "fields", which, "must learn a value that is in front of the signature");
	if (over_signature(set, field_bits(field)))
		return range_wrong(set, "fields", which, "overlaps the signature");
	for (unsigned int other = 0; other < which; other++)
		if (overlap(field_bits(field), field_bits(&set->field[other])))
			return range_wrong(set, "fields", which, "overlaps a field before it");
	return NULL;
}

static bool is_compared(const struct frame_set *set, const struct checksum *checksum)
{
	return checksum->offset >= set->compared_from;
}

static const char *check_checksum(struct frame_set *set, unsigned int which, size_t length)
{
	const struct checksum *checksum = &set->checksum[which];
	struct bits bits = checksum_bits(checksum);

	if (checksum->offset + stored_bytes(checksum) > length)
		return range_wrong(set, "checksums", which, "is beyond the end of a template");
	if ((size_t)checksum->start + (checksum->crc32c ? checksum->end : 0) > length)
		return range_wrong(set, "checksums", which, "must start before its end");
	if (checksum->fields >> set->fields != 0)
		return range_wrong(set, "checksums", which, "names a field that is not there");
	if (checksum->checksums >> which != 0)
		return range_wrong(set, "checksums", which, "names a checksum that does not stand before it: inner ones come first");
	if (over_signature(set, bits))
		return range_wrong(set, "checksums", which, "overlaps the signature");
	for (unsigned int field = 0; field < set->fields; field++)
		if (overlap(bits, field_bits(&set->field[field])))
			return range_wrong(set, "checksums", which, "overlaps a field");
	for (unsigned int other = 0; other < which; other++)
		if (overlap(bits, checksum_bits(&set->checksum[other])))
			return range_wrong(set, "checksums", which, "overlaps a checksum before it");
	return NULL;
}

static const char *check_changeable(struct frame_set *set, unsigned int which, size_t length)
{
	const struct byte_range *range = &set->changeable[which];

	if ((size_t)range->offset + range->bytes > length)
		return range_wrong(set, "changeable", which, "is beyond the end of a template");
	if (range->offset < set->compared_from)
		return range_wrong(set, "changeable", which, "is in front of compared_from, where nothing is compared");
	return NULL;
}

static const char *check_set(struct frame_set *set)
{
	unsigned int fields = set->fields, checksums = set->checksums, changeables = set->changeables;
	size_t length = shortest(set);
	const char *wrong = NULL;

	if (fields > MAX_FIELDS || checksums > MAX_CHECKSUMS || changeables > MAX_CHANGEABLE)
		return "a stream has at most 8 fields, 8 checksums and 32 changeable ranges";
	if (set->compared_from > length)
		return "compared_from is beyond the end of a template";
	for (unsigned int at = 0; at < fields && wrong == NULL; at++)
		wrong = check_field(set, at, length);
	for (unsigned int at = 0; at < checksums && wrong == NULL; at++)
		wrong = check_checksum(set, at, length);
	for (unsigned int at = 0; at < changeables && wrong == NULL; at++)
		wrong = check_changeable(set, at, length);
	if (wrong == NULL && set->balanced && set->fields + set->checksums + set->changeables != 0)
		wrong = "balances are for templates that have no fields, checksums and changeable bytes in common";
	if (wrong == NULL && (set->combinations < 1 || set->combinations > INT64_MAX))
		wrong = "combinations must be 1 to 2^63 - 1";
	return wrong;
}

static bool may_change(const struct frame_set *set, struct bits bits)
{
	for (unsigned int at = 0; at < set->changeables; at++)
		if (overlap(bits, range_bits(&set->changeable[at])))
			return true;
	return false;
}

/* In the order of the frame. */
static void sort_changeables(struct frame_set *set)
{
	for (unsigned int at = 1; at < set->changeables; at++) {
		struct byte_range range = set->changeable[at];
		unsigned int to = at;

		for (; to > 0 && set->changeable[to - 1].offset > range.offset; to--)
			set->changeable[to] = set->changeable[to - 1];
		set->changeable[to] = range;
	}
}

/* The first digits of pi, behind the point. */
static const uint32_t permute_rounds[] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};

static uint32_t permute_mix(uint32_t value)
{
	value = (value ^ value >> 16) * 0x85ebca6bU;
	value = (value ^ value >> 13) * 0xc2b2ae35U;
	return value ^ value >> 16;
}

/* Half of the bits that the network works on. */
static unsigned int permute_half(uint32_t count)
{
	unsigned int bits = count > 1 ? 32U - (unsigned int)__builtin_clz(count - 1) : 0;

	return bits > 2 ? (bits + 1) / 2 : 1;
}

uint32_t permuted(uint32_t index, uint32_t count, uint32_t seed)
{
	unsigned int half = permute_half(count);
	uint32_t mask = (uint32_t)((1ULL << half) - 1);
	uint64_t at = index;

	do {
		uint32_t left = (uint32_t)(at >> half), right = (uint32_t)at & mask;

		for (unsigned int round = 0; round < 4; round++) {
			uint32_t mixed = left ^ (permute_mix(right + permute_rounds[round] + seed * 0x9e3779b1U) & mask);

			left = right;
			right = mixed;
		}
		at = (uint64_t)left << half | right;
	} while (at >= count);
	return (uint32_t)at;
}

static const char *plan_field(struct frame_set *set, unsigned int which)
{
	struct field *field = &set->field[which];
	uint64_t window = field->size == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * field->size) - 1;
	uint32_t *places;

	field->mask = field->bits == 64 ? UINT64_MAX : (UINT64_C(1) << field->bits) - 1;
	field->beside = window & ~(field->mask << field->shift);
	field->first &= field->mask;
	if (field_bits(field).first >= 8U * set->compared_from && !may_change(set, field_bits(field)))
		set->compared_fields |= (uint8_t)(1U << which);
	if (!field->random)
		return NULL;
	/* Read one after the other: cheaper for each frame than the network. */
	places = malloc(field->count * sizeof(*places));
	if (places == NULL)
		return "out of memory";
	for (uint32_t at = 0; at < field->count; at++)
		places[at] = permuted(at, (uint32_t)field->count, field->seed);
	field->places = places;
	return NULL;
}

static void plan_learned(struct frame_set *set)
{
	for (unsigned int at = 0; at < set->fields; at++) {
		if (set->field[at].from == 0)
			continue;
		set->learned |= (uint8_t)(1U << at);
		set->learned_in_front = (uint16_t)larger(set->learned_in_front, (size_t)-set->field[at].from);
	}
}

static void plan_checksum(struct frame_set *set, unsigned int which)
{
	struct checksum *checksum = &set->checksum[which];
	uint8_t bit = (uint8_t)(1U << which);

	for (unsigned int at = 0; at < set->fields; at++)
		if ((set->field[at].offset + set->field[at].size - checksum->start) % 2 != 0)
			checksum->odd_fields |= (uint8_t)(1U << at);
	for (unsigned int at = 0; at < which; at++)
		if ((set->checksum[at].offset - checksum->start) % 2 != 0)
			checksum->odd_checksums |= (uint8_t)(1U << at);
	if (checksum->crc32c || checksum->signature || (checksum->checksums & set->late) != 0)
		set->late |= bit;
	else if (checksum->fields != 0 || (checksum->checksums & set->early) != 0)
		set->early |= bit;
	if (!is_compared(set, checksum))
		return;
	if (((set->late | set->early) & bit) != 0)
		set->compared_checksums |= bit;
	if (may_change(set, checksum_bits(checksum)))
		set->changeable_checksums |= bit;
}

/* Of a `quick` set: neither field begins again but with the combinations, or where the other goes on. */
static bool are_quick_fields(const struct frame_set *set)
{
	const struct field *field = &set->field[0], *second = &set->field[1];
	bool carries = set->fields == 2 && second->every == field->count;

	if (set->fields < 1 || set->fields > 2)
		return false;
	if (field->size != 4 || field->bits != 32 || field->random || field->every != 1 || !(set->compared_fields & 1) ||
	    (set->combinations > field->count && !carries))
		return false;
	return set->fields == 1 || (second->size == 2 && second->bits == 16 && !second->random &&
				    (__uint128_t)second->every * second->count >= set->combinations);
}

static bool is_quick(const struct frame_set *set)
{
	const struct checksum *checksum = &set->checksum[0];

	return are_quick_fields(set) && set->checksums == 1 && set->early == 1 && set->compared_checksums == 1 &&
	       checksum->fields == 1 && !(checksum->odd_fields & 1) && !checksum->never_zero;
}

static bool is_quick_signed(const struct frame_set *set)
{
	const struct checksum *checksum = &set->checksum[0];

	if (set->checksums != 1 || checksum->crc32c || !checksum->signature || set->compared_checksums != 1 ||
	    (checksum->odd_fields & checksum->fields) != 0 || (set->fields != 0 && !are_quick_fields(set)))
		return false;
	for (uint32_t at = 0; at < set->templates; at++)
		if ((set->template[at]->signature - checksum->start) % 2 != 0)
			return false;
	return true;
}

static void values_read(const struct frame_set *set, const uint8_t *bytes, uint64_t *values)
{
	for (unsigned int at = 0; at < set->fields; at++)
		values[at] = field_get(&set->field[at], bytes);
}

/* What is the same in all frames of a sum is what is left when all that differs is taken from it. */
static void plan_bases(const struct frame_set *set, struct template *template)
{
	uint64_t values[MAX_FIELDS];

	values_read(set, template->bytes, values);
	for (unsigned int which = 0; which < set->checksums; which++) {
		uint32_t sum = UINT16_MAX - (uint32_t)window_get(template->bytes + set->checksum[which].offset, 2);
		uint16_t differs =
			(uint16_t)~internet_checksum(set, which, 0, values, template->bytes, template->signature);
		uint32_t base = (sum + UINT16_MAX - differs) % UINT16_MAX;

		template->base[which] = base == 0 ? UINT16_MAX : (uint16_t)base;
	}
}

/* Puts bits into the mask of what all frames have the same, or takes them out. */
static void mark(struct template *template, struct bits bits, bool same)
{
	size_t first = 8U * template->compared_from, end = first + 8U * HEAD_UNIT * template->lines;

	for (size_t at = bits.first; at < bits.end && at < end; at++) {
		uint8_t bit = (uint8_t)(0x80U >> at % 8);

		if (at >= first)
			template->same[(at - first) / 8] = (uint8_t)((template->same[(at - first) / 8] & ~bit) | (same ? bit : 0));
	}
}

/* The first byte that frame_is_as_sent() reads: windows and what checksums are over may begin in front of the lines. */
static size_t first_read(const struct frame_set *set, const struct template *template)
{
	size_t first = template->compared_from;

	for (unsigned int left = set->compared_fields; left != 0; left &= left - 1)
		first = smaller(first, set->field[__builtin_ctz(left)].offset);
	for (unsigned int left = set->compared_checksums; left != 0; left &= left - 1) {
		const struct checksum *checksum = &set->checksum[__builtin_ctz(left)];

		if (checksum->crc32c)
			first = smaller(first, checksum->start);
		for (unsigned int inside = checksum->checksums; inside != 0; inside &= inside - 1)
			first = smaller(first, set->checksum[__builtin_ctz(inside)].offset);
	}
	return first;
}

/* Of a long frame only the headers: the rest of it lies in cache lines that nobody else needs. */
static void plan_comparison(const struct frame_set *set, struct template *template)
{
	size_t signature_end = template->signature + sizeof(struct signature);
	size_t end = template->length > MAX_COMPARED ? signature_end : template->length;
	size_t from = set->balanced ? template->signature : set->compared_from;
	size_t first = from / HEAD_UNIT * HEAD_UNIT;
	size_t lines = end > first ? whole_units(end - first) / HEAD_UNIT : 0;

	template->first_compared = (uint16_t)from;
	template->compared_from = (uint16_t)first;
	template->lines = (uint16_t)(lines > 2 ? 2 : lines);
	template->least_shift = (int16_t)(-FRONT_BYTES - (int)first_read(set, template));
	mark(template, (struct bits){8 * from, 8U * template->length}, true);
	if (template->balance != 0)
		mark(template, (struct bits){8U * template->balance, 8U * template->balance + 16}, false);
	mark(template, (struct bits){8U * template->signature, 8 * signature_end}, false);
	for (unsigned int at = 0; at < set->fields; at++)
		mark(template, field_bits(&set->field[at]), false);
	for (unsigned int at = 0; at < set->changeables; at++)
		mark(template, range_bits(&set->changeable[at]), false);
	/* One that is the same in all frames unless the way changes it is looked at more closely when it is not. */
	for (unsigned int at = 0; at < set->checksums; at++)
		if (is_compared(set, &set->checksum[at]))
			mark(template, checksum_bits(&set->checksum[at]), !((set->early | set->late) >> at & 1));
}

/* Whole lines, but nothing behind the frame's end, where the buffer may have no room; the first line is always there. */
static uint16_t within_frame(const struct template *template, uint16_t bytes)
{
	return (uint16_t)larger(HEAD_UNIT, bytes < template->length ? bytes : template->length);
}

/*
 * How much of the frame must be written each time: all of it unless the rest is the pattern. And where all ends that
 * varies or may change in it; a CRC32c varies with the whole frame.
 */
static void plan_ends(const struct frame_set *set, struct template *template)
{
	size_t end = larger(template->signature + sizeof(struct signature), template->balance + 2U);
	bool whole = template->length <= MAX_COMPARED;

	for (unsigned int at = 0; at < set->fields; at++)
		end = larger(end, (size_t)set->field[at].offset + set->field[at].size);
	for (unsigned int at = 0; at < set->checksums; at++) {
		end = larger(end, set->checksum[at].offset + stored_bytes(&set->checksum[at]));
		whole |= set->checksum[at].crc32c;
	}
	template->copied = (uint16_t)end;
	for (size_t at = end; at < template->length; at++)
		if (template->bytes[at] != pattern_byte(at))
			template->copied = (uint16_t)(at + 1);
	template->copied = within_frame(template, whole_units(template->copied));
	for (unsigned int at = 0; at < set->changeables; at++)
		end = larger(end, (size_t)set->changeable[at].offset + set->changeable[at].bytes);
	end = larger(end, template->compared_from + (size_t)template->lines * HEAD_UNIT);
	template->headers_end = whole || end > template->length ? template->length : (uint16_t)end;
}

static const char *set_order(struct frame_set *set, const uint16_t *order, size_t length)
{
	if (set->templates == 0)
		return "a stream needs at least one template";
	if (length == 0 || length > MAX_ORDER)
		return "the order must have 1 to 65536 entries";
	for (size_t at = 0; at < length; at++)
		if (order[at] >= set->templates)
			return "the order names a template that is not there";
	set->order = malloc(length * sizeof(*order));
	if (set->order == NULL)
		return "out of memory";
	memcpy(set->order, order, length * sizeof(*order));
	set->order_length = (uint32_t)length;
	return NULL;
}

const char *frame_set_finish(struct frame_set *set, const uint16_t *order, size_t length)
{
	const char *wrong = set_order(set, order, length);

	if (wrong == NULL)
		wrong = check_set(set);
	if (wrong != NULL)
		return wrong;
	sort_changeables(set);
	for (unsigned int at = 0; at < set->fields && wrong == NULL; at++)
		wrong = plan_field(set, at);
	if (wrong != NULL)
		return wrong;
	plan_learned(set);
	for (unsigned int at = 0; at < set->checksums; at++)
		plan_checksum(set, at);
	set->quick = is_quick(set);
	set->quick_signed = is_quick_signed(set);
	set->quick_carry = (set->quick || set->quick_signed) && set->combinations > set->field[0].count;
	set->sealed = set->late != 0 || set->balanced;
	for (uint32_t at = 0; at < set->templates; at++) {
		plan_bases(set, set->template[at]);
		plan_comparison(set, set->template[at]);
		plan_ends(set, set->template[at]);
	}
	return NULL;
}

void frame_set_free(struct frame_set *set)
{
	for (uint32_t at = 0; at < set->templates; at++)
		free(set->template[at]);
	for (unsigned int at = 0; at < MAX_FIELDS; at++) {
		free((void *)(uintptr_t)set->field[at].places);
		set->field[at].places = NULL;
	}
	free(set->template);
	free(set->order);
	set->template = NULL;
	set->order = NULL;
	set->templates = set->room = set->order_length = 0;
}

uint16_t frame_set_copied(const struct frame_set *set)
{
	uint16_t most = 0;

	for (uint32_t at = 0; at < set->templates; at++)
		most = set->template[at]->copied > most ? set->template[at]->copied : most;
	return most;
}

void frame_set_widen(struct frame_set *set, uint16_t bytes)
{
	for (uint32_t at = 0; at < set->templates; at++) {
		struct template *template = set->template[at];

		template->copied = (uint16_t)larger(template->copied, within_frame(template, bytes));
	}
}
