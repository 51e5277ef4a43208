/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NIC's driver as a test double: stands in front of DPDK's ethdev by LD_PRELOAD, and makes a real virtual device behave
 * as NICs were seen to. NIC_DOUBLE lists how, for all ports:
 *   two_rings  a receive queue takes as many buffers again as it has descriptors (vmxnet3)
 *   closed     promiscuous mode is refused (a VF whose PF does not trust it)
 *   fixed_mac  so is another address
 *   misses     of each 10 frames received one is missed, and counted
 *   few        a receive queue has at most 512 descriptors
 *   flaps      from 0.1 to 0.3 s after a trial's start there is no link
 *   slow_end   DPDK's end takes a minute (an emulated CPU)
 * A device "vdev:NAME,..." is taken for one on a bus.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

enum { MISSED_OF = 10, MOST_BUFFERS = 8192, FEW = 512, SLOW_S = 60 };

static struct port {
	struct rte_mempool *pool;
	uint16_t descriptors;
	unsigned int held;
	struct rte_mbuf *second_ring[MOST_BUFFERS];
	uint64_t arrived, missed;
	double counted_s; /* when its counters were read last: as a trial began or ended */
} ports[RTE_MAX_ETHPORTS];

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static bool is(const char *word)
{
	const char *words = getenv("NIC_DOUBLE");

	return words != NULL && strstr(words, word) != NULL;
}

static uint16_t miss(uint16_t id, uint16_t queue, struct rte_mbuf *frames[], uint16_t count, uint16_t most, void *opaque)
{
	uint16_t kept = 0;

	(void)queue;
	(void)most;
	(void)opaque;
	for (uint16_t at = 0; at < count; at++) {
		if (++ports[id].arrived % MISSED_OF == 0) {
			ports[id].missed++;
			rte_pktmbuf_free(frames[at]);
		} else {
			frames[kept++] = frames[at];
		}
	}
	return kept;
}

int rte_eth_dev_get_port_by_name(const char *name, uint16_t *id)
{
	return REAL(rte_eth_dev_get_port_by_name)(strncmp(name, "vdev:", 5) == 0 ? name + 5 : name, id);
}

int rte_eth_dev_info_get(uint16_t id, struct rte_eth_dev_info *info)
{
	int ret = REAL(rte_eth_dev_info_get)(id, info);

	info->driver_name = "net_double";
	return ret;
}

int rte_eth_dev_adjust_nb_rx_tx_desc(uint16_t id, uint16_t *rx, uint16_t *tx)
{
	if (is("few") && *rx > FEW)
		*rx = FEW;
	return REAL(rte_eth_dev_adjust_nb_rx_tx_desc)(id, rx, tx);
}

int rte_eal_cleanup(void)
{
	if (is("slow_end"))
		sleep(SLOW_S);
	return REAL(rte_eal_cleanup)();
}

int rte_eth_rx_queue_setup(uint16_t id, uint16_t queue, uint16_t descriptors, unsigned int socket,
			   const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
	ports[id].pool = pool;
	ports[id].descriptors = descriptors;
	return REAL(rte_eth_rx_queue_setup)(id, queue, descriptors, socket, conf, pool);
}

int rte_eth_dev_start(uint16_t id)
{
	struct port *port = &ports[id];
	int ret = REAL(rte_eth_dev_start)(id);
	struct rte_mbuf *mbuf;

	while (ret == 0 && is("two_rings") && port->held < 2u * port->descriptors &&
	       (mbuf = rte_mbuf_raw_alloc(port->pool)) != NULL)
		port->second_ring[port->held++] = mbuf;
	if (ret == 0 && is("misses"))
		(void)rte_eth_add_rx_callback(id, 0, miss, NULL);
	return ret;
}

int rte_eth_dev_stop(uint16_t id)
{
	struct port *port = &ports[id];

	while (port->held > 0)
		rte_pktmbuf_free(port->second_ring[--port->held]);
	return REAL(rte_eth_dev_stop)(id);
}

int rte_eth_promiscuous_enable(uint16_t id)
{
	return is("closed") ? -EPERM : REAL(rte_eth_promiscuous_enable)(id);
}

int rte_eth_promiscuous_get(uint16_t id)
{
	return is("closed") ? 0 : REAL(rte_eth_promiscuous_get)(id);
}

int rte_eth_dev_default_mac_addr_set(uint16_t id, struct rte_ether_addr *mac)
{
	return is("fixed_mac") ? -EPERM : REAL(rte_eth_dev_default_mac_addr_set)(id, mac);
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int rte_eth_link_get_nowait(uint16_t id, struct rte_eth_link *link)
{
	int ret = REAL(rte_eth_link_get_nowait)(id, link);
	double since_s = now_s() - ports[id].counted_s;

	if (is("flaps") && since_s > 0.1 && since_s < 0.3)
		link->link_status = RTE_ETH_LINK_DOWN;
	return ret;
}

int rte_eth_stats_get(uint16_t id, struct rte_eth_stats *stats)
{
	int ret = REAL(rte_eth_stats_get)(id, stats);

	ports[id].counted_s = now_s();
	stats->imissed += ports[id].missed;
	return ret;
}
