/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of vhost-user as they stand on the socket, and the clock of their deadlines, for both ends of it. */
#ifndef NFVPERF_VHOST_MESSAGE_H
#define NFVPERF_VHOST_MESSAGE_H

#include <stdint.h>
#include <time.h>

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
	VHOST_NO_FD = 1 << 8, /* in the payload of kick and call */
	VHOST_MAX_REGIONS = 8,
};

#define VHOST_BIT(bit) (UINT64_C(1) << (bit))
#define VIRTIO_NET_F_MRG_RXBUF VHOST_BIT(15)
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

static inline int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
