/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stream sends: frame templates, their order, the fields that vary and the checksums that are kept right, as
 * model/traffic/frame_program.py describes them. Pure bytes: no headers are known here, and no DPDK.
 *
 * Transmit buffers are filled once with PATTERN; a template whose tail is that pattern costs
 * only its first cache line(s) per frame, at any frame size.
 */
#ifndef NFVPERF_TEMPLATE_H
#define NFVPERF_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "signature.h"
#include "sizes.h"

enum {
	HEAD_UNIT = 64, /* heads are copied, and frames compared, in whole cache lines */
	MAX_COMPARED = 124, /* frames up to here (128 bytes with FCS) are compared whole, each of them */
	FRONT_BYTES = 12, /* in front of each received frame there is at least virtio's header to read */
	MAX_RANDOM_COUNT = 1 << 24, /* values in random order: 4 bytes of table for each */
};

/* Byte `offset` of every frame behind its signature. */
static inline uint8_t pattern_byte(size_t offset)
{
	return (uint8_t)offset;
}

/* Value number i of the field is first + step * i, or step * permuted(i); it lasts for `every` frames. */
struct field {
	uint16_t offset; /* of its window */
	uint8_t size; /* of that: 1, 2, 4 or 8 bytes, one big-endian number */
	uint8_t shift;
	uint8_t bits;
	bool random;
	uint32_t seed;
	uint64_t first, step, count, every;
	/* derived */
	uint64_t mask; /* of its values */
	uint64_t beside; /* bits of the window that are not its own */
	const uint32_t *places; /* random: of each value; owned */
};

struct checksum {
	bool crc32c; /* as SCTP stores it; else the internet checksum (RFC 1071) */
	bool signature; /* the signature is among what it is over */
	bool never_zero; /* 0 is stored as 0xffff */
	uint16_t offset;
	uint16_t start; /* words count from there on */
	uint16_t end; /* crc32c: it is over the bytes from `start` to here, counted from the frame's end */
	uint8_t fields; /* bits: those that change it */
	uint8_t checksums; /* bits: those inside, which stand before it */
	/* derived */
	uint8_t odd_fields; /* bits: their windows end with the first byte of a word */
	uint8_t odd_checksums;
};

struct byte_range {
	uint16_t offset, bytes;
};

struct template {
	uint16_t length; /* in memory, without FCS */
	uint16_t copied; /* bytes written per frame: HEAD_UNIT at least, else no more than its length */
	uint16_t signature; /* its offset */
	/* Lines in which each received frame is compared, and where the first begins; 0: nothing of it is. */
	uint16_t lines;
	uint16_t compared_from;
	int16_t least_shift; /* of a received frame that can be looked at quickly: see FRONT_BYTES */
	uint16_t base[MAX_CHECKSUMS]; /* sums of what is the same in all frames, in network order */
	uint16_t balance; /* offset of an internet checksum of its own that only the signature changes; 0: it has none */
	bool balance_never_zero;
	uint16_t first_compared; /* byte */
	uint16_t headers_end; /* of a long frame, all that varies in it; else its end */
	uint8_t same[2 * HEAD_UNIT] __attribute__((aligned(64))); /* of the lines: 0xff where all frames have the same */
	uint8_t bytes[] __attribute__((aligned(64))); /* behind `length`: the pattern, to the end of what may be read */
};

struct frame_set {
	struct template **template; /* owned, as they are */
	uint16_t *order; /* owned */
	uint32_t order_length;
	uint32_t templates, room;
	uint64_t combinations; /* frames until the fields begin again */
	/*
	 * One field that fills four bytes and counts up, one checksum that only it changes, and perhaps a second field of
	 * two bytes: flows of IPv4. The compiler sees all at once that is then done for a frame.
	 */
	bool quick;
	/* The same fields, or none, and a checksum that the signature changes, too: flows of IPv6. */
	bool quick_signed;
	bool quick_carry; /* the first field begins again when the second goes on */
	uint8_t early; /* bits: checksums that are written with the fields */
	uint8_t late; /* bits: those that the signature changes */
	bool balanced; /* templates have checksums of their own, and are compared from their signature on: captures */
	bool sealed; /* something is written behind the signature: see frame_seal() */
	uint8_t compared_fields, compared_checksums; /* bits: those that a received frame must have as they were sent */
	uint8_t changeable_checksums; /* bits: what the way changes may change them, too */
	unsigned int fields, checksums, changeables;
	struct field field[MAX_FIELDS];
	struct checksum checksum[MAX_CHECKSUMS];
	uint16_t compared_from; /* first byte that is compared in a received frame */
	struct byte_range changeable[MAX_CHANGEABLE]; /* behind that: bytes that the way may change */
	char wrong[160];
};

/* Where in the order and in the fields' values the next frame stands. */
struct frame_cursor {
	uint32_t order;
	uint64_t left; /* frames to the end of the combinations */
	uint64_t value[MAX_FIELDS];
	uint64_t wait[MAX_FIELDS]; /* frames until the next value */
	uint64_t index[MAX_FIELDS];
};

/*
 * Takes a copy of the bytes as the set's next template, whose signature is at that offset. NULL when it was taken, else
 * what is wrong with it.
 */
const char *frame_set_add(struct frame_set *set, const uint8_t *bytes, size_t length, size_t signature);

/* Says which checksum of the set's next template, whose signature is 14 zeros at an even distance, that changes. */
const char *frame_set_balance(struct frame_set *set, uint32_t which, size_t offset, bool never_zero);

/* Sets the order. All else of the set must have been filled in. NULL, or what is wrong with it. */
const char *frame_set_finish(struct frame_set *set, const uint16_t *order, size_t length);

void frame_set_free(struct frame_set *set);

/* The most bytes that a frame of the set writes over the pattern of its buffer. */
uint16_t frame_set_copied(const struct frame_set *set);
/* Has each frame write at least so many, or all of itself, where other frames with longer heads use the same buffers. */
void frame_set_widen(struct frame_set *set, uint16_t bytes);

/* The template of the frame with this sequence number. */
static inline const struct template *frame_set_at(const struct frame_set *set, uint64_t seq)
{
	return set->template[set->order[seq % set->order_length]];
}

/* The same, of the frame that the cursor stands at. */
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

/* The one of a frame of that length, in whose own bytes it takes zeros. */
uint32_t crc32c_of_frame(const struct checksum *checksum, const uint8_t *bytes, size_t length);

static inline uint64_t window_get(const uint8_t *at, unsigned int size)
{
	uint64_t eight;
	uint32_t four;
	uint16_t two;

	switch (size) {
	case 1:
		return at[0];
	case 2:
		memcpy(&two, at, sizeof(two));
		return __builtin_bswap16(two);
	case 4:
		memcpy(&four, at, sizeof(four));
		return __builtin_bswap32(four);
	default:
		memcpy(&eight, at, sizeof(eight));
		return __builtin_bswap64(eight);
	}
}

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

static inline uint64_t field_get(const struct field *field, const uint8_t *bytes)
{
	return window_get(bytes + field->offset, field->size) >> field->shift & field->mask;
}

static inline void field_put(const struct field *field, uint64_t value, uint8_t *bytes)
{
	uint8_t *at = bytes + field->offset;

	value <<= field->shift;
	if (field->beside != 0)
		value |= window_get(at, field->size) & field->beside;
	window_put(at, field->size, value);
}

/* To 1..0xffff, or 0 for 0. */
static inline uint32_t folded(uint64_t sum)
{
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint32_t)sum;
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
	const uint8_t *signature = bytes + template->signature;
	const struct checksum *checksum = &set->checksum[0];
	uint64_t sum = template->base[0] + window_get(signature, 4) + window_get(signature + 4, 4) +
		       window_get(signature + 8, 4) + window_get(signature + 12, 2);
	uint16_t result;

	sum += (checksum->fields & 1 ? (uint32_t)at->value[0] : 0) + (checksum->fields & 2 ? (uint16_t)at->value[1] : 0ULL);
	result = (uint16_t)~folded(sum);
	return result == 0 && checksum->never_zero ? UINT16_MAX : result;
}

/*
 * An internet checksum, as a number, from the fields' values and the signature and checksums inside that stand in the
 * frame: what is the same in all frames is in `base`. A one's complement sum of words is that of the numbers they are
 * part of, and of a number that ends with a word's first byte the same with its two bytes changed over (RFC 1071).
 */
static inline uint16_t internet_checksum(const struct frame_set *set, unsigned int which, uint16_t base,
					 const uint64_t *values, const uint8_t *bytes, size_t signature_at)
{
	const struct checksum *checksum = &set->checksum[which];
	uint64_t even = base, odd = 0;
	uint16_t result;

	for (unsigned int left = checksum->fields; left != 0; left &= left - 1) {
		unsigned int at = (unsigned int)__builtin_ctz(left);
		uint64_t window = values[at] << set->field[at].shift;
		uint64_t sum = (window >> 32) + (uint32_t)window;

		if (checksum->odd_fields >> at & 1)
			odd += sum;
		else
			even += sum;
	}
	for (unsigned int left = checksum->checksums; left != 0; left &= left - 1) {
		unsigned int at = (unsigned int)__builtin_ctz(left);
		const struct checksum *inside = &set->checksum[at];

		if (checksum->odd_checksums >> at & 1)
			odd += window_get(bytes + inside->offset, inside->crc32c ? 4 : 2);
		else
			even += window_get(bytes + inside->offset, inside->crc32c ? 4 : 2);
	}
	if (checksum->signature) {
		const uint8_t *signature = bytes + signature_at;
		uint64_t sum = window_get(signature + 4, 4) + window_get(signature + 8, 4) + window_get(signature + 12, 2);

		sum += window_get(signature, 4);
		if ((signature_at - checksum->start) % 2 != 0)
			odd += sum;
		else
			even += sum;
	}
	result = (uint16_t)~folded(even + (odd != 0 ? (uint64_t)folded(odd) << 8 : 0));
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
