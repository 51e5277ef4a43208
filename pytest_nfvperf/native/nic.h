/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device of a DPDK port: what its driver grants of queues, descriptors and buffers, the addresses whose frames it
 * lets in, and the frames that it loses by itself.
 */
#ifndef NFVPERF_NIC_H
#define NFVPERF_NIC_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_mempool.h>

#include "driver.h"

struct nic_counts {
	uint64_t of[NIC_COUNTERS];
	unsigned int known; /* bits: a driver that does not count something leaves a 0, which is none */
};

/* Of a port's link. The last of so many lasts to the end of all that follow. */
enum { MOST_OUTAGES = 16 };

struct link_outage {
	uint64_t lost, restored; /* TSC; restored is 0 while it has no link */
};

/* Links that went and came in the running trial, or the last one. */
struct link_log {
	struct link_outage outages[MOST_OUTAGES];
	unsigned int count;
};

struct nic {
	uint16_t id; /* DPDK's */
	const char *driver;
	char pci[RTE_ETH_NAME_MAX_LEN]; /* address of a device that is on a bus; "" of a virtual one */
	struct rte_ether_addr mac; /* that it has now */
	struct rte_ether_addr own_mac; /* that it had before, and gets back */
	bool promiscuous;
	uint16_t rx_descriptors, tx_descriptors; /* granted, of a queue */
	struct nic_counts before, lost; /* at a trial's start, and since */
	struct link_log links;
};

/* Each is 0, or a negative errno with a sentence in `error`. */

/* Makes the device known to DPDK, and asks what it grants. */
int nic_probe(struct nic *nic, const struct port_config *config, unsigned int serial, char *error, size_t size);
/* Starts it with these receive buffers. -ENOBUFS: its rings took all of them, and want more. */
int nic_start(struct nic *nic, const struct port_config *config, struct rte_mempool *rx_pool, char *error, size_t size);
/* Has it let in frames to any address, or at least to the port's. */
int nic_open_filter(struct nic *nic, const struct port_config *config, char *error, size_t size);
/* Gives it back as it was. */
void nic_remove(struct nic *nic, const struct port_config *config);

/* Notes whether there is a link now. */
void link_note(struct link_log *log, bool up);

bool nic_link_up(const struct nic *nic);
/* Whether somebody has to look at its link during a trial: nobody counts a NIC's that DPDK took from the kernel. */
bool nic_link_watched(const struct nic *nic);

/* What it counts now, false if it cannot be read; and around a trial. */
bool nic_read(const struct nic *nic, struct nic_counts *counts, struct rte_eth_stats *stats);
void nic_trial_begin(struct nic *nic);
void nic_trial_look(struct nic *nic);
void nic_trial_end(struct nic *nic);

#endif
