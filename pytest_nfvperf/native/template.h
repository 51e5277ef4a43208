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
	int16_t from; /* of an answer: where the value is in the arriving frame, from its signature on: below 0; 0: nowhere */
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
	uint8_t learned; /* bits: fields with a `from` */
	uint16_t learned_in_front; /* bytes in front of an arriving frame's signature that they are in */
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

/*
 * The place of `index` in a fixed random order of 0..count-1 in which nothing repeats: a Feistel network over the next
 * even number of bits, applied again while its result is not below the count. model/traffic/frame_program.py has the
 * same: both must give the same numbers.
 */
uint32_t permuted(uint32_t index, uint32_t count, uint32_t seed);

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

/* The words of a signature, for an internet checksum that is over them. */
static inline uint64_t signature_sum(const uint8_t *at)
{
	return window_get(at, 4) + window_get(at + 4, 4) + window_get(at + 8, 4) + window_get(at + 12, 2);
}

static inline uint64_t field_get(const struct field *field, const uint8_t *bytes)
{
	return window_get(bytes + field->offset, field->size) >> field->shift & field->mask;
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
		if ((signature_at - checksum->start) % 2 != 0)
			odd += signature_sum(bytes + signature_at);
		else
			even += signature_sum(bytes + signature_at);
	}
	result = (uint16_t)~folded(even + (odd != 0 ? (uint64_t)folded(odd) << 8 : 0));
	return result == 0 && checksum->never_zero ? UINT16_MAX : result;
}

/* Bits of a frame, counted from its beginning: `end` is the one behind the last. */
struct bits {
	size_t first, end;
};

static inline size_t stored_bytes(const struct checksum *checksum)
{
	return checksum->crc32c ? 4 : 2;
}

static inline struct bits field_bits(const struct field *field)
{
	size_t end = 8U * (field->offset + field->size) - field->shift;

	return (struct bits){end - field->bits, end};
}

static inline struct bits checksum_bits(const struct checksum *checksum)
{
	return (struct bits){8U * checksum->offset, 8U * (checksum->offset + stored_bytes(checksum))};
}

static inline struct bits range_bits(const struct byte_range *range)
{
	return (struct bits){8U * range->offset, 8U * (range->offset + range->bytes)};
}

static inline bool overlap(struct bits one, struct bits other)
{
	return one.first < other.end && other.first < one.end;
}

#endif
