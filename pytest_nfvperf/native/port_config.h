/* SPDX-License-Identifier: Apache-2.0 */
/* What a port is asked to be. */
#ifndef NFVPERF_PORT_CONFIG_H
#define NFVPERF_PORT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ether.h>

#include "sizes.h"

enum port_role { ROLE_ENDPOINT, ROLE_FORWARDER, ROLE_MONITOR, ROLE_HOST };
enum vnf_mode { VNF_IO, VNF_MAC, VNF_MACSWAP };

struct port_config {
	char name[MAX_NAME];
	char device[MAX_DEVARGS];
	char peer[MAX_NAME];
	enum port_role role;
	enum vnf_mode mode;
	struct rte_ether_addr mac;
	struct rte_ether_addr eth_peer;
	uint16_t queues;
	uint16_t tx_descriptors;
	uint16_t rx_descriptors;
	uint16_t mtu;
	uint16_t vlan; /* of a host's frames on the endpoint; 0: untagged */
	struct rte_ether_addr addresses[MAX_ADDRESSES]; /* destinations that a monitor tells apart */
	uint16_t address_count;
	bool unread; /* a monitor that is never polled: its ring fills up */
	uint32_t drop_every; /* a forwarder drops every n-th frame; 0: none */
	bool own_ring; /* a vhost-user socket's rings may be driven by ourselves, where DPDK's driver is the other way */
	unsigned int timeout_ms; /* for a server socket: how long to wait for its client */
};

#endif
