/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a port is asked to be, and what is known of its device's driver without asking it: how its arguments go on, how
 * many buffers its rings hold, what it counts. No calls of DPDK.
 */
#ifndef NFVPERF_DRIVER_H
#define NFVPERF_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_ether.h>

#include "sizes.h"

enum port_role { ROLE_ENDPOINT, ROLE_FORWARDER, ROLE_MONITOR, ROLE_HOST };
enum vnf_mode { VNF_IO, VNF_MAC, VNF_MACSWAP };

struct port_config {
	char name[MAX_NAME];
	char device[MAX_DEVARGS];
	char peer[MAX_NAME];
	char bond[MAX_NAME]; /* that it is a member of; "": of none */
	bool learns; /* the bond sends by the member at which frames last came; else by one whose switch is there */
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

enum { MAC_TEXT = RTE_ETHER_ADDR_FMT_SIZE };

/* Writes an address into that many bytes of `text`, and returns them. */
const char *mac_text(const struct rte_ether_addr *mac, char *text);

/*
 * Writes the devargs with a device name of its own ("net_virtio_user" becomes "net_virtio_user7"),
 * MAC, ring size and queues filled in where the driver takes them, and the device's name alone
 * into `name`. False when they do not fit.
 */
bool devargs_expand(const struct port_config *config, unsigned int serial, char *devargs, char *name, size_t size);

/* Whether it is a device of this driver, numbered or not. */
bool devargs_is(const char *devargs, const char *driver);

/* Whether a driver makes the device (net_*, eth_*), so that no bus finds it. */
bool devargs_virtual(const char *devargs);

/* The value of a key in devargs into `value`; false when it is not there. */
bool devargs_value(const char *devargs, const char *key, char *value, size_t size);

/* Whether the driver copies received frames into the port's buffers, instead of passing the sender's. */
bool devargs_own_buffers(const char *devargs);

/* Whether the driver's rings push back instead of losing frames. */
bool devargs_back_pressure(const char *devargs);

enum { MOST_RINGS = 4 }; /* that a driver may have for a receive queue */

/* Receive buffers of a port whose driver has so many rings a queue (vmxnet3: 2), and transmit buffers. */
uint32_t nic_rx_buffers(const struct port_config *config, uint16_t descriptors, unsigned int rings);
uint32_t nic_tx_buffers(const struct port_config *config, uint16_t descriptors);

/* Whether the rings of a started device left the port enough of so many buffers: else they took all they could get. */
bool nic_rings_are_full(uint32_t left);

/* The counters of a device that say what is lost in it, in DPDK's order. */
enum nic_counter { NIC_RX_MISSED, NIC_RX_ERRORS, NIC_TX_ERRORS, NIC_RX_NOMBUF, NIC_COUNTERS };

const char *nic_counter_name(enum nic_counter counter);
/* The bits of the counters that a driver has. */
unsigned int nic_known(const char *driver);

#endif
