/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_prefetch.h>
#include <rte_random.h>

#include "forward.h"

enum { FORWARD_ROUNDS = 8, VID_MASK = 0xfff, ADDRESS_BYTES = 2 * RTE_ETHER_ADDR_LEN };

/* ---- a VNF */

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

/* Takes every drop_every-th frame out of the burst, behind those that remain; returns how many remain. */
static uint16_t drop_asked(struct port *port, struct burst *burst)
{
	uint64_t first = port->forwarded.rx - burst->count + 1;
	struct rte_mbuf *dropped[BURST_FRAMES];
	uint16_t kept = 0, gone = 0;

	for (uint16_t at = 0; at < burst->count; at++) {
		if ((first + at) % port->config.drop_every == 0) {
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

/* ---- a host */

static bool of_vlan(const uint8_t *bytes, uint16_t length, uint16_t vlan)
{
	const struct rte_ether_hdr *ether = (const void *)bytes;
	const struct rte_vlan_hdr *tag = (const void *)(ether + 1);
	bool tagged = ether->ether_type == RTE_BE16(RTE_ETHER_TYPE_VLAN) && length >= sizeof(*ether) + sizeof(*tag);

	if (vlan == 0)
		return !tagged;
	return tagged && (rte_be_to_cpu_16(tag->vlan_tci) & VID_MASK) == vlan;
}

bool host_take(struct port *host, const uint8_t *bytes, uint16_t length, uint16_t whole)
{
	uint16_t tag = host->config.vlan != 0 ? sizeof(struct rte_vlan_hdr) : 0;
	struct burst burst;

	if (length != whole || !of_vlan(bytes, length, host->config.vlan))
		return false;
	if (port_room(host, 0, &burst, 1) == 1) {
		memcpy(burst.bytes[0], bytes, ADDRESS_BYTES);
		memcpy(burst.bytes[0] + ADDRESS_BYTES, bytes + ADDRESS_BYTES + tag, (size_t)(length - ADDRESS_BYTES - tag));
		burst.length[0] = (uint16_t)(length - tag);
		if (port_send(host, 0, &burst, 1) == 1) {
			host->hosted.to_host++;
			return true;
		}
	}
	host->hosted.dropped++;
	return true;
}

/* The share of the generator's frames that was refused since the last look; the last share when none was due. */
static void look_at_ring(struct port *host, uint64_t due, uint64_t refused)
{
	if (due < host->seen_due || due == 0) {
		host->seen_due = host->seen_refused = 0;
		host->refused_share = 0;
	}
	if (due == host->seen_due)
		return;
	host->refused_share = (double)(refused - host->seen_refused) / (double)(due - host->seen_due);
	host->seen_due = due;
	host->seen_refused = refused;
}

/* By chance, each frame for itself: a host's few frames come at any moment, and the ring is full at that share of them. */
static bool ring_would_drop(const struct port *host)
{
	return (double)rte_rand() / (double)UINT64_MAX < host->refused_share;
}

static void queue_frame(struct port *host, struct rte_mbuf *mbuf)
{
	if (!ring_would_drop(host)) {
		mbuf->vlan_tci = host->config.vlan;
		if (host->config.vlan == 0 || rte_vlan_insert(&mbuf) == 0) {
			host->held[host->held_count++] = mbuf;
			return;
		}
	}
	rte_pktmbuf_free(mbuf);
	host->hosted.dropped++;
}

static void send_held(struct port *host)
{
	struct burst burst;
	uint16_t wanted = RTE_MIN(host->held_count, (uint16_t)BURST_FRAMES);
	uint16_t room = port_room(host->peer, 0, &burst, wanted);
	uint16_t sent;

	for (uint16_t at = 0; at < room; at++) {
		burst.length[at] = host->held[at]->data_len;
		memcpy(burst.bytes[at], rte_pktmbuf_mtod(host->held[at], void *), burst.length[at]);
	}
	sent = port_send(host->peer, 0, &burst, room);
	rte_pktmbuf_free_bulk(host->held, sent);
	host->hosted.from_host += sent;
	host->held_count -= sent;
	memmove(host->held, host->held + sent, host->held_count * sizeof(host->held[0]));
}

uint32_t host_turn(struct port *host, uint64_t due, uint64_t refused)
{
	struct rte_mbuf *mbufs[BURST_FRAMES];
	uint16_t room = (uint16_t)(RTE_DIM(host->held) - host->held_count);
	uint16_t count = rte_eth_rx_burst(host->nic.id, 0, mbufs, RTE_MIN(room, (uint16_t)BURST_FRAMES));

	if (count > 0)
		look_at_ring(host, due, refused);
	for (uint16_t at = 0; at < count; at++)
		queue_frame(host, mbufs[at]);
	if (host->held_count > 0)
		send_held(host);
	return count;
}
