/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

#include "frame.h"

enum { MOST_OTHERS = 8 }; /* changed ranges of which nobody said whether a checksum is over them */

struct frame_cursor frame_cursor_at(const struct frame_set *set, uint64_t seq)
{
	struct frame_cursor at = {.order = (uint32_t)(seq % set->order_length)};
	uint64_t combination = set->fields != 0 ? seq % set->combinations : 0;

	at.left = set->combinations - combination;
	for (unsigned int field = 0; field < set->fields; field++) {
		const struct field *of = &set->field[field];
		uint64_t index = combination / of->every % of->count;

		at.index[field] = index;
		at.wait[field] = of->every - combination % of->every;
		at.value[field] = (of->first + of->step * (of->random ? of->places[index] : index)) & of->mask;
	}
	return at;
}

uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t length)
{
#ifdef __SSE4_2__
	uint64_t wide = ~crc;

	for (; length >= sizeof(uint64_t); length -= sizeof(uint64_t), bytes += sizeof(uint64_t)) {
		uint64_t eight;

		memcpy(&eight, bytes, sizeof(eight));
		wide = _mm_crc32_u64(wide, eight);
	}
	crc = (uint32_t)wide;
	for (; length > 0; length--)
		crc = _mm_crc32_u8(crc, *bytes++);
#else
	static const uint32_t nibbles[] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
					   0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
					   0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

	crc = ~crc;
	for (; length > 0; length--) {
		crc ^= *bytes++;
		crc = crc >> 4 ^ nibbles[crc & 15];
		crc = crc >> 4 ^ nibbles[crc & 15];
	}
#endif
	return ~crc;
}

/* The one of a frame of that length, in whose own bytes it takes zeros. */
static uint32_t crc32c_of_frame(const struct checksum *checksum, const uint8_t *bytes, size_t length)
{
	static const uint8_t zeros[4];
	size_t end = length - checksum->end, own = checksum->offset;
	uint32_t crc;

	if (own < checksum->start || own + sizeof(zeros) > end)
		return crc32c(0, bytes + checksum->start, end - checksum->start);
	crc = crc32c(0, bytes + checksum->start, own - checksum->start);
	crc = crc32c(crc, zeros, sizeof(zeros));
	return crc32c(crc, bytes + own + sizeof(zeros), end - own - sizeof(zeros));
}

/* RFC 1624: of a signature in place of zeros. */
static void balance(const struct template *template, uint8_t *bytes)
{
	uint16_t stored = (uint16_t)~folded(template->base[0] + signature_sum(bytes + template->signature));

	window_put(bytes + template->balance, 2, stored == 0 && template->balance_never_zero ? UINT16_MAX : stored);
}

void frame_seal(const struct frame_set *set, const struct frame_cursor *at, uint8_t *bytes)
{
	const struct template *template = frame_template(set, at);

	if (set->quick_signed) {
		window_put(bytes + set->checksum[0].offset, 2, quick_signed_checksum(set, template, at, bytes));
		return;
	}
	if (template->balance != 0)
		balance(template, bytes);
	for (unsigned int left = set->late; left != 0; left &= left - 1) {
		unsigned int which = (unsigned int)__builtin_ctz(left);
		const struct checksum *checksum = &set->checksum[which];

		if (checksum->crc32c) {
			uint32_t crc = crc32c_of_frame(checksum, bytes, template->length);

			memcpy(bytes + checksum->offset, &crc, sizeof(crc));
			continue;
		}
		window_put(bytes + checksum->offset, 2,
			   internet_checksum(set, which, template->base[which], at->value, bytes, template->signature));
	}
}

/* ---- looking at received frames */

bool varying_as_sent(const struct frame_set *set, const struct frame_cursor *at, const struct template *template,
		     const uint8_t *bytes)
{
	for (unsigned int left = set->compared_fields; left != 0; left &= left - 1) {
		unsigned int field = (unsigned int)__builtin_ctz(left);

		if (field_get(&set->field[field], bytes) != at->value[field])
			return false;
	}
	for (unsigned int left = set->compared_checksums; left != 0; left &= left - 1) {
		unsigned int which = (unsigned int)__builtin_ctz(left);
		const struct checksum *checksum = &set->checksum[which];
		const uint8_t *stored = bytes + checksum->offset;
		uint32_t crc;

		if (!checksum->crc32c) {
			if (window_get(stored, 2) !=
			    internet_checksum(set, which, template->base[which], at->value, bytes, template->signature))
				return false;
			continue;
		}
		memcpy(&crc, stored, sizeof(crc));
		/* Over all bytes, so that of a long one is looked at when the rest of it is. */
		if (template->length <= MAX_COMPARED && crc != crc32c_of_frame(checksum, bytes, template->length))
			return false;
	}
	return true;
}

enum part { PART, NO_PART, PERHAPS };

/* Whether a checksum is over bytes that may change. Nobody said so of an address that does not vary, for example: in
 * front of TCP it is part of the pseudo-header, in front of ICMP it is not. */
static enum part is_part(const struct frame_set *set, unsigned int which, const struct byte_range *range)
{
	const struct checksum *checksum = &set->checksum[which];

	for (unsigned int at = 0; at < set->checksums; at++)
		if (at != which && overlap(range_bits(range), checksum_bits(&set->checksum[at])))
			return checksum->checksums >> at & 1 ? PART : NO_PART;
	for (unsigned int at = 0; at < set->fields; at++)
		if (overlap(range_bits(range), field_bits(&set->field[at])))
			return checksum->fields >> at & 1 ? PART : NO_PART;
	return range->offset >= checksum->start && range->offset < checksum->offset ? PART : PERHAPS;
}

/* By how much what changed in a range of bytes changes the sum of an internet checksum, which is not part of it itself. */
static int64_t range_change(const struct checksum *checksum, const struct byte_range *range, const uint8_t *sent,
			    const uint8_t *got)
{
	int64_t change = 0;

	for (size_t at = range->offset; at < (size_t)range->offset + range->bytes; at++)
		if (at - checksum->offset >= 2)
			change += (got[at] - sent[at]) * ((at - checksum->start) % 2 == 0 ? 256 : 1);
	return change;
}

/*
 * Whether a checksum that came is right for the bytes that came, as it was for those that were sent: it has changed as
 * much as what it is over. Of what may be part of that any may be. `gone`: bytes that were taken off in front.
 */
static bool checksum_holds(const struct frame_set *set, unsigned int which, const uint8_t *sent, const uint8_t *got,
			   size_t length, size_t gone)
{
	const struct checksum *checksum = &set->checksum[which];
	int64_t stored = (int64_t)window_get(got + checksum->offset, 2), others[MOST_OTHERS];
	int64_t missing = stored - (int64_t)window_get(sent + checksum->offset, 2); /* to a sum that is 0 modulo 0xffff */
	unsigned int count = 0;
	uint32_t crc;

	if (checksum->crc32c) {
		memcpy(&crc, got + checksum->offset, sizeof(crc));
		return checksum->start >= gone && crc == crc32c_of_frame(checksum, got, length);
	}
	if (stored == 0 && checksum->never_zero)
		return false;
	for (unsigned int at = 0; at < set->changeables; at++) {
		int64_t change = range_change(checksum, &set->changeable[at], sent, got);
		enum part part = change != 0 ? is_part(set, which, &set->changeable[at]) : NO_PART;

		if (part == PART)
			missing += change;
		else if (part == PERHAPS && count < MOST_OTHERS)
			others[count++] = change;
	}
	for (uint32_t among = 0; among < 1U << count; among++) {
		int64_t all = missing;

		for (unsigned int at = 0; at < count; at++)
			all += among >> at & 1 ? others[at] : 0;
		if (all % UINT16_MAX == 0)
			return true;
	}
	return false;
}

bool frame_matches(const struct frame_set *set, const struct frame_cursor *at, const uint8_t *bytes, size_t place,
		   bool whole)
{
	const struct template *template = frame_template(set, at);
	const uint8_t *got = bytes + ((ptrdiff_t)place - template->signature);
	size_t next = template->first_compared, end = whole ? template->length : template->headers_end;
	size_t gone = place < template->signature ? template->signature - place : 0;
	uint8_t sent[MAX_FRAME_BYTES + HEAD_UNIT];

	if (next < gone)
		return false;
	memcpy(sent, template->bytes, end);
	fields_write(set, template, at, sent);
	memcpy(sent + template->signature, bytes + place, sizeof(struct signature));
	if (set->sealed)
		frame_seal(set, at, sent);
	for (unsigned int range = 0; range < set->changeables; range++) {
		size_t first = set->changeable[range].offset;

		if (first > next && memcmp(sent + next, got + next, first - next) != 0)
			return false;
		if (first + set->changeable[range].bytes > next)
			next = first + set->changeable[range].bytes;
	}
	if (end > next && memcmp(sent + next, got + next, end - next) != 0)
		return false;
	for (unsigned int which = 0; which < set->checksums; which++)
		if ((set->changeable_checksums >> which & 1) &&
		    !checksum_holds(set, which, sent, got, template->length, gone))
			return false;
	return true;
}
