/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums that are written or compared when the rest of a frame is there. Internet ones: template.h. */
#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

#include "template.h"

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

uint32_t crc32c_of_frame(const struct checksum *checksum, const uint8_t *bytes, size_t length)
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
	const uint8_t *signature = bytes + template->signature;
	uint64_t sum = template->base[0] + window_get(signature, 4) + window_get(signature + 4, 4) +
		       window_get(signature + 8, 4) + window_get(signature + 12, 2);
	uint16_t stored = (uint16_t)~folded(sum);

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
