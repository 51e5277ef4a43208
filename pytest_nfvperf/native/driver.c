/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <rte_version.h>

#include "driver.h"

enum {
	IN_HAND = 4 * BURST_FRAMES, /* in no ring: a burst, the frames that a host holds, and a burst more */
	LEFT = 2 * BURST_FRAMES, /* of these, some drivers take a few more than their descriptors */
};

const char *mac_text(const struct rte_ether_addr *mac, char *text)
{
	snprintf(text, MAC_TEXT, "%02x:%02x:%02x:%02x:%02x:%02x", RTE_ETHER_ADDR_BYTES(mac));
	return text;
}

bool devargs_is(const char *devargs, const char *driver)
{
	size_t length = strlen(driver);

	return strncmp(devargs, driver, length) == 0 && strchr(",0123456789", devargs[length]) != NULL;
}

bool devargs_virtual(const char *devargs)
{
	return strncmp(devargs, "net_", 4) == 0 || strncmp(devargs, "eth_", 4) == 0;
}

bool devargs_value(const char *devargs, const char *key, char *value, size_t size)
{
	size_t length = strlen(key);

	for (const char *at = strchr(devargs, ','); at != NULL; at = strchr(at, ',')) {
		at++;
		if (strncmp(at, key, length) == 0 && at[length] == '=') {
			snprintf(value, size, "%.*s", (int)strcspn(at + length + 1, ","), at + length + 1);
			return true;
		}
	}
	return false;
}

bool devargs_back_pressure(const char *devargs)
{
	static const char *const drivers[] = {"net_virtio_user", "net_vhost", "net_memif", "net_ring"};

	for (size_t at = 0; at < sizeof(drivers) / sizeof(drivers[0]); at++)
		if (devargs_is(devargs, drivers[at]))
			return true;
	return false;
}

bool devargs_own_buffers(const char *devargs)
{
	return !devargs_is(devargs, "net_ring");
}

static bool append(char *devargs, size_t size, const char *key, const char *value)
{
	char ignored[MAX_DEVARGS];
	size_t used = strlen(devargs);

	if (devargs_value(devargs, key, ignored, sizeof(ignored)))
		return true;
	return (size_t)snprintf(devargs + used, size - used, ",%s=%s", key, value) < size - used;
}

static bool append_number(char *devargs, size_t size, const char *key, unsigned int number)
{
	char value[16];

	snprintf(value, sizeof(value), "%u", number);
	return append(devargs, size, key, value);
}

/* The ring is as large as the larger side; the driver uses only the descriptors it was given. */
static bool complete_virtio_user(const struct port_config *config, char *devargs, size_t size)
{
	unsigned int ring = config->rx_descriptors > config->tx_descriptors ? config->rx_descriptors
									     : config->tx_descriptors;
	char mac[MAC_TEXT];

	/* More than one queue pair is asked for by the control queue. */
	return append(devargs, size, "mac", mac_text(&config->mac, mac)) && append_number(devargs, size, "queue_size", ring) &&
	       append_number(devargs, size, "queues", config->queues) &&
	       (config->queues == 1 || append_number(devargs, size, "cq", 1));
}

bool devargs_expand(const struct port_config *config, unsigned int serial, char *devargs, char *name, size_t size)
{
	size_t length = strcspn(config->device, ",");
	const char *rest = config->device + length;

	if (!devargs_virtual(config->device)) {
		snprintf(name, size, "%.*s", (int)length, config->device);
		return (size_t)snprintf(devargs, size, "%s", config->device) < size;
	}
	if ((size_t)snprintf(name, size, "%.*s%u", (int)length, config->device, serial) >= size)
		return false;
	if ((size_t)snprintf(devargs, size, "%s%s", name, rest) >= size)
		return false;
	if (devargs_is(devargs, "net_virtio_user"))
		return complete_virtio_user(config, devargs, size);
	if (devargs_is(devargs, "net_vhost"))
		return append_number(devargs, size, "queues", config->queues);
	return true;
}

/* Buffers of each receive queue that a driver keeps for the kernel, to fill and to send, beside those of its descriptors. */
static unsigned int kept_frames(const char *devargs)
{
	/*
	 * ETH_AF_XDP_DFLT_NUM_DESCS, whatever the number of descriptors asked for; and what it has sent, from the
	 * receive queue's buffers, which it takes back once half as many have come together.
	 */
	return devargs_is(devargs, "net_af_xdp") ? 2048 + 1024 : 0;
}

uint32_t nic_rx_buffers(const struct port_config *config, uint16_t descriptors, unsigned int rings)
{
	/* What a forwarder received may wait in its peer's transmit ring. */
	bool forwards = config->role == ROLE_FORWARDER || config->role == ROLE_HOST;
	uint32_t elsewhere = forwards ? 2 * (uint32_t)descriptors : 0;

	return config->queues * (rings * descriptors + kept_frames(config->device) + elsewhere) + IN_HAND;
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
