/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of drivers without asking them: how many buffers their rings hold, and what they count. */
#include <string.h>

#include "compat.h"
#include "devargs.h"
#include "nic.h"
#include "sizes.h"

enum {
	IN_HAND = 4 * BURST_FRAMES, /* in no ring: a burst, the frames that a host holds, and a burst more */
	LEFT = 2 * BURST_FRAMES, /* of these, some drivers take a few more than their descriptors */
};

uint32_t nic_rx_buffers(const struct port_config *config, uint16_t descriptors, unsigned int rings)
{
	/* What a forwarder received may wait in its peer's transmit ring. */
	bool forwards = config->role == ROLE_FORWARDER || config->role == ROLE_HOST;
	uint32_t elsewhere = forwards ? 2 * (uint32_t)descriptors : 0;

	return config->queues * (rings * descriptors + devargs_kept_frames(config->device) + elsewhere) + IN_HAND;
}

uint32_t nic_tx_buffers(const struct port_config *config, uint16_t descriptors)
{
	return (uint32_t)config->queues * descriptors + MAX_PORT_STREAMS * BURST_FRAMES + IN_HAND;
}

bool nic_rings_are_full(uint32_t left)
{
	return left >= LEFT;
}

const char *nic_counter_name(enum nic_counter counter)
{
	static const char *const names[] = {
		[NIC_RX_MISSED] = "rx_missed",
		[NIC_RX_ERRORS] = "rx_errors",
		[NIC_TX_ERRORS] = "tx_errors",
		[NIC_RX_NOMBUF] = "rx_nombuf",
	};

	return names[counter];
}

/*
 * A driver that does not count something leaves a 0 in struct rte_eth_stats, as one that lost nothing does. Read from
 * the stats_get functions of DPDK 22.11 to 26.07; net_af_packet counts what its socket had no room for since 25.11.
 * As tx_errors net_af_xdp and net_tap count frames that they did not take: these are not lost, but sent again.
 */
unsigned int nic_known(const char *driver)
{
	enum {
		MISSED = 1 << NIC_RX_MISSED,
		ERRORS = 1 << NIC_RX_ERRORS | 1 << NIC_TX_ERRORS,
		ALL = (1 << NIC_COUNTERS) - 1,
	};
	static const struct {
		const char *driver;
		unsigned int lacks;
	} lacking[] = {
		{"net_e1000_igb_vf", MISSED | ERRORS}, {"net_ixgbe_vf", MISSED | ERRORS},
		{"net_virtio", MISSED | 1 << NIC_TX_ERRORS}, {"net_virtio_user", MISSED | 1 << NIC_TX_ERRORS},
		{"net_mlx4", MISSED}, {"net_tap", MISSED | 1 << NIC_TX_ERRORS}, {"net_memif", ALL}, {"net_ring", ALL}, {"net_null", ALL},
		{"net_vhost", ALL}, {"net_vmxnet3", 1 << NIC_RX_NOMBUF},
		{"net_af_xdp", ERRORS | 1 << NIC_RX_NOMBUF},
#if RTE_VERSION < RTE_VERSION_NUM(25, 11, 0, 0)
		{"net_af_packet", MISSED | 1 << NIC_RX_ERRORS | 1 << NIC_RX_NOMBUF},
#else
		{"net_af_packet", 1 << NIC_RX_ERRORS},
#endif
	};

	for (size_t at = 0; at < sizeof(lacking) / sizeof(lacking[0]); at++)
		if (strcmp(lacking[at].driver, driver) == 0)
			return ALL & ~lacking[at].lacks;
	return ALL;
}
