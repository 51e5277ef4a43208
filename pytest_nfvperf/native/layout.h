/* SPDX-License-Identifier: Apache-2.0 */
/* Where the headers of a test frame stand: UDP over IPv4 or IPv6, as it is or in a VXLAN (RFC 7348). */
#ifndef NFVPERF_LAYOUT_H
#define NFVPERF_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ETHERTYPE_OFFSET = 12,
	ETHERNET_HEADER_BYTES = 14,
	IPV4_HEADER_BYTES = 20,
	IPV4_CHECKSUM_OFFSET = 10,
	IPV4_SOURCE_OFFSET = 12,
	IPV6_HEADER_BYTES = 40,
	IPV6_SOURCE_OFFSET = 8,
	UDP_HEADER_BYTES = 8,
	UDP_LENGTH_OFFSET = 4,
	UDP_CHECKSUM_OFFSET = 6,
	VXLAN_HEADER_BYTES = 8,
	PROTOCOL_UDP = 17,
	VXLAN_PORT = 4789,
	/* RFC 7348 section 5: the outer source port is of the dynamic range, 49152 to 65535. */
	VXLAN_FIRST_SOURCE_PORT = 49152,
	VXLAN_SOURCE_PORT_MASK = 0x3fff,
};

/* Offsets into the frame; of IP and UDP the innermost. */
struct layout {
	uint16_t outer_udp; /* in front of a VXLAN; 0: there is none */
	uint16_t ip;
	uint16_t udp;
	uint16_t payload;
	bool ipv6;
};

/* False for any other frame. All headers are within `length`; what their length fields say is not looked at. */
bool layout_of(const uint8_t *bytes, size_t length, struct layout *layout);

#endif
