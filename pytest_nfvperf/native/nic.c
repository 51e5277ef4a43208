/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_version.h>

#include "cpu.h"
#include "nic.h"
#include "vhost_user.h"

/* Names that DPDK changed between 20.11 and 25.11. */
#if RTE_VERSION < RTE_VERSION_NUM(21, 11, 0, 0)
#define RTE_ETH_LINK_UP ETH_LINK_UP
#define RTE_ETH_MQ_RX_NONE ETH_MQ_RX_NONE
#define RTE_ETH_MQ_RX_RSS ETH_MQ_RX_RSS
#define RTE_ETH_RSS_IP ETH_RSS_IP
#define RTE_ETH_RSS_UDP ETH_RSS_UDP
#endif

/*
 * A deadline for virtio-user's server mode, whose probe blocks in accept() until a client comes
 * (DPDK drivers/net/virtio/virtio_user/vhost_user.c). When time is up we connect ourselves and
 * hang up, which makes the probe fail.
 */
struct sockwait {
	bool running;
	bool expired;
	unsigned int timeout_ms;
	char path[MAX_DEVARGS];
	pthread_t thread;
	sem_t done;
};

static void *watch(void *opaque)
{
	struct sockwait *wait = opaque;
	struct timespec until = monotonic_in(wait->timeout_ms * UINT64_C(1000000));
	int ret;

	do
		ret = sem_clockwait(&wait->done, CLOCK_MONOTONIC, &until);
	while (ret != 0 && errno == EINTR);
	wait->expired = ret != 0;
	if (wait->expired)
		(void)vhost_touch(wait->path);
	return NULL;
}

/* Does nothing for devargs that are not of a server socket. */
static void sockwait_start(struct sockwait *wait, const char *devargs, unsigned int timeout_ms)
{
	char server[8];

	memset(wait, 0, sizeof(*wait));
	if (!devargs_value(devargs, "server", server, sizeof(server)) || strcmp(server, "1") != 0 ||
	    !devargs_value(devargs, "path", wait->path, sizeof(wait->path)))
		return;
	vhost_remove_stale(wait->path);
	wait->timeout_ms = timeout_ms;
	(void)sem_init(&wait->done, 0, 0);
	wait->running = pthread_create(&wait->thread, NULL, watch, wait) == 0;
}

/* True when the deadline struck. */
static bool sockwait_stop(struct sockwait *wait)
{
	if (!wait->running)
		return false;
	(void)sem_post(&wait->done);
	pthread_join(wait->thread, NULL);
	(void)sem_destroy(&wait->done);
	return wait->expired;
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

static int probe(struct nic *nic, const struct port_config *config, unsigned int serial)
{
	char devargs[MAX_DEVARGS];
	char name[MAX_DEVARGS];
	struct sockwait wait;
	int ret;

	if (!devargs_expand(config, serial, devargs, name, sizeof(devargs)))
		return -ENAMETOOLONG;
	sockwait_start(&wait, devargs, config->timeout_ms);
	ret = probe_device(devargs, name);
	if (sockwait_stop(&wait))
		return -ETIMEDOUT;
	if (ret != 0)
		return ret;
	ret = rte_eth_dev_get_port_by_name(name, &nic->id);
	if (ret == 0 && !devargs_virtual(devargs))
		ret = rte_eth_dev_get_name_by_port(nic->id, nic->pci);
	return ret;
}

/* What the driver has at most of queues, and makes of the descriptors that were asked for. */
static int ask_limits(struct nic *nic, const struct port_config *config, char *error, size_t size)
{
	struct rte_eth_dev_info info;
	int ret = rte_eth_dev_info_get(nic->id, &info);

	nic->rx_descriptors = config->rx_descriptors;
	nic->tx_descriptors = config->tx_descriptors;
	if (ret == 0)
		ret = rte_eth_dev_adjust_nb_rx_tx_desc(nic->id, &nic->rx_descriptors, &nic->tx_descriptors);
	if (ret == 0)
		ret = rte_eth_macaddr_get(nic->id, &nic->own_mac);
	nic->mac = nic->own_mac;
	nic->driver = ret == 0 ? info.driver_name : "";
	if (ret != 0)
		snprintf(error, size, "cannot ask %s (%s) what it has: %s", config->name, config->device, rte_strerror(-ret));
	else if (config->queues > info.max_rx_queues || config->queues > info.max_tx_queues)
		ret = -ERANGE;
	if (ret == -ERANGE)
		snprintf(error, size, "%s (%s) has %u receive and %u transmit queues with driver %s, not %u of each", config->name,
			 config->device, info.max_rx_queues, info.max_tx_queues, info.driver_name, config->queues);
	return ret;
}

int nic_probe(struct nic *nic, const struct port_config *config, unsigned int serial, char *error, size_t size)
{
	int ret = probe(nic, config, serial);

	if (ret != 0) {
		snprintf(error, size, "cannot attach %s (%s): %s", config->name, config->device,
			 ret == -ETIMEDOUT ? "nobody connected to its socket" : rte_strerror(-ret));
		return ret;
	}
	ret = ask_limits(nic, config, error, size);
	if (ret != 0)
		nic_remove(nic, config);
	return ret;
}

static int configure(const struct nic *nic, const struct port_config *config)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_NONE}};
	int ret = rte_eth_dev_info_get(nic->id, &info);

	if (ret == 0 && config->queues > 1 && info.flow_type_rss_offloads != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
	}
	if (ret == 0)
		ret = rte_eth_dev_configure(nic->id, config->queues, config->queues, &conf);
	/* A driver that has no MTU of its own (ring) carries what its buffers hold. */
	if (ret == 0 && rte_eth_dev_set_mtu(nic->id, config->mtu) == -EINVAL)
		ret = -EINVAL;
	return ret;
}

/* Descriptors that the first queues really got, where the driver says so. */
static void note_granted(struct nic *nic)
{
	struct rte_eth_rxq_info rx;
	struct rte_eth_txq_info tx;

	if (rte_eth_rx_queue_info_get(nic->id, 0, &rx) == 0 && rx.nb_desc > 0)
		nic->rx_descriptors = rx.nb_desc;
	if (rte_eth_tx_queue_info_get(nic->id, 0, &tx) == 0 && tx.nb_desc > 0)
		nic->tx_descriptors = tx.nb_desc;
}

int nic_start(struct nic *nic, const struct port_config *config, struct rte_mempool *rx_pool, char *error, size_t size)
{
	unsigned int socket = (unsigned int)rte_eth_dev_socket_id(nic->id);
	uint32_t left;
	int ret = configure(nic, config);

	for (uint16_t queue = 0; ret == 0 && queue < config->queues; queue++) {
		ret = rte_eth_rx_queue_setup(nic->id, queue, nic->rx_descriptors, socket, NULL, rx_pool);
		if (ret == 0)
			ret = rte_eth_tx_queue_setup(nic->id, queue, nic->tx_descriptors, socket, NULL);
	}
	if (ret == 0)
		ret = rte_eth_dev_start(nic->id);
	left = rte_mempool_avail_count(rx_pool);
	/* A driver whose rings are not full is deaf, or drops what it has no buffer for; nobody else would notice. */
	if (ret == -ENOMEM || (ret == 0 && !nic_rings_are_full(left))) {
		snprintf(error, size, "cannot start %s (%s): driver %s took %u receive buffers for %u queues of %u descriptors, "
			 "and wants more", config->name, config->device, nic->driver, rx_pool->size - left, config->queues,
			 nic->rx_descriptors);
		(void)rte_eth_dev_stop(nic->id);
		return -ENOBUFS;
	}
	if (ret != 0)
		snprintf(error, size, "cannot start %s (%s): %s", config->name, config->device, rte_strerror(-ret));
	else
		note_granted(nic);
	return ret;
}

/*
 * Some drivers of VFs claim promiscuous mode although the PF refused it (igbvf ignores the answer), so a NIC gets the
 * port's address in any case. Virtual devices have none to give; those without a filter refuse the mode.
 */
int nic_open_filter(struct nic *nic, const struct port_config *config, char *error, size_t size)
{
	char wanted[MAC_TEXT], has[MAC_TEXT];
	bool virtual = devargs_virtual(config->device);
	struct rte_ether_addr mac = config->mac;
	int refused = rte_eth_promiscuous_enable(nic->id), not_set = 0;

	nic->promiscuous = refused == 0 && rte_eth_promiscuous_get(nic->id) == 1;
	if (!virtual && !rte_is_same_ether_addr(&nic->own_mac, &mac))
		not_set = rte_eth_dev_default_mac_addr_set(nic->id, &mac);
	if (rte_eth_macaddr_get(nic->id, &nic->mac) != 0)
		nic->mac = nic->own_mac;
	if (nic->promiscuous || (virtual ? refused == -ENOTSUP : rte_is_same_ether_addr(&nic->mac, &mac)))
		return 0;
	snprintf(error, size,
		 "%s (%s) would receive nothing: driver %s refuses promiscuous mode (%s), and its MAC filter lets in %s, not %s "
		 "(%s). Of a VF its PF decides: let it be trusted (ip link set PF vf NUMBER trust on), or give it that MAC",
		 config->name, config->device, nic->driver, refused != 0 ? rte_strerror(-refused) : "it stays off",
		 mac_text(&nic->mac, has), mac_text(&mac, wanted),
		 not_set != 0 ? rte_strerror(-not_set) : "it was not taken");
	return -EACCES;
}

void nic_remove(struct nic *nic, const struct port_config *config)
{
	struct rte_eth_dev_info info;
	char name[RTE_ETH_NAME_MAX_LEN];

	if (rte_eth_dev_info_get(nic->id, &info) != 0 || rte_eth_dev_get_name_by_port(nic->id, name) != 0)
		return;
	if (!rte_is_same_ether_addr(&nic->mac, &nic->own_mac))
		(void)rte_eth_dev_default_mac_addr_set(nic->id, &nic->own_mac);
	(void)rte_eth_dev_stop(nic->id);
	(void)rte_eth_dev_close(nic->id);
	if (devargs_virtual(config->device))
		(void)rte_vdev_uninit(name);
	else
		(void)rte_dev_remove(info.device);
}

bool nic_link_up(const struct nic *nic)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(nic->id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

bool nic_link_watched(const struct nic *nic)
{
	return nic->pci[0] != '\0';
}

void link_note(struct link_log *log, bool up)
{
	struct link_outage *last = log->count > 0 ? &log->outages[log->count - 1] : NULL;
	bool was_up = last == NULL || last->restored != 0;

	if (up == was_up)
		return;
	if (!was_up)
		last->restored = rte_rdtsc();
	else if (log->count < MOST_OUTAGES)
		log->outages[log->count++] = (struct link_outage){.lost = rte_rdtsc()};
	else
		last->restored = 0;
}

void nic_trial_look(struct nic *nic)
{
	if (nic_link_watched(nic))
		link_note(&nic->links, nic_link_up(nic));
}

bool nic_read(const struct nic *nic, struct nic_counts *counts, struct rte_eth_stats *stats)
{
	memset(counts, 0, sizeof(*counts));
	if (rte_eth_stats_get(nic->id, stats) != 0)
		return false;
	counts->of[NIC_RX_MISSED] = stats->imissed;
	counts->of[NIC_RX_ERRORS] = stats->ierrors;
	counts->of[NIC_TX_ERRORS] = stats->oerrors;
	counts->of[NIC_RX_NOMBUF] = stats->rx_nombuf;
	counts->known = nic_known(nic->driver);
	return true;
}

void nic_trial_begin(struct nic *nic)
{
	struct rte_eth_stats stats;

	(void)nic_read(nic, &nic->before, &stats);
	nic->links.count = 0;
	nic_trial_look(nic);
}

void nic_trial_end(struct nic *nic)
{
	struct rte_eth_stats stats;

	nic_trial_look(nic);
	(void)nic_read(nic, &nic->lost, &stats);
	for (unsigned int at = 0; at < NIC_COUNTERS; at++)
		nic->lost.of[at] -= nic->before.of[at];
	nic->lost.known &= nic->before.known;
}
