/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports, attached and detached while the program runs: of a DPDK driver, or a vhost-user socket whose
 * rings we drive ourselves. What sends and receives sees bytes and lengths (struct burst), and asks a
 * port for room, hands frames over, takes what came and gives it back.
 */
#ifndef NFVPERF_PORT_H
#define NFVPERF_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "nic.h"
#include "signature.h"
#include "sizes.h"
#include "vhost_switch.h"
#include "vhost_user.h"
#include "vring.h"

enum port_kind {
	PORT_DPDK,
	PORT_RING, /* our end of a vhost-user ring, the driver's */
	PORT_SWITCH, /* the other end of one: takes a switch's place, to see what the rig can do without it */
};

/* Frames that change hands at once. */
struct burst {
	uint16_t count;
	uint8_t *bytes[BURST_FRAMES];
	uint16_t length[BURST_FRAMES]; /* bytes that lie there */
	uint16_t whole[BURST_FRAMES]; /* of the frame: more, where a driver chains buffers */
	struct rte_mbuf *mbufs[BURST_FRAMES]; /* of a DPDK port */
};

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
	enum port_kind kind;
	bool used;
	uint16_t written; /* bytes over the pattern of transmit buffers, by the last trial's frames */
	struct nic nic; /* of a DPDK port */
	struct link_log links; /* of a vhost-user port, in a trial that lets its switch in again: see rejoin.h */
	bool hung_up; /* our end was asked to, and nobody can connect */
	bool parted; /* its switch went: atomic */
	bool left; /* the polling thread leaves the ring alone: atomic */
	bool back_pressure; /* the ring fills instead of losing frames */
	bool own_buffers; /* frames received lie in rx_pool, not in the sender's buffers */
	uint64_t position; /* descriptors of transmit queue 0 that were used since its ring began */
	uint64_t patience; /* cycles: a ring's head is looked at no sooner, unless a whole burst waits */
	struct vhost *vhost; /* of a PORT_RING */
	struct vhost_switch *device; /* of a PORT_SWITCH */
	const char *why_dpdk; /* why a vhost-user socket's rings are left to DPDK; NULL where they are not, or it has none */
	struct rte_mbuf *stage[BURST_FRAMES]; /* buffers of a DPDK port that were asked for, and not sent yet */
	uint16_t staged;
	struct port *peer;
	struct port *host; /* behind this endpoint, or NULL */
	struct port *leader; /* the first member of its bond, whose tracks all members share; NULL: it is in none */
	struct port *sender; /* of a leader: the member by which its bond sends */
	struct port *next; /* member of the same bond, in a ring */
	struct rte_mempool *rx_pool;
	struct rte_mempool *tx_pool;
	/* of the running trial, or the last one */
	uint8_t trial;
	struct places places; /* of signatures in frames received */
	struct track *tracks[MAX_STREAMS];
	bool answered; /* streams that end here are */
	struct foreign foreign;
	uint64_t misdirected[MAX_STREAMS]; /* by stream, of those that are due on another port */
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
/* The first member of this bond; NULL: there is none. */
struct port *port_leader(struct ports *ports, const char *bond);
bool port_link_up(struct port *port);
/* Calls this for the device of each DPDK port. */
void ports_each_nic(struct ports *ports, void (*at)(struct nic *nic));
bool ports_watch_links(const struct ports *ports);
/* The longest frame that every buffer of the port has room for, without FCS. */
uint16_t port_frame_room(const struct port *port);
/* Before a trial whose frames write so many bytes over the pattern of the transmit buffers: what longer heads of a
 * former trial left there is made the pattern again. */
void port_prepare_buffers(struct port *port, uint16_t bytes);

/* The member by which a bond sends: another one where its switch went. */
static inline struct port *port_sender(struct port *leader)
{
	struct port *sender = leader->sender;

	while (sender->left && sender->next != leader->sender)
		sender = sender->next;
	leader->sender = sender;
	return sender;
}

/* Hands mbufs to a transmit queue of a DPDK port; returns how many it took. */
static inline uint16_t port_send_mbufs(struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	uint16_t sent = rte_eth_tx_burst(port->nic.id, queue, mbufs, count);

	if (queue == 0)
		port->position += sent;
	return sent;
}

/* The kinds that are not as fast: see port_room and so on. */
uint16_t port_room_slowly(struct port *port, uint16_t queue, struct burst *burst, uint16_t wanted);
uint16_t port_send_slowly(struct port *port, uint16_t queue, struct burst *burst, uint16_t count);
uint16_t port_take_slowly(struct port *port, uint16_t queue, struct burst *burst);
void port_give_back_slowly(struct port *port, uint16_t queue, struct burst *burst);

/*
 * Buffers for the next frames of a transmit queue, at most `wanted`. Fewer are there when a ring is full; a DPDK port
 * says so only when it is handed frames, and has fewer when its pool is empty. They are written, each gets its length,
 * and port_send follows before anything else is done with the queue.
 */
static inline uint16_t port_room(struct port *port, uint16_t queue, struct burst *burst, uint16_t wanted)
{
	struct vring *ring;
	uint32_t room;

	if (__builtin_expect(port->kind != PORT_RING, 0))
		return port_room_slowly(port, queue, burst, wanted);
	ring = &port->vhost->tx[queue];
	room = vring_tx_room(ring);
	if (wanted > room)
		wanted = (uint16_t)room;
	vring_tx_prefetch(ring, wanted);
	for (uint16_t at = 0; at < wanted; at++)
		burst->bytes[at] = vring_frame(ring, ring->next + at);
	return wanted;
}

/* Hands the first `count` frames of the burst to the queue; returns how many it took. */
static inline uint16_t port_send(struct port *port, uint16_t queue, struct burst *burst, uint16_t count)
{
	struct vring *ring;

	if (__builtin_expect(port->kind != PORT_RING, 0))
		return port_send_slowly(port, queue, burst, count);
	ring = &port->vhost->tx[queue];
	for (uint16_t at = 0; at < count; at++)
		vring_tx_length(ring, ring->next + at, burst->length[at]);
	vring_tx_publish(ring, count);
	if (queue == 0)
		port->position = ring->next;
	return count;
}

/* Takes what came, at most a burst; `now` is the time. Until they are given back the frames are ours to read. */
static inline uint16_t port_take(struct port *port, uint16_t queue, struct burst *burst, uint64_t now)
{
	struct vring *ring;

	if (__builtin_expect(port->kind != PORT_RING, 0))
		return port_take_slowly(port, queue, burst);
	ring = &port->vhost->rx[queue];
	burst->count = (uint16_t)vring_rx_wait(ring, BURST_FRAMES, now, port->patience);
	for (uint16_t at = 0; at < burst->count; at++) {
		uint32_t length = vring_rx_length(ring, ring->next + at);

		if (__builtin_expect(length > ring->room, 0)) {
			ring->broken = true;
			length = 0;
		}
		burst->bytes[at] = vring_frame(ring, ring->next + at);
		burst->length[at] = burst->whole[at] = (uint16_t)length;
	}
	return burst->count;
}

static inline void port_give_back(struct port *port, uint16_t queue, struct burst *burst)
{
	if (__builtin_expect(port->kind != PORT_RING, 0))
		port_give_back_slowly(port, queue, burst);
	else
		vring_rx_release(&port->vhost->rx[queue], burst->count);
}

#endif
