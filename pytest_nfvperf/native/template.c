/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "signature.h"
#include "template.h"

static uint16_t word_at(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static uint32_t ipv4_sum_without_source(const uint8_t *ipv4)
{
	uint32_t sum = 0;

	for (size_t at = 0; at < IPV4_HEADER_BYTES; at += 2)
		if (at != IPV4_CHECKSUM_OFFSET && at != IPV4_SOURCE_OFFSET && at != IPV4_SOURCE_OFFSET + 2)
			sum += word_at(ipv4 + at);
	return sum;
}

/*
 * The sum of words as they stand in memory, an odd last byte filled up with 0. One's complement sums do not
 * depend on the order of bytes (RFC 1071 section 2): the result only has to be stored the way it was read.
 */
static uint32_t memory_sum(const uint8_t *bytes, size_t length)
{
	uint32_t sum = length % 2 != 0 ? bytes[length - 1] : 0;

	for (size_t at = 0; at + 1 < length; at += 2) {
		uint16_t word;

		memcpy(&word, bytes + at, sizeof(word));
		sum += word;
	}
	return sum;
}

/* What of a frame differs from the next one's and is in UDP's checksum over IPv6: address, port, signature. */
static uint32_t differing_sum(const struct layout *layout, const uint8_t *bytes)
{
	return memory_sum(bytes + layout->ip + IPV6_SOURCE_OFFSET + 12, 4) + memory_sum(bytes + layout->udp, 2) +
	       memory_sum(bytes + layout->payload, sizeof(struct signature));
}

/* Of the pseudo-header (RFC 8200 section 8.1), UDP header and payload; 0xffff when the checksum in it is right. */
static uint32_t udp6_sum(const struct layout *layout, const uint8_t *bytes, uint16_t udp_length)
{
	static const uint8_t next_header[] = {0, PROTOCOL_UDP};
	const uint8_t *length_field = bytes + layout->udp + UDP_LENGTH_OFFSET;

	return memory_sum(bytes + layout->ip + IPV6_SOURCE_OFFSET, 32) + memory_sum(length_field, 2) +
	       memory_sum(next_header, sizeof(next_header)) + memory_sum(bytes + layout->udp, udp_length);
}

static uint16_t folded(uint32_t sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)sum;
}

static uint32_t udp6_base(const struct layout *layout, const uint8_t *bytes, uint16_t udp_length)
{
	uint32_t checksum = memory_sum(bytes + layout->udp + UDP_CHECKSUM_OFFSET, 2);

	return udp6_sum(layout, bytes, udp_length) - checksum - differing_sum(layout, bytes);
}

uint16_t frame_udp6_checksum(const struct frame_set *set, const struct template *template, const uint8_t *bytes)
{
	uint16_t checksum = (uint16_t)~folded(template->checksum_base + differing_sum(&set->layout, bytes));

	return checksum == 0 ? UINT16_MAX : checksum; /* RFC 768: 0 would say that there is none */
}

void frame_seal(const struct frame_set *set, uint64_t seq, uint8_t *bytes)
{
	uint16_t checksum;

	if (!set->layout.ipv6)
		return;
	checksum = frame_udp6_checksum(set, frame_set_at(set, seq), bytes);
	memcpy(bytes + set->layout.udp + UDP_CHECKSUM_OFFSET, &checksum, sizeof(checksum));
}

struct frame_cursor frame_cursor_at(const struct frame_set *set, uint64_t seq)
{
	uint32_t flow = (uint32_t)(seq % set->flows.count);

	return (struct frame_cursor){
		.order = (unsigned int)(seq % set->order_length),
		.flow = flow,
		.address = flow % set->flows.addresses,
		.port = flow / set->flows.addresses,
	};
}

static void differs(struct template *template, size_t first, size_t count)
{
	for (size_t at = first; at < first + count; at++)
		if (at >= template->compared_from && at < template->compared_from + sizeof(template->same))
			template->same[at - template->compared_from] = 0;
}

/* Which bytes of a short frame every received one must have, and in which lines they are. */
static void plan_comparison(struct template *template, const struct layout *layout)
{
	size_t end = layout->udp + (size_t)template->udp_length;

	template->compared_from = (uint16_t)(layout->ip / HEAD_UNIT * HEAD_UNIT);
	if (template->length > MAX_COMPARED || end > template->compared_from + sizeof(template->same))
		return;
	template->lines = (uint16_t)((end - template->compared_from + HEAD_UNIT - 1) / HEAD_UNIT);
	memset(template->same, 0xff, sizeof(template->same));
	differs(template, 0, layout->ip); /* switches rewrite addresses and tags, and tunnels are around */
	differs(template, end, sizeof(template->same));
	differs(template, layout->ip + (layout->ipv6 ? 0 : 1), layout->ipv6 ? 4 : 1); /* class, flow label */
	differs(template, layout->ip + (layout->ipv6 ? 7 : 8), 1); /* TTL */
	differs(template, layout->ip + (layout->ipv6 ? IPV6_SOURCE_OFFSET + 12 : IPV4_SOURCE_OFFSET), 4);
	differs(template, layout->ipv6 ? layout->udp + UDP_CHECKSUM_OFFSET : layout->ip + IPV4_CHECKSUM_OFFSET, 2);
	differs(template, layout->udp, 2);
	differs(template, layout->payload, sizeof(struct signature));
}

/* How much of the frame must be copied each time: all of it unless the rest is the pattern. */
static uint16_t bytes_to_copy(const uint8_t *bytes, size_t length, size_t behind_signature)
{
	size_t different = behind_signature;

	for (size_t at = behind_signature; at < length; at++)
		if (bytes[at] != pattern_byte(at))
			different = at + 1;
	return (uint16_t)((different + HEAD_UNIT - 1) / HEAD_UNIT * HEAD_UNIT);
}

static const char *check_headers(const struct frame_set *set, const uint8_t *bytes, size_t length,
				 const struct layout *layout)
{
	if (set->signature + sizeof(struct signature) > length)
		return "the signature does not fit behind the headers; use a longer frame";
	if (set->signature != layout->payload)
		return "the signature must stand behind the innermost UDP header";
	if (set->templates > 0 && (set->layout.ip != layout->ip || set->layout.outer_udp != layout->outer_udp))
		return "all templates of a stream must have the same headers";
	if ((size_t)word_at(bytes + layout->udp + UDP_LENGTH_OFFSET) + layout->udp > length)
		return "the UDP length is beyond the template's end";
	if (word_at(bytes + layout->udp + UDP_LENGTH_OFFSET) < UDP_HEADER_BYTES + sizeof(struct signature))
		return "the UDP length does not cover the signature";
	return NULL;
}

const char *frame_set_add(struct frame_set *set, const uint8_t *bytes, size_t length)
{
	struct layout layout = {0};
	const char *wrong;
	struct template *template;

	if (set->templates == MAX_TEMPLATES)
		return "a stream has at most 8 templates";
	if (length < MIN_FRAME_BYTES || length > MAX_FRAME_BYTES)
		return "a template must have 60 to 9216 bytes (without FCS)";
	if (!layout_of(bytes, length, &layout))
		return "a template must be UDP over IPv4 without options or IPv6 without extension headers, or that in VXLAN";
	wrong = check_headers(set, bytes, length, &layout);
	if (wrong != NULL)
		return wrong;
	set->layout = layout;
	template = aligned_alloc(64, (sizeof(*template) + 63) / 64 * 64);
	if (template == NULL)
		return "out of memory";
	memset(template, 0, sizeof(*template));
	memcpy(template->bytes, bytes, length);
	for (size_t at = length; at < sizeof(template->bytes); at++)
		template->bytes[at] = pattern_byte(at);
	template->length = (uint16_t)length;
	template->copied = bytes_to_copy(bytes, length, set->signature + sizeof(struct signature));
	template->udp_length = word_at(bytes + layout.udp + UDP_LENGTH_OFFSET);
	template->checksum_base = layout.ipv6 ? udp6_base(&layout, bytes, template->udp_length) :
						ipv4_sum_without_source(bytes + layout.ip);
	plan_comparison(template, &layout);
	set->template[set->templates++] = template;
	return NULL;
}

const char *frame_set_finish(struct frame_set *set, const uint8_t *order, size_t length, struct flows flows)
{
	uint32_t ports;

	if (set->templates == 0)
		return "a stream needs at least one template";
	if (length == 0 || length > MAX_MIX_ORDER)
		return "the order must have 1 to 256 entries";
	for (size_t at = 0; at < length; at++)
		if (order[at] >= set->templates)
			return "the order names a template that is not there";
	if (flows.count == 0 || flows.addresses == 0)
		return "flows and addresses must be at least 1";
	ports = (flows.count - 1) / flows.addresses + 1;
	if (flows.first_port + ports - 1 > UINT16_MAX)
		return "the flows' UDP source ports go beyond 65535; use more addresses";
	memcpy(set->order, order, length);
	set->order_length = (unsigned int)length;
	set->flows = flows;
	return NULL;
}

uint16_t frame_set_copied(const struct frame_set *set)
{
	uint16_t most = 0;

	for (unsigned int at = 0; at < set->templates; at++)
		most = set->template[at]->copied > most ? set->template[at]->copied : most;
	return most;
}

void frame_set_widen(struct frame_set *set, uint16_t bytes)
{
	for (unsigned int at = 0; at < set->templates; at++)
		if (set->template[at]->copied < bytes)
			set->template[at]->copied = bytes;
}

void frame_set_write_whole(struct frame_set *set)
{
	for (unsigned int at = 0; at < set->templates; at++) {
		struct template *template = set->template[at];
		uint16_t whole = (uint16_t)((template->length + HEAD_UNIT - 1) / HEAD_UNIT * HEAD_UNIT);

		template->copied = template->copied > whole ? template->copied : whole;
	}
}

void frame_set_free(struct frame_set *set)
{
	for (unsigned int at = 0; at < set->templates; at++)
		free(set->template[at]);
	set->templates = 0;
}

static bool checksum_holds(const uint8_t *ipv4)
{
	uint32_t sum = 0;

	for (size_t at = 0; at < IPV4_HEADER_BYTES; at += 2)
		sum += word_at(ipv4 + at);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return sum == 0xffff;
}

static bool flow_matches(const struct frame_set *set, uint64_t seq, const uint8_t *source, const uint8_t *udp)
{
	uint32_t flow = (uint32_t)(seq % set->flows.count);
	uint32_t address = set->flows.first_address + flow % set->flows.addresses;
	uint32_t port = set->flows.first_port + flow / set->flows.addresses;

	return word_at(source) == address >> 16 && word_at(source + 2) == (address & 0xffff) && word_at(udp) == port;
}

static bool ipv4_matches(const uint8_t *got, const uint8_t *sent)
{
	return checksum_holds(got) && got[9] == sent[9] && memcmp(got + 2, sent + 2, 2) == 0 &&
	       memcmp(got + 16, sent + 16, 4) == 0;
}

/* Traffic class, flow label and hop limit may differ. */
static bool ipv6_matches(const uint8_t *got, const uint8_t *sent)
{
	return memcmp(got + 4, sent + 4, 3) == 0 && memcmp(got + IPV6_SOURCE_OFFSET, sent + IPV6_SOURCE_OFFSET, 12) == 0 &&
	       memcmp(got + 24, sent + 24, 16) == 0;
}

/* Over IPv6 there must be one (RFC 8200 section 8.1); over IPv4 none is sent. */
static bool udp_checksum_holds(const struct layout *layout, const uint8_t *bytes, const struct template *template)
{
	bool has_one = word_at(bytes + layout->udp + UDP_CHECKSUM_OFFSET) != 0;

	if (has_one != layout->ipv6)
		return false;
	return !has_one || folded(udp6_sum(layout, bytes, template->udp_length)) == 0xffff;
}

bool frame_matches(const struct frame_set *set, uint64_t seq, const uint8_t *bytes, size_t length, size_t payload)
{
	const struct template *template = frame_set_at(set, seq);
	const struct layout *sent_at = &set->layout;
	struct layout at = {.ipv6 = sent_at->ipv6, .payload = (uint16_t)payload};
	size_t behind = UDP_HEADER_BYTES + sizeof(struct signature);
	const uint8_t *source, *udp, *sent;

	at.udp = at.payload - UDP_HEADER_BYTES;
	at.ip = at.udp - (at.ipv6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES);
	udp = bytes + at.udp;
	sent = template->bytes + sent_at->udp;
	if (word_at(udp + UDP_LENGTH_OFFSET) != template->udp_length || at.udp + template->udp_length > length)
		return false;
	if (!(at.ipv6 ? ipv6_matches : ipv4_matches)(bytes + at.ip, template->bytes + sent_at->ip))
		return false;
	/* The source port makes flows. */
	if (memcmp(udp + 2, sent + 2, 2) != 0 || !udp_checksum_holds(&at, bytes, template))
		return false;
	source = bytes + at.ip + (at.ipv6 ? IPV6_SOURCE_OFFSET + 12 : IPV4_SOURCE_OFFSET);
	if (set->flows.count > 1 ? !flow_matches(set, seq, source, udp) :
				   memcmp(source, template->bytes + sent_at->ip + (source - bytes - at.ip), 4) != 0)
		return false;
	return template->udp_length <= behind || memcmp(udp + behind, sent + behind, template->udp_length - behind) == 0;
}
