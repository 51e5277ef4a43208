/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "devargs.h"

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

unsigned int devargs_kept_frames(const char *devargs)
{
	/*
	 * ETH_AF_XDP_DFLT_NUM_DESCS, whatever the number of descriptors asked for; and what it has sent, from the
	 * receive queue's buffers, which it takes back once half as many have come together.
	 */
	return devargs_is(devargs, "net_af_xdp") ? 2048 + 1024 : 0;
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
	const uint8_t *mac = config->mac.addr_bytes;
	unsigned int ring = config->rx_descriptors > config->tx_descriptors ? config->rx_descriptors
									     : config->tx_descriptors;
	char text[24];

	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
	/* More than one queue pair is asked for by the control queue. */
	return append(devargs, size, "mac", text) && append_number(devargs, size, "queue_size", ring) &&
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
