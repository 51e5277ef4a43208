/* SPDX-License-Identifier: Apache-2.0 */
/* The back-end of vhost-user, the end that a switch has: connects to a socket and does as it is told. No DPDK. */
#ifndef NFVPERF_VHOST_SWITCH_H
#define NFVPERF_VHOST_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "vhost_message.h"
#include "vhost_user.h"
#include "vring_device.h"

struct vhost_switch {
	char path[VHOST_MAX_PATH];
	int connection; /* -1: none */
	uint64_t polled; /* TSC of the last vhost_switch_poll(), kept by whoever polls */
	uint64_t offered; /* features; a test may take some away */
	uint64_t features;
	uint64_t protocol;
	uint64_t status;
	struct vring_region region[VHOST_MAX_REGIONS];
	uint64_t user[VHOST_MAX_REGIONS]; /* where each begins in the front-end's process */
	void *mapped[VHOST_MAX_REGIONS];
	size_t mapped_bytes[VHOST_MAX_REGIONS];
	unsigned int region_count;
	struct vring_device ring[2 * VHOST_MAX_QUEUES]; /* even: to the front-end */
	unsigned int messages; /* that were answered */
	char error[VHOST_ERROR];
};

/* For vhost_switch_poll() to connect. */
void vhost_switch_init(struct vhost_switch *device, const char *path);

/* Connects to the socket at this path, tried again until the deadline. */
bool vhost_switch_open(struct vhost_switch *device, const char *path, unsigned int timeout_ms);

/* Answers messages until the rings of so many queue pairs are enabled, or the deadline. */
bool vhost_switch_serve(struct vhost_switch *device, uint16_t queues, unsigned int timeout_ms);

/* Connects, if it can, and answers what has come by now. Waits for nothing. Whether the front-end is there and the rings of so many queue pairs are enabled. */
bool vhost_switch_poll(struct vhost_switch *device, uint16_t queues);

void vhost_switch_close(struct vhost_switch *device);

#endif
