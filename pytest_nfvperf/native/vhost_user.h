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

/* ---- messages as they stand on the socket, for both ends of it */

enum vhost_request {
	VHOST_GET_FEATURES = 1,
	VHOST_SET_FEATURES = 2,
	VHOST_SET_OWNER = 3,
	VHOST_SET_MEM_TABLE = 5,
	VHOST_SET_VRING_NUM = 8,
	VHOST_SET_VRING_ADDR = 9,
	VHOST_SET_VRING_BASE = 10,
	VHOST_GET_VRING_BASE = 11,
	VHOST_SET_VRING_KICK = 12,
	VHOST_SET_VRING_CALL = 13,
	VHOST_GET_PROTOCOL_FEATURES = 15,
	VHOST_SET_PROTOCOL_FEATURES = 16,
	VHOST_GET_QUEUE_NUM = 17,
	VHOST_SET_VRING_ENABLE = 18,
	VHOST_SET_STATUS = 39,
	VHOST_GET_STATUS = 40,
};

enum {
	VHOST_VERSION = 1,
	VHOST_VERSION_MASK = 3,
	VHOST_REPLY = 1 << 2,
	VHOST_NEED_REPLY = 1 << 3,
	VHOST_MAX_REGIONS = 8,
};

#define VHOST_BIT(bit) (UINT64_C(1) << (bit))
#define VHOST_F_PROTOCOL_FEATURES VHOST_BIT(30)
#define VIRTIO_F_VERSION_1 VHOST_BIT(32)
#define VIRTIO_F_RING_PACKED VHOST_BIT(34)
#define VIRTIO_F_IN_ORDER VHOST_BIT(35)
#define VHOST_PROTOCOL_MQ VHOST_BIT(0)
#define VHOST_PROTOCOL_REPLY_ACK VHOST_BIT(3)
#define VHOST_PROTOCOL_STATUS VHOST_BIT(16)

struct vhost_region {
	uint64_t guest;
	uint64_t bytes;
	uint64_t user; /* address in the front-end's process */
	uint64_t offset; /* into the file */
};

struct vhost_message {
	uint32_t request;
	uint32_t flags;
	uint32_t bytes; /* of what follows */
	union {
		uint64_t number;
		struct {
			uint32_t index;
			uint32_t number;
		} state;
		struct {
			uint32_t index;
			uint32_t flags;
			uint64_t desc;
			uint64_t device; /* event structure that the device writes; "used" in the specification */
			uint64_t driver; /* event structure that the driver writes; "avail" */
			uint64_t log;
		} address;
		struct {
			uint32_t count;
			uint32_t padding;
			struct vhost_region region[VHOST_MAX_REGIONS];
		} memory;
	};
} __attribute__((packed));

enum { VHOST_HEAD = 12 };

/* ---- the front-end */

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

/* Closes the connection and the socket, and listens again: between the two nobody can connect. */
void vhost_hang_up(struct vhost *vhost);
bool vhost_listen(struct vhost *vhost);

/* Whether the switch is still there; closes our end if it is not. Waits for nothing. */
bool vhost_connected(struct vhost *vhost);

/* Gives everything back: sockets, memory, the path. Of one that never opened, too, if it is all zeros. */
void vhost_close(struct vhost *vhost);

/* Connects to the socket at this path and hangs up. 0, or errno. */
int vhost_touch(const char *path);

/* A killed process leaves its socket, and bind() would fail. One that somebody listens on stays. */
void vhost_remove_stale(const char *path);

#endif
