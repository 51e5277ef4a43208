/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_prefetch.h>

#include "compat.h"
#include "devargs.h"
#include "port.h"
#include "sockwait.h"
#include "template.h"

enum {
	IN_HAND = 4 * BURST_FRAMES, /* in no ring: a burst, the frames that a host holds, and a burst more */
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

/*
 * No more buffers than can be in use: they are taken in turn, and all of them must stay in the
 * core's cache. What a forwarder received may wait in its peer's transmit ring.
 */
static bool pools_new(struct port *port, unsigned int serial, unsigned int workers)
{
	const struct port_config *config = &port->config;
	bool forwards = config->role == ROLE_FORWARDER || config->role == ROLE_HOST;
	unsigned int elsewhere = forwards ? 2 * config->rx_descriptors : 0;
	unsigned int kept = devargs_kept_frames(config->device);
	unsigned int rx = config->queues * (config->rx_descriptors + kept + elsewhere) + IN_HAND;
	unsigned int tx = config->queues * config->tx_descriptors + MAX_PORT_STREAMS * BURST_FRAMES + IN_HAND;

	port->rx_pool = pool_new(port, "rx", serial, rx, workers);
	port->tx_pool = pool_new(port, "tx", serial, tx, workers);
	if (port->rx_pool == NULL || port->tx_pool == NULL)
		return false;
	fill_buffers(port);
	return true;
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

static int configure(struct port *port)
{
	const struct port_config *config = &port->config;
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_NONE}};
	int ret = rte_eth_dev_info_get(port->id, &info);

	if (ret == 0 && config->queues > 1 && info.flow_type_rss_offloads != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
	}
	if (ret == 0)
		ret = rte_eth_dev_configure(port->id, config->queues, config->queues, &conf);
	/* A driver that has no MTU of its own (ring) carries what its buffers hold. */
	if (ret == 0 && rte_eth_dev_set_mtu(port->id, config->mtu) == -EINVAL)
		ret = -EINVAL;
	return ret;
}

static int start(struct port *port)
{
	const struct port_config *config = &port->config;
	int socket = rte_eth_dev_socket_id(port->id);
	int ret = 0;

	for (uint16_t queue = 0; ret == 0 && queue < config->queues; queue++) {
		ret = rte_eth_rx_queue_setup(port->id, queue, config->rx_descriptors, (unsigned int)socket, NULL,
					     port->rx_pool);
		if (ret == 0)
			ret = rte_eth_tx_queue_setup(port->id, queue, config->tx_descriptors, (unsigned int)socket, NULL);
	}
	if (ret == 0)
		ret = rte_eth_dev_start(port->id);
	/* Drivers without address filters refuse this and deliver everything anyway. */
	if (ret == 0)
		(void)rte_eth_promiscuous_enable(port->id);
	return ret;
}

static void remove_device(const struct port *port)
{
	struct rte_eth_dev_info info;
	char name[RTE_ETH_NAME_MAX_LEN];

	if (port->kind != PORT_DPDK)
		return;
	if (rte_eth_dev_info_get(port->id, &info) != 0 || rte_eth_dev_get_name_by_port(port->id, name) != 0)
		return;
	(void)rte_eth_dev_stop(port->id);
	(void)rte_eth_dev_close(port->id);
	if (devargs_virtual(port->config.device))
		(void)rte_vdev_uninit(name);
	else
		(void)rte_dev_remove(info.device);
}

/*
 * Not rte_dev_probe for a virtual device: it writes the devargs into a message for other processes, which are none
 * here, and since DPDK 24.11.8 it refuses more than 127 bytes. A socket's path alone may have 107.
 */
static int probe_device(const char *devargs, const char *name)
{
	const char *rest = strchr(devargs, ',');

	if (devargs_virtual(devargs))
		return rte_vdev_init(name, rest != NULL ? rest + 1 : NULL);
	return rte_dev_probe(devargs);
}

static int probe(struct port *port, unsigned int serial)
{
	char devargs[MAX_DEVARGS];
	char name[MAX_DEVARGS];
	struct sockwait wait;
	int ret;

	if (!devargs_expand(&port->config, serial, devargs, name, sizeof(devargs)))
		return -ENAMETOOLONG;
	sockwait_start(&wait, devargs, port->config.timeout_ms);
	ret = probe_device(devargs, name);
	if (sockwait_stop(&wait))
		return -ETIMEDOUT;
	if (ret != 0)
		return ret;
	return rte_eth_dev_get_port_by_name(name, &port->id);
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

static void connect_peers(struct ports *ports)
{
	for (int at = 0; at < MAX_PORTS; at++) {
		struct port *port = &ports->port[at];

		port->peer = port->used && port->config.peer[0] ? port_find(ports, port->config.peer) : NULL;
		port->host = NULL;
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

static const char *bring_up_dpdk(struct port *port, unsigned int serial, unsigned int workers, char *error, size_t size)
{
	int ret;

	if (!pools_new(port, serial, workers)) {
		snprintf(error, size, "no memory for the buffers of %s: %s; give the generator more hugepages",
			 port->config.name, rte_strerror(rte_errno));
		return error;
	}
	ret = probe(port, serial);
	if (ret != 0) {
		snprintf(error, size, "cannot attach %s (%s): %s", port->config.name, port->config.device,
			 ret == -ETIMEDOUT ? "nobody connected to its socket" : rte_strerror(-ret));
		return error;
	}
	ret = configure(port);
	if (ret == 0)
		ret = start(port);
	if (ret == 0)
		return NULL;
	snprintf(error, size, "cannot start %s (%s): %s", port->config.name, port->config.device, rte_strerror(-ret));
	remove_device(port);
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

static const char *bring_up(struct port *port, unsigned int serial, unsigned int workers, char *error, size_t size)
{
	const char *wrong;

	if (devargs_is(port->config.device, "nfvperf_switch"))
		return bring_up_switch(port, error, size);
	if (!devargs_is(port->config.device, "net_virtio_user"))
		return bring_up_dpdk(port, serial, workers, error, size);
	port->why_dpdk = left_to_dpdk(&port->config);
	if (port->why_dpdk != NULL)
		return bring_up_dpdk(port, serial, workers, error, size);
	wrong = bring_up_ring(port, error, size);
	if (wrong == NULL || port->vhost == NULL || !vhost_lacks_features(port->vhost))
		return wrong;
	/* DPDK's driver has split rings, too. */
	ring_free(port);
	port->why_dpdk = "the switch offers no packed virtqueues";
	return bring_up_dpdk(port, serial, workers, error, size);
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
	wrong = bring_up(port, ports->serial++, workers, error, size);
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
	remove_device(port);
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

/* A switch that went and is there again is let in: nobody sends or receives meanwhile. */
static bool ring_is_up(struct vhost *vhost)
{
	return vhost_connected(vhost) || vhost_connect(vhost, 0);
}

bool port_link_up(struct port *port)
{
	struct rte_eth_link link;
	bool up;

	if (port->kind == PORT_RING)
		up = ring_is_up(port->vhost);
	else if (port->kind == PORT_SWITCH)
		up = vhost_switch_poll(port->device, port->config.queues);
	else
		up = rte_eth_link_get_nowait(port->id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
	/* A packed ring begins anew when its peer connects again, which virtio-user lets it when asked for the link. */
	if (!up)
		port->position = 0;
	return up;
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
	burst->count = rte_eth_rx_burst(port->id, queue, burst->mbufs, BURST_FRAMES);
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
