/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done for each frame of a finished set (template.h): it is written with its fields and checksums, and one that
 * came is compared with what was sent. The fastest ways are inline; frame.c has the others.
 */
#ifndef NFVPERF_FRAME_H
#define NFVPERF_FRAME_H

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "template.h"

/* Where in the order and in the fields' values the next frame stands. */
struct frame_cursor {
	uint32_t order;
	uint64_t left; /* frames to the end of the combinations */
	uint64_t value[MAX_FIELDS];
	uint64_t wait[MAX_FIELDS]; /* frames until the next value */
	uint64_t index[MAX_FIELDS];
};

/* The template of the frame that the cursor stands at. */
static inline const struct template *frame_template(const struct frame_set *set, const struct frame_cursor *at)
{
	return set->template[set->order[at->order]];
}

/* Where the frame with this sequence number stands. */
struct frame_cursor frame_cursor_at(const struct frame_set *set, uint64_t seq);

/*
 * Is this, from `compared_from` on, the frame that the cursor stands at, but for what may change on the way? `place` is
 * where its signature is in the received bytes; behind that they must have the end of the frame.
 * Of a long frame what is behind the headers is looked at only as a `whole`.
 */
bool frame_matches(const struct frame_set *set, const struct frame_cursor *at, const uint8_t *bytes, size_t place,
		   bool whole);

/* Of a set that is `sealed`: writes the checksums that the signature changes, when all else of the frame is written. */
void frame_seal(const struct frame_set *set, const struct frame_cursor *at, uint8_t *bytes);

/* CRC32c (RFC 9260 appendix A); over several pieces each gets the last one's. The first gets 0. */
uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t length);

static inline void window_put(uint8_t *at, unsigned int size, uint64_t value)
{
	uint64_t eight = __builtin_bswap64(value);
	uint32_t four = __builtin_bswap32((uint32_t)value);
	uint16_t two = __builtin_bswap16((uint16_t)value);

	switch (size) {
	case 1:
		at[0] = (uint8_t)value;
		break;
	case 2:
		memcpy(at, &two, sizeof(two));
		break;
	case 4:
		memcpy(at, &four, sizeof(four));
		break;
	default:
		memcpy(at, &eight, sizeof(eight));
	}
}

static inline void field_put(const struct field *field, uint64_t value, uint8_t *bytes)
{
	uint8_t *at = bytes + field->offset;

	value <<= field->shift;
	if (field->beside != 0)
		value |= window_get(at, field->size) & field->beside;
	window_put(at, field->size, value);
}

/* The checksum, as stored, of one aligned field of four bytes and all that is the same. */
static inline uint16_t quick_checksum(uint32_t base, uint32_t value)
{
	uint32_t sum = base + (value >> 16) + (value & 0xffff);

	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return __builtin_bswap16((uint16_t)~sum);
}

/* The same, as a number, where the set is `quick_signed`. */
static inline uint16_t quick_signed_checksum(const struct frame_set *set, const struct template *template,
					     const struct frame_cursor *at, const uint8_t *bytes)
{
	const struct checksum *checksum = &set->checksum[0];
	uint64_t sum = template->base[0] + signature_sum(bytes + template->signature);
	uint16_t result;

	sum += (checksum->fields & 1 ? (uint32_t)at->value[0] : 0) + (checksum->fields & 2 ? (uint16_t)at->value[1] : 0ULL);
	result = (uint16_t)~folded(sum);
	return result == 0 && checksum->never_zero ? UINT16_MAX : result;
}

/* The fields of the frame that the cursor stands at, and the checksums that follow from them alone. */
static inline void fields_write(const struct frame_set *set, const struct template *template, const struct frame_cursor *at,
				uint8_t *bytes)
{
	if (__builtin_expect(set->quick, 1)) {
		uint16_t checksum = quick_checksum(template->base[0], (uint32_t)at->value[0]);
		uint32_t value = __builtin_bswap32((uint32_t)at->value[0]);

		memcpy(bytes + set->checksum[0].offset, &checksum, sizeof(checksum));
		memcpy(bytes + set->field[0].offset, &value, sizeof(value));
		if (set->fields > 1)
			window_put(bytes + set->field[1].offset, 2, at->value[1]);
		return;
	}
	if (set->quick_signed && set->fields != 0) {
		window_put(bytes + set->field[0].offset, 4, at->value[0]);
		if (set->fields > 1)
			window_put(bytes + set->field[1].offset, 2, at->value[1]);
		return;
	}
	for (unsigned int field = 0; field < set->fields; field++)
		field_put(&set->field[field], at->value[field], bytes);
	for (unsigned int left = set->early; left != 0; left &= left - 1) {
		unsigned int which = (unsigned int)__builtin_ctz(left);

		window_put(bytes + set->checksum[which].offset, 2,
			   internet_checksum(set, which, template->base[which], at->value, bytes, template->signature));
	}
}

/* Values of the first frame. */
static inline void fields_begin(const struct frame_set *set, struct frame_cursor *at)
{
	at->left = set->combinations;
	for (unsigned int field = 0; field < set->fields; field++) {
		const struct field *of = &set->field[field];

		at->index[field] = 0;
		at->wait[field] = of->every;
		at->value[field] = of->first;
		if (of->random)
			at->value[field] = (of->first + of->step * of->places[0]) & of->mask;
	}
}

static inline void fields_next(const struct frame_set *set, struct frame_cursor *at)
{
	for (unsigned int field = 0; field < set->fields; field++) {
		const struct field *of = &set->field[field];

		if (--at->wait[field] != 0)
			continue;
		at->wait[field] = of->every;
		if (++at->index[field] == of->count)
			at->index[field] = 0;
		if (of->random)
			at->value[field] = (of->first + of->step * of->places[at->index[field]]) & of->mask;
		else if (at->index[field] == 0)
			at->value[field] = of->first;
		else
			at->value[field] = (at->value[field] + of->step) & of->mask;
	}
}

static inline void fields_next_quickly(const struct frame_set *set, struct frame_cursor *at)
{
	at->value[0] += set->field[0].step;
	if (set->fields == 1 || --at->wait[1] != 0)
		return;
	at->wait[1] = set->field[1].every;
	at->value[1] += set->field[1].step;
	if (set->quick_carry)
		at->value[0] = set->field[0].first;
}

/* On to the next frame. */
static inline void frame_next(const struct frame_set *set, struct frame_cursor *at)
{
	if (++at->order == set->order_length)
		at->order = 0;
	if (set->fields == 0)
		return;
	if (__builtin_expect(--at->left == 0, 0))
		fields_begin(set, at);
	else if (__builtin_expect(set->quick, 1) || set->quick_signed)
		fields_next_quickly(set, at);
	else
		fields_next(set, at);
}

/* Writes the frame that the cursor stands at into a buffer that holds the pattern; returns its template. */
static inline const struct template *frame_write(const struct frame_set *set, const struct frame_cursor *at, uint8_t *bytes)
{
	const struct template *template = frame_template(set, at);

	memcpy(bytes, template->bytes, HEAD_UNIT);
	if (__builtin_expect(template->copied > HEAD_UNIT, 0))
		memcpy(bytes + HEAD_UNIT, template->bytes + HEAD_UNIT, template->copied - HEAD_UNIT);
	if (set->fields != 0)
		fields_write(set, template, at, bytes);
	return template;
}

/* Whether two lines differ in a byte that the mask has. `got` may begin anywhere, the others with a line. */
static inline bool line_differs(const uint8_t *got, const uint8_t *sent, const uint8_t *mask)
{
#ifdef __AVX512F__
	__m512i different = _mm512_xor_si512(_mm512_loadu_si512(got), _mm512_loadu_si512(sent));

	return _mm512_test_epi64_mask(different, _mm512_load_si512(mask)) != 0;
#else
	uint64_t different = 0;

	for (unsigned int byte = 0; byte < HEAD_UNIT; byte += sizeof(uint64_t)) {
		uint64_t a, b, of;

		memcpy(&a, got + byte, sizeof(a));
		memcpy(&b, sent + byte, sizeof(b));
		memcpy(&of, mask + byte, sizeof(of));
		different |= (a ^ b) & of;
	}
	return different != 0;
#endif
}

/* Are fields and checksums as they were sent? `bytes`: where the sent frame would begin. */
bool varying_as_sent(const struct frame_set *set, const struct frame_cursor *at, const struct template *template,
		     const uint8_t *bytes);

/* The same, where the set is `quick_signed`. */
static inline bool quick_signed_as_sent(const struct frame_set *set, const struct frame_cursor *at,
					const struct template *template, const uint8_t *bytes)
{
	if ((set->compared_fields & 1) && window_get(bytes + set->field[0].offset, 4) != (uint32_t)at->value[0])
		return false;
	if ((set->compared_fields & 2) && window_get(bytes + set->field[1].offset, 2) != (uint16_t)at->value[1])
		return false;
	return window_get(bytes + set->checksum[0].offset, 2) == quick_signed_checksum(set, template, at, bytes);
}

/*
 * Whether a received frame is, from `compared_from` on, the one that was sent: a quick look, which says false of some
 * frames that frame_matches() lets pass. Frames of up to MAX_COMPARED bytes are looked at whole, of longer ones the
 * headers. Whole lines are read, up to FRONT_BYTES in front of the frame where headers were taken off on the way.
 */
static inline bool frame_is_as_sent(const struct frame_set *set, const struct frame_cursor *at, const uint8_t *bytes,
				    size_t place)
{
	const struct template *template = frame_template(set, at);
	ptrdiff_t shift = (ptrdiff_t)place - template->signature;
	const uint8_t *got = bytes + (template->compared_from + shift);
	const uint8_t *sent = template->bytes + template->compared_from;
	uint16_t checksum;
	uint32_t value;

	if (__builtin_expect(shift < template->least_shift, 0))
		return false;
	if (line_differs(got, sent, template->same) ||
	    (template->lines > 1 && line_differs(got + HEAD_UNIT, sent + HEAD_UNIT, template->same + HEAD_UNIT)))
		return false;
	bytes += shift;
	if (!set->quick) {
		if ((set->compared_fields | set->compared_checksums) == 0)
			return true;
		return set->quick_signed ? quick_signed_as_sent(set, at, template, bytes) :
					   varying_as_sent(set, at, template, bytes);
	}
	memcpy(&value, bytes + set->field[0].offset, sizeof(value));
	memcpy(&checksum, bytes + set->checksum[0].offset, sizeof(checksum));
	if ((set->compared_fields & 2) != 0 &&
	    window_get(bytes + set->field[1].offset, 2) != (uint16_t)at->value[1])
		return false;
	return value == __builtin_bswap32((uint32_t)at->value[0]) &&
	       checksum == quick_checksum(template->base[0], (uint32_t)at->value[0]);
}

#endif
