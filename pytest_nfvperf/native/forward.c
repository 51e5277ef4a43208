/* SPDX-License-Identifier: Apache-2.0 */
#include <rte_ethdev.h>
#include <rte_prefetch.h>

#include "forward.h"

enum { FORWARD_ROUNDS = 8 };

static void rewrite(const struct port *port, struct rte_ether_addr *addresses)
{
	struct rte_ether_addr destination = addresses[0];

	if (port->config.mode == VNF_MAC) {
		addresses[0] = port->config.eth_peer;
		addresses[1] = port->peer->config.mac;
	} else {
		addresses[0] = addresses[1];
		addresses[1] = destination;
	}
}

static void rewrite_burst(const struct port *port, struct rte_mbuf **mbufs, uint16_t count)
{
	for (uint16_t at = 0; at < count; at++)
		rte_prefetch0(rte_pktmbuf_mtod(mbufs[at], void *));
	for (uint16_t at = 0; at < count; at++)
		rewrite(port, rte_pktmbuf_mtod(mbufs[at], struct rte_ether_addr *));
}

/* Drops every drop_every-th frame of the port; returns how many remain, moved to the front. */
static uint16_t drop_asked(struct port *port, struct rte_mbuf **mbufs, uint16_t count)
{
	uint64_t first = port->forwarded.rx - count + 1;
	uint16_t kept = 0;

	for (uint16_t at = 0; at < count; at++) {
		if ((first + at) % port->config.drop_every == 0) {
			rte_pktmbuf_free(mbufs[at]);
			port->forwarded.asked++;
		} else {
			mbufs[kept++] = mbufs[at];
		}
	}
	return kept;
}

static void forward_burst(struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	uint16_t sent = 0;

	port->forwarded.rx += count;
	if (port->config.drop_every != 0)
		count = drop_asked(port, mbufs, count);
	if (port->peer != NULL) {
		if (port->config.mode != VNF_IO)
			rewrite_burst(port, mbufs, count);
		sent = port_send(port->peer, queue % port->peer->config.queues, mbufs, count);
	}
	port->forwarded.tx += sent;
	port->forwarded.full += count - sent;
	rte_pktmbuf_free_bulk(mbufs + sent, count - sent);
}

uint32_t forward_turn(struct port *port)
{
	struct rte_mbuf *mbufs[BURST_FRAMES];
	uint32_t received = 0;

	for (uint16_t queue = 0; queue < port->config.queues; queue++) {
		for (int round = 0; round < FORWARD_ROUNDS; round++) {
			uint16_t count = rte_eth_rx_burst(port->id, queue, mbufs, BURST_FRAMES);

			if (count == 0)
				break;
			forward_burst(port, queue, mbufs, count);
			received += count;
			if (count < BURST_FRAMES)
				break;
		}
	}
	return received;
}
