/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <rte_cycles.h>
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

static void rewrite_burst(const struct port *port, const struct burst *burst, uint16_t count)
{
	for (uint16_t at = 0; at < count; at++)
		rte_prefetch0(burst->bytes[at]);
	for (uint16_t at = 0; at < count; at++)
		rewrite(port, (struct rte_ether_addr *)burst->bytes[at]);
}

/* Does the port drop the frame that is received next? Every drop_every-th is. */
static bool is_dropped(const struct port *port, uint64_t number)
{
	return port->config.drop_every != 0 && number % port->config.drop_every == 0;
}

/* Takes the frames out of the burst that are to be dropped, behind those that remain; returns how many remain. */
static uint16_t drop_asked(struct port *port, struct burst *burst)
{
	uint64_t first = port->forwarded.rx - burst->count + 1;
	struct rte_mbuf *dropped[BURST_FRAMES];
	uint16_t kept = 0, gone = 0;

	for (uint16_t at = 0; at < burst->count; at++) {
		if (is_dropped(port, first + at)) {
			dropped[gone++] = burst->mbufs[at];
			continue;
		}
		burst->bytes[kept] = burst->bytes[at];
		burst->length[kept] = burst->length[at];
		burst->mbufs[kept++] = burst->mbufs[at];
	}
	memcpy(burst->mbufs + kept, dropped, gone * sizeof(dropped[0]));
	port->forwarded.asked += gone;
	return kept;
}

/* Copies frames into buffers of the peer's; returns how many it took. */
static uint16_t copy_to_peer(struct port *peer, uint16_t queue, const struct burst *burst, uint16_t count)
{
	struct burst out;
	uint16_t room = port_room(peer, queue, &out, count);

	for (uint16_t at = 0; at < room; at++) {
		out.length[at] = burst->length[at];
		memcpy(out.bytes[at], burst->bytes[at], burst->length[at]);
	}
	return port_send(peer, queue, &out, room);
}

static void forward_burst(struct port *port, uint16_t queue, struct burst *burst)
{
	bool mbufs = port->kind == PORT_DPDK && port->peer != NULL && port->peer->kind == PORT_DPDK;
	uint16_t count = burst->count;
	uint16_t sent = 0;

	port->forwarded.rx += count;
	if (port->config.drop_every != 0)
		count = drop_asked(port, burst);
	if (port->peer != NULL) {
		uint16_t to = queue % port->peer->config.queues;

		if (port->config.mode != VNF_IO)
			rewrite_burst(port, burst, count);
		sent = mbufs ? port_send_mbufs(port->peer, to, burst->mbufs, count) : copy_to_peer(port->peer, to, burst, count);
	}
	port->forwarded.tx += sent;
	port->forwarded.full += count - sent;
	if (mbufs) /* those that were sent are the peer's */
		rte_pktmbuf_free_bulk(burst->mbufs + sent, burst->count - sent);
	else
		port_give_back(port, queue, burst);
}

uint32_t forward_turn(struct port *port)
{
	uint32_t received = 0;

	for (uint16_t queue = 0; queue < port->config.queues; queue++) {
		for (int round = 0; round < FORWARD_ROUNDS; round++) {
			struct burst burst;

			if (port_take(port, queue, &burst, rte_rdtsc()) == 0)
				break;
			forward_burst(port, queue, &burst);
			received += burst.count;
			if (burst.count < BURST_FRAMES)
				break;
		}
	}
	return received;
}
