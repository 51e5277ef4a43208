/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "signature.h"
#include "template.h"

static uint16_t word_at(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static uint32_t sum_without_source(const uint8_t *ipv4)
{
	uint32_t sum = 0;

	for (size_t at = 0; at < IPV4_HEADER_BYTES; at += 2)
		if (at != IPV4_CHECKSUM_OFFSET && at != IPV4_SOURCE_OFFSET && at != IPV4_SOURCE_OFFSET + 2)
			sum += word_at(ipv4 + at);
	return sum;
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

static const char *check_headers(const struct frame_set *set, const uint8_t *bytes, size_t length)
{
	const uint8_t *ipv4;

	if (length < MIN_FRAME_BYTES || length > MAX_FRAME_BYTES)
		return "a template must have 60 to 9216 bytes (without FCS)";
	if (set->signature + sizeof(struct signature) > length)
		return "the signature does not fit behind the headers; use a longer frame";
	ipv4 = bytes + set->ipv4;
	if (ipv4[0] != 0x45 || ipv4[9] != 17)
		return "a template must be IPv4 without options carrying UDP";
	if ((size_t)word_at(ipv4 + 2) + set->ipv4 > length)
		return "the IPv4 total length is beyond the template's end";
	return NULL;
}

const char *frame_set_add(struct frame_set *set, const uint8_t *bytes, size_t length)
{
	const char *wrong;
	struct template *template;

	if (set->templates == MAX_TEMPLATES)
		return "a stream has at most 8 templates";
	if (set->signature < ETHERTYPE_OFFSET + 2 + IPV4_HEADER_BYTES + UDP_HEADER_BYTES)
		return "the signature must stand behind Ethernet, IPv4 and UDP headers";
	set->ipv4 = (uint16_t)(set->signature - UDP_HEADER_BYTES - IPV4_HEADER_BYTES);
	wrong = check_headers(set, bytes, length);
	if (wrong != NULL)
		return wrong;
	template = aligned_alloc(64, (sizeof(*template) + 63) / 64 * 64);
	if (template == NULL)
		return "out of memory";
	memset(template, 0, sizeof(*template));
	memcpy(template->bytes, bytes, length);
	for (size_t at = length; at < length + HEAD_UNIT; at++)
		template->bytes[at] = pattern_byte(at);
	template->length = (uint16_t)length;
	template->copied = bytes_to_copy(bytes, length, set->signature + sizeof(struct signature));
	template->checksum_base = sum_without_source(bytes + set->ipv4);
	template->ipv4_length = word_at(bytes + set->ipv4 + 2);
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

static bool flow_matches(const struct frame_set *set, uint64_t seq, const uint8_t *ipv4)
{
	uint32_t flow = (uint32_t)(seq % set->flows.count);
	uint32_t address = set->flows.first_address + flow % set->flows.addresses;
	uint32_t port = set->flows.first_port + flow / set->flows.addresses;
	const uint8_t *source = ipv4 + IPV4_SOURCE_OFFSET;

	return word_at(source) == address >> 16 && word_at(source + 2) == (address & 0xffff) &&
	       word_at(ipv4 + IPV4_HEADER_BYTES) == port;
}

bool frame_matches(const struct frame_set *set, uint64_t seq, const uint8_t *bytes, size_t length, size_t ipv4)
{
	const struct template *template = frame_set_at(set, seq);
	const uint8_t *got = bytes + ipv4;
	const uint8_t *sent = template->bytes + set->ipv4;
	size_t behind = IPV4_HEADER_BYTES + UDP_HEADER_BYTES + sizeof(struct signature);

	if (word_at(got + 2) != template->ipv4_length || ipv4 + template->ipv4_length > length)
		return false;
	if (!checksum_holds(got) || got[9] != sent[9] || memcmp(got + 16, sent + 16, 4) != 0)
		return false;
	/* UDP but the source port, which makes flows. */
	if (memcmp(got + 22, sent + 22, 6) != 0)
		return false;
	if (set->flows.count > 1 ? !flow_matches(set, seq, got) : memcmp(got + 12, sent + 12, 4) != 0)
		return false;
	return template->ipv4_length <= behind || memcmp(got + behind, sent + behind, template->ipv4_length - behind) == 0;
}
