/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front-end of vhost-user (QEMU's docs/interop/vhost-user.rst): we listen, the switch
 * (dpdkvhostuserclient) connects, we say where rings and buffers are. No DPDK.
 *
 * Every message has a deadline: a back-end that answers nothing, late or wrongly ends the
 * handshake with an error that says which message it was.
 */
#ifndef NFVPERF_VHOST_USER_H
#define NFVPERF_VHOST_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vring.h"

enum {
	VHOST_MAX_QUEUES = 64,
	VHOST_MAX_PATH = 108,
	VHOST_ERROR = 256,
};

struct vhost_config {
	char path[VHOST_MAX_PATH];
	uint16_t queues; /* pairs */
	uint32_t rx_descriptors;
	uint32_t tx_descriptors;
	uint32_t frame_bytes; /* of the longest frame, without FCS */
};

struct vhost {
	struct vhost_config config;
	int listener; /* -1: not listening */
	int connection; /* -1: nobody is connected */
	int memory_fd;
	uint8_t *memory;
	size_t memory_bytes;
	uint64_t features;
	uint64_t protocol; /* features of the protocol itself */
	unsigned int handshakes; /* that succeeded */
	int64_t deadline_ms; /* of the handshake that goes on; CLOCK_MONOTONIC */
	struct vring rx[VHOST_MAX_QUEUES];
	struct vring tx[VHOST_MAX_QUEUES];
	char error[VHOST_ERROR]; /* of the last thing that failed */
};

/* Lays out memory and rings and begins to listen. False, with an error, when there is no memory or no such path. */
bool vhost_open(struct vhost *vhost, const struct vhost_config *config);

/*
 * Waits at most `timeout_ms` for the switch, and does the handshake. Rings begin anew. False, with an error, when
 * nobody connected, a message was not answered, or features are missing; `vhost_lacks_features` tells the last apart.
 */
bool vhost_connect(struct vhost *vhost, unsigned int timeout_ms);
bool vhost_lacks_features(const struct vhost *vhost);

/* The same with a switch that is connected already: the socket is ours from now on, whatever comes of it. */
bool vhost_handshake(struct vhost *vhost, int connection);

/* Whether the switch is still there; closes our end if it is not. Waits for nothing. */
bool vhost_connected(struct vhost *vhost);

/* Gives everything back: sockets, memory, the path. Of one that never opened, too, if it is all zeros. */
void vhost_close(struct vhost *vhost);

/* Connects to the socket at this path and hangs up. 0, or errno. */
int vhost_touch(const char *path);

/* A killed process leaves its socket, and bind() would fail. One that somebody listens on stays. */
void vhost_remove_stale(const char *path);

#endif
