/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

enum {
	ETHERTYPE_VLAN = 0x8100,
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_IPV6 = 0x86dd,
	VLAN_TAG_BYTES = 4,
	IPV4_WITHOUT_OPTIONS = 0x45,
	IPV4_PROTOCOL_OFFSET = 9,
	IPV6_NEXT_HEADER_OFFSET = 6,
};

static unsigned int word_at(const uint8_t *bytes)
{
	return (unsigned int)bytes[0] << 8 | bytes[1];
}

/* The frame that begins at `at`, with one tag at most; false unless it carries UDP. */
static bool udp_in_frame(const uint8_t *bytes, size_t length, size_t at, struct layout *layout)
{
	size_t type_at = at + ETHERTYPE_OFFSET;
	unsigned int type;
	const uint8_t *ip;

	if (length < type_at + 2 + VLAN_TAG_BYTES)
		return false;
	type = word_at(bytes + type_at);
	if (type == ETHERTYPE_VLAN) {
		type_at += VLAN_TAG_BYTES;
		type = word_at(bytes + type_at);
	}
	layout->ip = (uint16_t)(type_at + 2);
	layout->ipv6 = type == ETHERTYPE_IPV6;
	layout->udp = (uint16_t)(layout->ip + (layout->ipv6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES));
	layout->payload = layout->udp + UDP_HEADER_BYTES;
	if ((type != ETHERTYPE_IPV4 && type != ETHERTYPE_IPV6) || length < layout->payload)
		return false;
	ip = bytes + layout->ip;
	if (layout->ipv6)
		return ip[0] >> 4 == 6 && ip[IPV6_NEXT_HEADER_OFFSET] == PROTOCOL_UDP;
	return ip[0] == IPV4_WITHOUT_OPTIONS && ip[IPV4_PROTOCOL_OFFSET] == PROTOCOL_UDP;
}

bool layout_of(const uint8_t *bytes, size_t length, struct layout *layout)
{
	size_t inner;

	layout->outer_udp = 0;
	if (!udp_in_frame(bytes, length, 0, layout))
		return false;
	if (word_at(bytes + layout->udp + 2) != VXLAN_PORT)
		return true;
	layout->outer_udp = layout->udp;
	inner = (size_t)layout->payload + VXLAN_HEADER_BYTES;
	return udp_in_frame(bytes, length, inner, layout);
}
