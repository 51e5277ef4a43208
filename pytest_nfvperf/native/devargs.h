/* SPDX-License-Identifier: Apache-2.0 */
/* Device arguments: from what the user wrote to what DPDK's bus wants. */
#ifndef NFVPERF_DEVARGS_H
#define NFVPERF_DEVARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "port_config.h"

/*
 * Writes the devargs with a device name of its own ("net_virtio_user" becomes "net_virtio_user7"),
 * MAC, ring size and queues filled in where the driver takes them, and the device's name alone
 * into `name`. False when they do not fit.
 */
bool devargs_expand(const struct port_config *config, unsigned int serial, char *devargs, char *name, size_t size);

/* Whether it is a device of this driver, numbered or not. */
bool devargs_is(const char *devargs, const char *driver);

/* Whether a driver makes the device (net_*, eth_*), so that no bus finds it. */
bool devargs_virtual(const char *devargs);

/* The value of a key in devargs into `value`; false when it is not there. */
bool devargs_value(const char *devargs, const char *key, char *value, size_t size);

/* Whether the driver copies received frames into the port's buffers, instead of passing the sender's. */
bool devargs_own_buffers(const char *devargs);

/* Buffers of each receive queue that the driver keeps for the kernel, to fill and to send, beside those of its descriptors. */
unsigned int devargs_kept_frames(const char *devargs);

/* Whether the driver's rings push back instead of losing frames. */
bool devargs_back_pressure(const char *devargs);

#endif
