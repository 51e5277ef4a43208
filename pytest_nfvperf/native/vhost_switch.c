/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "vhost_switch.h"

enum { MAX_RING = 1 << 15, MAX_FDS = VHOST_MAX_REGIONS, STATUS_DRIVER_OK = 4 };

static const uint64_t FEATURES =
	VHOST_F_PROTOCOL_FEATURES | VIRTIO_F_VERSION_1 | VIRTIO_F_RING_PACKED | VIRTIO_F_IN_ORDER;
static const uint64_t PROTOCOL = VHOST_PROTOCOL_MQ | VHOST_PROTOCOL_REPLY_ACK | VHOST_PROTOCOL_STATUS;

void vhost_switch_init(struct vhost_switch *device, const char *path)
{
	memset(device, 0, sizeof(*device));
	device->connection = -1;
	device->offered = FEATURES;
	snprintf(device->path, sizeof(device->path), "%s", path);
}

/* Connects if somebody listens by now. */
static bool try_to_connect(struct vhost_switch *device)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = 1}; /* for the rest of a message whose beginning has come */
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	memcpy(address.sun_path, device->path, strnlen(device->path, sizeof(address.sun_path) - 1));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
		device->connection = fd;
		return true;
	}
	if (fd >= 0)
		close(fd);
	return false;
}

static void unmap(struct vhost_switch *device)
{
	for (unsigned int index = 0; index < device->region_count; index++)
		(void)munmap(device->mapped[index], device->mapped_bytes[index]);
	device->region_count = 0;
	for (int at = 0; at < 2 * VHOST_MAX_QUEUES; at++)
		device->ring[at] = (struct vring_device){0};
}

void vhost_switch_close(struct vhost_switch *device)
{
	unmap(device);
	if (device->connection >= 0)
		close(device->connection);
	device->connection = -1;
	device->status = device->protocol = device->features = 0;
}

/* ---- messages */

static bool read_all(int fd, void *to, size_t bytes)
{
	for (size_t got = 0; got < bytes;) {
		ssize_t more = recv(fd, (uint8_t *)to + got, bytes - got, 0);

		if (more <= 0 && !(more < 0 && errno == EINTR)) /* EAGAIN: its patience is over */
			return false;
		got += more > 0 ? (size_t)more : 0;
	}
	return true;
}

struct fds {
	int fd[MAX_FDS];
	unsigned int count;
};

static void close_all(const struct fds *fds)
{
	for (unsigned int at = 0; at < fds->count; at++)
		close(fds->fd[at]);
}

static void keep_fds(struct msghdr *header, struct fds *fds)
{
	for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at != NULL; at = CMSG_NXTHDR(header, at)) {
		size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t index = 0; index < count && fds->count < MAX_FDS; index++)
			memcpy(&fds->fd[fds->count++], CMSG_DATA(at) + index * sizeof(int), sizeof(int));
	}
}

/* The message's head with the descriptors that came with it, then the rest of it. */
static bool receive(struct vhost_switch *device, struct vhost_message *message, struct fds *fds)
{
	struct iovec head = {.iov_base = message, .iov_len = VHOST_HEAD};
	char control[CMSG_SPACE(MAX_FDS * sizeof(int))];
	struct msghdr header = {.msg_iov = &head, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(device->connection, &header, MSG_CMSG_CLOEXEC);

	fds->count = 0;
	if (got <= 0)
		return false;
	keep_fds(&header, fds);
	if (!read_all(device->connection, (uint8_t *)message + got, VHOST_HEAD - (size_t)got))
		return false;
	if (message->bytes > sizeof(*message) - VHOST_HEAD)
		return false;
	return read_all(device->connection, (uint8_t *)message + VHOST_HEAD, message->bytes);
}

static bool answer(struct vhost_switch *device, uint32_t request, uint64_t number)
{
	struct vhost_message message = {
		.request = request, .flags = VHOST_VERSION | VHOST_REPLY, .bytes = sizeof(number), .number = number};
	size_t bytes = VHOST_HEAD + sizeof(number);

	return send(device->connection, &message, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool map_region(struct vhost_switch *device, const struct vhost_region *region, int fd)
{
	unsigned int index = device->region_count;
	uint64_t bytes = region->offset + region->bytes;
	struct stat file;
	void *memory;

	if (region->bytes == 0 || bytes < region->bytes || fstat(fd, &file) != 0 || (uint64_t)file.st_size < bytes)
		return false;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (memory == MAP_FAILED)
		return false;
	device->mapped[index] = memory;
	device->mapped_bytes[index] = bytes;
	device->user[index] = region->user;
	device->region[index] = (struct vring_region){
		.guest = region->guest, .bytes = region->bytes, .at = (uint8_t *)memory + region->offset};
	device->region_count++;
	return true;
}

static bool map_memory(struct vhost_switch *device, const struct vhost_message *message, const struct fds *fds)
{
	uint32_t count = message->memory.count;

	unmap(device);
	if (count == 0 || count > VHOST_MAX_REGIONS || count != fds->count)
		return false;
	for (uint32_t index = 0; index < count; index++) {
		struct vhost_region region = message->memory.region[index];

		if (!map_region(device, &region, fds->fd[index]))
			return false;
	}
	return true;
}

static bool set_address(struct vhost_switch *device, const struct vhost_message *message)
{
	struct vring_device *ring = &device->ring[message->address.index];
	uint64_t bytes = (uint64_t)ring->size * sizeof(struct vring_desc);

	for (unsigned int index = 0; index < device->region_count && ring->size != 0; index++) {
		uint64_t at = message->address.desc - device->user[index];

		if (at >= device->region[index].bytes || bytes > device->region[index].bytes - at || at % 16 != 0)
			continue;
		ring->desc = (void *)(device->region[index].at + at);
		ring->regions = device->region;
		ring->region_count = device->region_count;
		ring->in_order = device->features & VIRTIO_F_IN_ORDER;
		return true;
	}
	return false;
}

static bool set_size(struct vring_device *ring, uint32_t size)
{
	if (size == 0 || size > MAX_RING || (size & (size - 1)) != 0)
		return false;
	ring->size = size;
	ring->desc = NULL; /* where it stands is said again */
	return true;
}

/* Does as the message says; false when it cannot. */
static bool obey(struct vhost_switch *device, const struct vhost_message *message, const struct fds *fds)
{
	struct vring_device *ring = &device->ring[message->state.index % (2 * VHOST_MAX_QUEUES)];

	switch (message->request) {
	case VHOST_SET_FEATURES:
		device->features = message->number;
		return (message->number & ~device->offered) == 0;
	case VHOST_SET_PROTOCOL_FEATURES:
		device->protocol = message->number;
		return (message->number & ~PROTOCOL) == 0;
	case VHOST_SET_MEM_TABLE:
		return map_memory(device, message, fds);
	case VHOST_SET_VRING_NUM:
		return message->state.index < 2 * VHOST_MAX_QUEUES && set_size(ring, message->state.number);
	case VHOST_SET_VRING_BASE:
		ring->next = ring->given = 0;
		return message->state.index < 2 * VHOST_MAX_QUEUES && message->state.number == 1 << 15;
	case VHOST_SET_VRING_ADDR:
		return message->address.index < 2 * VHOST_MAX_QUEUES && set_address(device, message);
	case VHOST_SET_VRING_ENABLE:
		ring->enabled = message->state.number == 1;
		return message->state.index < 2 * VHOST_MAX_QUEUES && ring->desc != NULL;
	case VHOST_SET_STATUS:
		device->status = message->number;
		return true;
	case VHOST_SET_OWNER:
	case VHOST_SET_VRING_CALL:
	case VHOST_SET_VRING_KICK:
		return true;
	default:
		return false;
	}
}

static bool serve_one(struct vhost_switch *device)
{
	struct vhost_message message = {0};
	bool wants_answer, done;
	struct fds fds;

	if (!receive(device, &message, &fds)) {
		close_all(&fds);
		return false;
	}
	wants_answer = (message.flags & VHOST_NEED_REPLY) && (device->protocol & VHOST_PROTOCOL_REPLY_ACK);
	switch (message.request) {
	case VHOST_GET_FEATURES:
		done = answer(device, message.request, device->offered);
		break;
	case VHOST_GET_PROTOCOL_FEATURES:
		done = answer(device, message.request, PROTOCOL);
		break;
	case VHOST_GET_QUEUE_NUM:
		done = answer(device, message.request, VHOST_MAX_QUEUES);
		break;
	case VHOST_GET_STATUS:
		done = answer(device, message.request, device->status);
		break;
	case VHOST_GET_VRING_BASE: /* which also stops the ring */
		device->ring[message.state.index % (2 * VHOST_MAX_QUEUES)].enabled = false;
		done = answer(device, message.request, (uint64_t)1 << 47 | message.state.index);
		break;
	default:
		done = obey(device, &message, &fds);
		if (wants_answer)
			done = answer(device, message.request, done ? 0 : 1) && done;
	}
	close_all(&fds);
	return done;
}

/* The front-end has enabled its rings, and said that it is done where it can say so. */
static bool ready(const struct vhost_switch *device, uint16_t queues)
{
	for (uint16_t at = 0; at < 2 * queues; at++)
		if (!device->ring[at].enabled)
			return false;
	return !(device->protocol & VHOST_PROTOCOL_STATUS) || (device->status & STATUS_DRIVER_OK);
}

bool vhost_switch_poll(struct vhost_switch *device, uint16_t queues)
{
	struct pollfd waiting = {.events = POLLIN};

	if (device->connection < 0 && !try_to_connect(device))
		return false;
	waiting.fd = device->connection;
	while (poll(&waiting, 1, 0) == 1) {
		if (serve_one(device))
			continue;
		vhost_switch_close(device);
		return false;
	}
	return ready(device, queues);
}
