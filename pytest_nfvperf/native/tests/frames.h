/* SPDX-License-Identifier: Apache-2.0 */
/* Test frames of every kind, made without the code that is tested. */
#ifndef NFVPERF_FRAMES_H
#define NFVPERF_FRAMES_H

#include <stdint.h>
#include <string.h>

enum frame_kind { PLAIN_IPV4, PLAIN_IPV6, VXLAN4_IPV4, VXLAN4_IPV6, VXLAN6_IPV4, VXLAN6_IPV6, FRAME_KINDS };

static inline int outer_version(enum frame_kind kind)
{
	return kind < VXLAN4_IPV4 ? 0 : kind < VXLAN6_IPV4 ? 4 : 6;
}

static inline int inner_version(enum frame_kind kind)
{
	return kind % 2 == 0 ? 4 : 6;
}

/* From the first MAC address to the end of the innermost UDP header. */
static inline size_t frame_headers(enum frame_kind kind)
{
	size_t udp[] = {[0] = 0, [4] = 14 + 20 + 8, [6] = 14 + 40 + 8};
	size_t around = outer_version(kind) ? udp[outer_version(kind)] + 8 : 0;

	return around + udp[inner_version(kind)];
}

/* Of 16-bit words in network order, folded. */
static inline uint16_t words_sum(const uint8_t *bytes, size_t length, uint32_t sum)
{
	for (size_t at = 0; at < length; at++)
		sum += at % 2 == 0 ? (uint32_t)bytes[at] << 8 : bytes[at];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Of pseudo-header and datagram (RFC 8200 section 8.1) of the IPv6 packet at `ip`. */
static inline uint16_t udp6_words_sum(const uint8_t *bytes, size_t ip)
{
	size_t length = (size_t)bytes[ip + 4] << 8 | bytes[ip + 5];

	return words_sum(bytes + ip + 40, length, words_sum(bytes + ip + 8, 32, (uint32_t)length + 17));
}

static inline void word_put(uint8_t *at, size_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static inline void ip_make(uint8_t *ip, int version, size_t length)
{
	memset(ip, 0, version == 4 ? 20 : 40);
	if (version == 4) {
		ip[0] = 0x45;
		word_put(ip + 2, length);
		ip[8] = 64;
		ip[9] = 17;
		memcpy(ip + 12, (const uint8_t[]){198, 18, 0, 1, 198, 19, 0, 1}, 8);
		word_put(ip + 10, (uint16_t)~words_sum(ip, 20, 0));
		return;
	}
	ip[0] = 0x60;
	word_put(ip + 4, length - 40);
	ip[6] = 17;
	ip[7] = 64;
	memcpy(ip + 8, (const uint8_t[]){0x20, 1, 0, 2}, 4);
	memcpy(ip + 24, (const uint8_t[]){0x20, 1, 0, 2, 0, 0, 0x80}, 7);
	ip[23] = ip[39] = 1;
}

/* Ethernet, IP and UDP from `at` on, as long as the rest of the frame; returns where the UDP payload begins. */
static inline size_t udp_make(uint8_t *bytes, size_t at, size_t length, int version, uint16_t source, uint16_t destination)
{
	size_t udp = at + 14 + (version == 4 ? 20 : 40);

	memcpy(bytes + at, (const uint8_t[]){2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}, 12);
	word_put(bytes + at + 12, version == 4 ? 0x0800 : 0x86dd);
	ip_make(bytes + at + 14, version, length - at - 14);
	word_put(bytes + udp, source);
	word_put(bytes + udp + 2, destination);
	word_put(bytes + udp + 4, length - udp);
	word_put(bytes + udp + 6, 0);
	return udp + 8;
}

/* A frame with right checksums, its signature zeros, byte n n modulo 256 behind it. `length`: without FCS. */
static inline void frame_make(uint8_t *bytes, size_t length, enum frame_kind kind)
{
	size_t at = 0;
	size_t ip;

	for (size_t byte = 0; byte < length; byte++)
		bytes[byte] = (uint8_t)byte;
	if (outer_version(kind)) {
		at = udp_make(bytes, 0, length, outer_version(kind), 49152, 4789);
		memcpy(bytes + at, (const uint8_t[]){8, 0, 0, 0, 0, 0, 7, 0}, 8);
		at += 8;
	}
	ip = at + 14;
	at = udp_make(bytes, at, length, inner_version(kind), 0xc020, 7);
	memset(bytes + at, 0, 14);
	if (inner_version(kind) == 6)
		word_put(bytes + at - 2, (uint16_t)~udp6_words_sum(bytes, ip));
}

#endif
