/* SPDX-License-Identifier: Apache-2.0 */
/* DPDK ports, attached and detached while the program runs. */
#ifndef NFVPERF_PORT_H
#define NFVPERF_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "port_config.h"
#include "sizes.h"

/* Frames on a port that are not of the running trial, by what they are. */
struct foreign {
	uint64_t other_trial; /* ours, of an earlier trial */
	uint64_t misdirected; /* of this trial, but due on another port */
	uint64_t arp;
	uint64_t ipv6; /* neighbour discovery, MLD */
	uint64_t lldp;
	uint64_t stp;
	uint64_t other;
};

struct forward_counts {
	uint64_t rx;
	uint64_t tx;
	uint64_t full; /* the peer's ring was full */
	uint64_t asked; /* dropped because drop_every says so */
};

/* Of a host behind an endpoint. */
struct host_counts {
	uint64_t to_host;
	uint64_t from_host;
	uint64_t dropped;
};

struct track;

struct port {
	struct port_config config;
	bool used;
	uint16_t written; /* bytes over the pattern of transmit buffers, by the last trial's frames */
	uint16_t id; /* DPDK's */
	bool back_pressure; /* the ring fills instead of losing frames */
	bool own_buffers; /* frames received lie in rx_pool, not in the sender's buffers */
	uint64_t position; /* descriptors of transmit queue 0 that were used since its ring began */
	struct port *peer;
	struct port *host; /* behind this endpoint, or NULL */
	struct rte_mempool *rx_pool;
	struct rte_mempool *tx_pool;
	/* of the running trial */
	struct track *tracks[MAX_STREAMS];
	struct foreign foreign;
	struct forward_counts forwarded;
	struct host_counts hosted;
	uint64_t flushed; /* found on the port before the trial began */
	/* of a host: frames on their way to the endpoint's ring, and how full that is */
	struct rte_mbuf *held[2 * BURST_FRAMES];
	uint16_t held_count;
	uint64_t seen_due;
	uint64_t seen_refused;
	double refused_share;
};

struct ports {
	struct port port[MAX_PORTS];
	struct rte_mempool *retired[4 * MAX_PORTS]; /* still holding frames of other ports' rings */
	unsigned int serial; /* device names are never used twice */
};

/* NULL on success, else what went wrong, to be freed by nobody: static or in `error`. */
const char *port_attach(struct ports *ports, const struct port_config *config, unsigned int workers, char *error,
			size_t size);
void port_detach(struct ports *ports, struct port *port);
struct port *port_find(struct ports *ports, const char *name);
bool port_link_up(struct port *port);
/* Before a trial whose frames write so many bytes over the pattern of the transmit buffers: what longer heads of a
 * former trial left there is made the pattern again. */
void port_prepare_buffers(struct port *port, uint16_t bytes);

/* Hands frames to a transmit queue; returns how many it took. */
static inline uint16_t port_send(struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	uint16_t sent = rte_eth_tx_burst(port->id, queue, mbufs, count);

	if (queue == 0)
		port->position += sent;
	return sent;
}

#endif
