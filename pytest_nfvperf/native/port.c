/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_prefetch.h>

#include "port.h"
#include "template.h"

enum {
	SMALLEST_ROOM = 2048,
	ROOM_BESIDE_MTU = 64, /* Ethernet header, tags, FCS, and virtio's header of 12 bytes */
	MESSAGES_MS = 1, /* between two looks at the socket of a switch's end */
	LOOK_US = 1, /* between two looks at the head of a ring in which no burst waits; 20 cost 10 us of latency */
};

static void fill_pattern(struct rte_mempool *pool, void *opaque, void *object, unsigned int index)
{
	struct rte_mbuf *mbuf = object;
	uint8_t *bytes = (uint8_t *)mbuf->buf_addr + RTE_PKTMBUF_HEADROOM;

	(void)pool;
	(void)opaque;
	(void)index;
	/* virtio's header stands before the frame, and its vectorised driver trusts that it is clear. */
	memset(mbuf->buf_addr, 0, RTE_PKTMBUF_HEADROOM);
	for (size_t at = 0; at + RTE_PKTMBUF_HEADROOM < mbuf->buf_len; at++)
		bytes[at] = pattern_byte(at);
}

static void fill_ring(struct vring *ring)
{
	for (uint32_t slot = 0; slot < ring->size; slot++)
		for (uint32_t at = 0; at < ring->room; at++)
			vring_frame(ring, slot)[at] = pattern_byte(at);
}

static void fill_buffers(struct port *port)
{
	if (port->kind == PORT_DPDK)
		rte_mempool_obj_iter(port->tx_pool, fill_pattern, NULL);
	for (uint16_t queue = 0; port->kind == PORT_RING && queue < port->config.queues; queue++)
		fill_ring(&port->vhost->tx[queue]);
}

uint16_t port_frame_room(const struct port *port)
{
	return port->config.mtu + ROOM_BESIDE_MTU;
}

/*
 * First in, first out, so buffers stand in a ring in the order of memory for as long as the port is
 * there, and the switch's core, which fetches ahead along a stride, finds each before it is needed.
 * A pool that keeps buffers in a cache of the core hands them out last in, first out: each short
 * burst turned a piece of the ring round, until neighbours lay anywhere, and a frame took the switch
 * 1 to 10 % longer, for as long as the port was there.
 */
static struct rte_mempool *pool_new(const struct port *port, const char *kind, unsigned int serial, unsigned int frames,
				    unsigned int workers)
{
	unsigned int room = port_frame_room(port);
	/* A port has one worker, but what it received may wait in the ring of a peer that has another. */
	const char *queue = workers == 1 ? "ring_sp_sc" : "ring_mp_mc";
	char name[RTE_MEMPOOL_NAMESIZE];

	if (room < SMALLEST_ROOM)
		room = SMALLEST_ROOM;
	snprintf(name, sizeof(name), "%s%u", kind, serial);
	return rte_pktmbuf_pool_create_by_ops(name, frames, 0, 0, (uint16_t)(room + RTE_PKTMBUF_HEADROOM),
					      (int)SOCKET_ID_ANY, queue);
}

void port_prepare_buffers(struct port *port, uint16_t bytes)
{
	if (port->written > bytes)
		fill_buffers(port);
	port->written = bytes;
}

/* Frees a pool once nobody holds a frame of it; until then it is kept among the retired. */
static void retire(struct ports *ports, struct rte_mempool *pool)
{
	if (pool != NULL) {
		for (size_t at = 0; at < RTE_DIM(ports->retired); at++) {
			if (ports->retired[at] == NULL) {
				ports->retired[at] = pool;
				break;
			}
		}
	}
	for (size_t at = 0; at < RTE_DIM(ports->retired); at++) {
		if (ports->retired[at] != NULL && rte_mempool_full(ports->retired[at])) {
			rte_mempool_free(ports->retired[at]);
			ports->retired[at] = NULL;
		}
	}
}

/* ---- the end of a ring that a switch has: even rings go to the driver, odd ones come from it */

static uint16_t switch_room(struct vhost_switch *device, uint16_t queue, struct burst *burst, uint16_t wanted)
{
	struct vring_device *ring = &device->ring[2 * queue];
	uint16_t room = 0;
	uint32_t length;
	uint8_t *at;

	while (room < wanted && ring->desc != NULL && (at = vring_device_take(ring, &length)) != NULL) {
		burst->bytes[room] = at + VRING_HEADER;
		burst->whole[room++] = (uint16_t)(length - VRING_HEADER);
	}
	ring->next = ring->given; /* they are taken by being filled */
	return room;
}

static uint16_t switch_send(struct vhost_switch *device, uint16_t queue, const struct burst *burst, uint16_t count)
{
	struct vring_device *ring = &device->ring[2 * queue];

	for (uint16_t at = 0; at < count; at++)
		vring_device_fill(ring, burst->length[at] + VRING_HEADER);
	ring->next = ring->given;
	return count;
}

/* Who polls the rings answers the driver's messages as well, now and then. */
static uint16_t switch_take(struct port *port, uint16_t queue, struct burst *burst)
{
	struct vhost_switch *device = port->device;
	struct vring_device *ring = &device->ring[2 * queue + 1];
	uint64_t now = rte_rdtsc();
	uint32_t length;
	uint8_t *at;

	burst->count = 0;
	if (now - device->polled > port->patience) {
		device->polled = now;
		(void)vhost_switch_poll(device, port->config.queues);
	}
	while (burst->count < BURST_FRAMES && ring->desc != NULL && (at = vring_device_take(ring, &length)) != NULL) {
		burst->bytes[burst->count] = at + VRING_HEADER;
		burst->length[burst->count] = burst->whole[burst->count] = (uint16_t)(length - VRING_HEADER);
		burst->count++;
	}
	return burst->count;
}

static bool same_bond(const struct port *port, const struct port *other)
{
	return other->used && strcmp(port->config.bond, other->config.bond) == 0;
}

static void connect_peers(struct ports *ports)
{
	for (int at = 0; at < MAX_PORTS; at++) {
		struct port *port = &ports->port[at];

		port->peer = port->used && port->config.peer[0] ? port_find(ports, port->config.peer) : NULL;
		port->host = NULL;
		port->leader = port->used && port->config.bond[0] ? port_leader(ports, port->config.bond) : NULL;
		port->sender = port->next = port;
		for (int other = 1; port->leader != NULL && port->next == port && other < MAX_PORTS; other++)
			if (same_bond(port, &ports->port[(at + other) % MAX_PORTS]))
				port->next = &ports->port[(at + other) % MAX_PORTS];
	}
	for (int at = 0; at < MAX_PORTS; at++) {
		struct port *port = &ports->port[at];

		if (port->used && port->config.role == ROLE_HOST && port->peer != NULL)
			port->peer->host = port;
	}
}

static struct port *free_slot(struct ports *ports)
{
	for (int at = 0; at < MAX_PORTS; at++)
		if (!ports->port[at].used)
			return &ports->port[at];
	return NULL;
}

/*
 * No more buffers than can be in use: they are taken in turn, and all of them must stay in the core's cache. How many
 * rings a driver fills for a queue it shows when it starts, and nowhere else: vmxnet3 has two.
 */
static int start_with_buffers(struct ports *ports, struct port *port, unsigned int workers, char *error, size_t size)
{
	const struct port_config *config = &port->config;
	unsigned int rings = 0;
	int ret = -ENOBUFS;

	port->tx_pool = pool_new(port, "tx", ports->serial++, nic_tx_buffers(config, port->nic.tx_descriptors), workers);
	if (port->tx_pool != NULL)
		fill_buffers(port);
	while (ret == -ENOBUFS && rings++ < MOST_RINGS) {
		retire(ports, port->rx_pool);
		port->rx_pool = pool_new(port, "rx", ports->serial++, nic_rx_buffers(config, port->nic.rx_descriptors, rings),
					 workers);
		if (port->rx_pool == NULL || port->tx_pool == NULL) {
			snprintf(error, size, "no memory for the buffers of %s: %s; give the generator more hugepages", config->name,
				 rte_strerror(rte_errno));
			return -ENOMEM;
		}
		ret = nic_start(&port->nic, config, port->rx_pool, error, size);
	}
	return ret;
}

static const char *bring_up_dpdk(struct ports *ports, struct port *port, unsigned int workers, char *error, size_t size)
{
	const struct port_config *config = &port->config;

	if (nic_probe(&port->nic, config, ports->serial++, error, size) != 0)
		return error;
	if (start_with_buffers(ports, port, workers, error, size) == 0 &&
	    nic_open_filter(&port->nic, config, error, size) == 0)
		return NULL;
	nic_remove(&port->nic, config);
	return error;
}

/* ---- vhost-user sockets whose rings we drive ourselves */

/*
 * Why the rings of a vhost-user socket are left to DPDK's driver; NULL where we drive them. A forwarder hands mbufs on
 * from one ring to the other, where we would copy: seen through one VNF with 1518 bytes, 0.81 against 0.72 Mpps per
 * direction; with 64 bytes the switch was the limit of both.
 */
static const char *left_to_dpdk(const struct port_config *config)
{
	char value[8];

	if (!config->own_ring)
		return "own_ring is false";
	if (config->role == ROLE_FORWARDER)
		return "a forwarder hands on DPDK's buffers";
	if (!devargs_value(config->device, "server", value, sizeof(value)) || strcmp(value, "1") != 0)
		return "it connects to a socket instead of listening at one";
	return NULL;
}

static const char *bring_up_ring(struct port *port, char *error, size_t size)
{
	const struct port_config *config = &port->config;
	struct vhost_config rings = {
		.queues = config->queues,
		.rx_descriptors = config->rx_descriptors,
		.tx_descriptors = config->tx_descriptors,
		.frame_bytes = port_frame_room(port),
	};

	port->vhost = calloc(1, sizeof(*port->vhost));
	(void)devargs_value(config->device, "path", rings.path, sizeof(rings.path));
	if (port->vhost != NULL && vhost_open(port->vhost, &rings) && vhost_connect(port->vhost, config->timeout_ms)) {
		port->kind = PORT_RING;
		port->patience = rte_get_tsc_hz() / 1000000 * LOOK_US;
		fill_buffers(port);
		return NULL;
	}
	snprintf(error, size, "cannot attach %s (%s): %s", config->name, config->device,
		 port->vhost != NULL ? port->vhost->error : "out of memory");
	return error;
}

static void ring_free(struct port *port)
{
	if (port->vhost != NULL)
		vhost_close(port->vhost);
	free(port->vhost);
	port->vhost = NULL;
	if (port->device != NULL)
		vhost_switch_close(port->device);
	free(port->device);
	port->device = NULL;
}

static const char *bring_up_switch(struct port *port, char *error, size_t size)
{
	const struct port_config *config = &port->config;
	char path[VHOST_MAX_PATH] = "";

	port->device = calloc(1, sizeof(*port->device));
	(void)devargs_value(config->device, "path", path, sizeof(path));
	if (port->device != NULL && config->role == ROLE_FORWARDER && path[0] != '\0') {
		vhost_switch_init(port->device, path);
		port->kind = PORT_SWITCH;
		port->patience = rte_get_tsc_hz() / 1000 * MESSAGES_MS;
		return NULL;
	}
	snprintf(error, size, "cannot attach %s (%s): %s", config->name, config->device,
		 port->device == NULL ? "out of memory" : "a switch's end of a ring has a path, and only forwards");
	return error;
}

static const char *bring_up(struct ports *ports, struct port *port, unsigned int workers, char *error, size_t size)
{
	const char *wrong;

	if (devargs_is(port->config.device, "nfvperf_switch"))
		return bring_up_switch(port, error, size);
	if (!devargs_is(port->config.device, "net_virtio_user"))
		return bring_up_dpdk(ports, port, workers, error, size);
	port->why_dpdk = left_to_dpdk(&port->config);
	if (port->why_dpdk != NULL)
		return bring_up_dpdk(ports, port, workers, error, size);
	wrong = bring_up_ring(port, error, size);
	if (wrong == NULL || port->vhost == NULL || !vhost_lacks_features(port->vhost))
		return wrong;
	/* DPDK's driver has split rings, too. */
	ring_free(port);
	port->why_dpdk = "the switch offers no packed virtqueues";
	return bring_up_dpdk(ports, port, workers, error, size);
}

const char *port_attach(struct ports *ports, const struct port_config *config, unsigned int workers, char *error,
			size_t size)
{
	struct port *port = free_slot(ports);
	const char *wrong;

	if (port_find(ports, config->name) != NULL)
		return "a port of this name is attached already";
	if (port == NULL)
		return "too many ports";
	retire(ports, NULL);
	memset(port, 0, sizeof(*port));
	port->config = *config;
	port->back_pressure = devargs_back_pressure(config->device);
	port->own_buffers = devargs_own_buffers(config->device);
	wrong = bring_up(ports, port, workers, error, size);
	if (wrong != NULL) {
		ring_free(port);
		retire(ports, port->rx_pool);
		retire(ports, port->tx_pool);
		return wrong;
	}
	port->used = true;
	connect_peers(ports);
	return NULL;
}

void port_detach(struct ports *ports, struct port *port)
{
	rte_pktmbuf_free_bulk(port->stage, port->staged);
	port->staged = 0;
	if (port->kind == PORT_DPDK)
		nic_remove(&port->nic, &port->config);
	ring_free(port);
	port->used = false;
	rte_pktmbuf_free_bulk(port->held, port->held_count);
	port->held_count = 0;
	connect_peers(ports);
	retire(ports, port->rx_pool);
	retire(ports, port->tx_pool);
}

struct port *port_find(struct ports *ports, const char *name)
{
	for (int at = 0; at < MAX_PORTS; at++)
		if (ports->port[at].used && strcmp(ports->port[at].config.name, name) == 0)
			return &ports->port[at];
	return NULL;
}

struct port *port_leader(struct ports *ports, const char *bond)
{
	for (int at = 0; at < MAX_PORTS; at++)
		if (ports->port[at].used && strcmp(ports->port[at].config.bond, bond) == 0)
			return &ports->port[at];
	return NULL;
}

bool port_link_up(struct port *port)
{
	bool up;

	/* A switch that went and is there again is let in: nobody sends or receives meanwhile. */
	if (port->kind == PORT_RING)
		up = vhost_connected(port->vhost) || vhost_connect(port->vhost, 0);
	else if (port->kind == PORT_SWITCH)
		up = vhost_switch_poll(port->device, port->config.queues);
	else
		up = nic_link_up(&port->nic);
	/* A packed ring begins anew when its peer connects again, which virtio-user lets it when asked for the link. */
	if (!up)
		port->position = 0;
	return up;
}

void ports_each_nic(struct ports *ports, void (*at)(struct nic *nic))
{
	for (int slot = 0; slot < MAX_PORTS; slot++)
		if (ports->port[slot].used && ports->port[slot].kind == PORT_DPDK)
			at(&ports->port[slot].nic);
}

bool ports_watch_links(const struct ports *ports)
{
	for (int at = 0; at < MAX_PORTS; at++)
		if (ports->port[at].used && ports->port[at].kind == PORT_DPDK && nic_link_watched(&ports->port[at].nic))
			return true;
	return false;
}

/* ---- what is not as fast as a ring of ours: see port_room and so on */

uint16_t port_room_slowly(struct port *port, uint16_t queue, struct burst *burst, uint16_t wanted)
{
	if (port->kind == PORT_SWITCH)
		return switch_room(port->device, queue, burst, wanted);
	/* Not rte_pktmbuf_alloc_bulk(): that writes the second cache line of each, which a freed one has in order. */
	if (port->staged < wanted && rte_mempool_get_bulk(port->tx_pool, (void **)&port->stage[port->staged],
							   (unsigned int)wanted - port->staged) == 0)
		port->staged = wanted;
	wanted = RTE_MIN(wanted, port->staged);
	for (uint16_t at = 0; at < wanted; at++)
		burst->bytes[at] = (uint8_t *)port->stage[at]->buf_addr + RTE_PKTMBUF_HEADROOM;
	return wanted;
}

uint16_t port_send_slowly(struct port *port, uint16_t queue, struct burst *burst, uint16_t count)
{
	uint16_t sent;

	if (port->kind == PORT_SWITCH)
		return switch_send(port->device, queue, burst, count);
	for (uint16_t at = 0; at < count; at++) {
		struct rte_mbuf *mbuf = port->stage[at];

		/* A driver may have moved it to where its own header begins. */
		mbuf->data_off = RTE_PKTMBUF_HEADROOM;
		mbuf->ol_flags = 0;
		mbuf->data_len = burst->length[at];
		mbuf->pkt_len = burst->length[at];
	}
	sent = port_send_mbufs(port, queue, port->stage, count);
	port->staged -= sent;
	memmove(port->stage, port->stage + sent, port->staged * sizeof(port->stage[0]));
	return sent;
}

uint16_t port_take_slowly(struct port *port, uint16_t queue, struct burst *burst)
{
	if (port->kind == PORT_SWITCH)
		return switch_take(port, queue, burst);
	burst->count = rte_eth_rx_burst(port->nic.id, queue, burst->mbufs, BURST_FRAMES);
	for (uint16_t at = 0; at < burst->count; at++)
		rte_prefetch0(rte_pktmbuf_mtod(burst->mbufs[at], void *));
	for (uint16_t at = 0; at < burst->count; at++) {
		burst->bytes[at] = rte_pktmbuf_mtod(burst->mbufs[at], uint8_t *);
		burst->length[at] = burst->mbufs[at]->data_len;
		burst->whole[at] = (uint16_t)burst->mbufs[at]->pkt_len;
	}
	return burst->count;
}

/*
 * Frames of one segment in our own pool go back to it as they are: freeing them one by one would
 * read the second cache line of each for nothing. Their data goes to the shared cache, since the
 * switch's core will write there.
 */
void port_give_back_slowly(struct port *port, uint16_t queue, struct burst *burst)
{
	bool whole = true;

	if (port->kind == PORT_SWITCH) {
		vring_device_return(&port->device->ring[2 * queue + 1], burst->count);
		return;
	}
	for (uint16_t at = 0; at < burst->count; at++) {
		whole &= burst->length[at] == burst->whole[at];
		rte_cldemote(burst->bytes[at]);
	}
	if (likely(port->own_buffers && whole))
		rte_mempool_put_bulk(port->rx_pool, (void **)burst->mbufs, burst->count);
	else
		rte_pktmbuf_free_bulk(burst->mbufs, burst->count);
}
