/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cpu.h"
#include "vhost_user.h"

enum {
	MESSAGE_MS = 2000, /* until a message is answered; OVS answers within 1 ms, and later while it starts */
	HANDSHAKE_MS = 5000, /* for all of them, so that a switch which is late each time ends within a command's deadline */
	CACHE_LINE = 64,
	HUGE_PAGE = 2 << 20,
	/*
	 * Not a power of 2: frames whose addresses differ by one lie in few sets of a cache (seen with 2048 bytes:
	 * 7 % more cycles of a PMD thread a frame, and 7 ns more of ours).
	 */
	SMALL_STRIDE = 2048 + CACHE_LINE,
	FIRST_WRAP = 1 << 15, /* a ring's base: descriptor 0, its wrap counter 1 */
	STATUS_DRIVER_OK = 0xf, /* acknowledge, driver, driver ok, features ok */
};

static const uint64_t NEEDED = VHOST_F_PROTOCOL_FEATURES | VIRTIO_F_VERSION_1 | VIRTIO_F_RING_PACKED;
static const uint64_t WANTED_PROTOCOL = VHOST_PROTOCOL_MQ | VHOST_PROTOCOL_REPLY_ACK | VHOST_PROTOCOL_STATUS;

static bool failed(struct vhost *vhost, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool failed(struct vhost *vhost, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(vhost->error, sizeof(vhost->error), format, arguments);
	va_end(arguments);
	return false;
}

static const char *name_of(uint32_t request)
{
	static const char *const names[] = {
		[VHOST_GET_FEATURES] = "GET_FEATURES",
		[VHOST_SET_FEATURES] = "SET_FEATURES",
		[VHOST_SET_OWNER] = "SET_OWNER",
		[VHOST_SET_MEM_TABLE] = "SET_MEM_TABLE",
		[VHOST_SET_VRING_NUM] = "SET_VRING_NUM",
		[VHOST_SET_VRING_ADDR] = "SET_VRING_ADDR",
		[VHOST_SET_VRING_BASE] = "SET_VRING_BASE",
		[VHOST_SET_VRING_KICK] = "SET_VRING_KICK",
		[VHOST_SET_VRING_CALL] = "SET_VRING_CALL",
		[VHOST_GET_PROTOCOL_FEATURES] = "GET_PROTOCOL_FEATURES",
		[VHOST_SET_PROTOCOL_FEATURES] = "SET_PROTOCOL_FEATURES",
		[VHOST_GET_QUEUE_NUM] = "GET_QUEUE_NUM",
		[VHOST_SET_VRING_ENABLE] = "SET_VRING_ENABLE",
		[VHOST_SET_STATUS] = "SET_STATUS",
	};

	return request < sizeof(names) / sizeof(names[0]) && names[request] != NULL ? names[request] : "a message";
}

static int64_t now_ms(void)
{
	return (int64_t)(monotonic_ns() / 1000000);
}

/* 1 when the descriptor is ready, 0 at the deadline, -1 when it is broken. */
static int wait_for(int fd, short events, int64_t deadline)
{
	for (;;) {
		struct pollfd waiting = {.fd = fd, .events = events};
		int64_t left = deadline - now_ms();
		int ready = poll(&waiting, 1, left > 0 ? (int)left : 0);

		if (ready < 0 && errno == EINTR)
			continue;
		return ready <= 0 ? ready : waiting.revents & events ? 1 : -1;
	}
}

/* ---- memory: event structures, descriptors and buffers of all rings, in one file of hugepages */

static size_t lines(size_t bytes)
{
	return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static uint32_t stride_of(uint32_t frame_bytes)
{
	/* A frame begins with a cache line; its header ends the line before. An odd number of lines apart. */
	size_t stride = lines(frame_bytes) + CACHE_LINE;

	if (stride < SMALL_STRIDE)
		stride = SMALL_STRIDE;
	return (uint32_t)(stride / CACHE_LINE % 2 == 1 ? stride : stride + CACHE_LINE);
}

/* Two lines for each event structure: the processor fetches the neighbour of a line with it. */
static size_t ring_bytes(uint32_t size, uint32_t stride)
{
	return size * sizeof(struct vring_desc) + 4 * CACHE_LINE + CACHE_LINE + (size_t)size * stride;
}

static bool ring_place(struct vring *ring, uint8_t **at, uint32_t size, uint32_t stride, uint32_t room)
{
	*ring = (struct vring){.size = size, .stride = stride, .room = room};
	ring->desc = (void *)*at;
	*at += size * sizeof(struct vring_desc);
	ring->driver = (void *)*at;
	ring->device = (void *)(*at + 2 * CACHE_LINE);
	ring->frames = *at + 5 * CACHE_LINE;
	*at += 5 * CACHE_LINE + (size_t)size * stride;
	ring->shadow = aligned_alloc(CACHE_LINE, lines(size * sizeof(struct vring_desc)));
	return ring->shadow != NULL;
}

/* As at the beginning: nothing sent, all receive buffers the device's. Frames keep their bytes. */
static void ring_reset(struct vring *ring, bool receives)
{
	memset(ring->desc, 0, ring->size * sizeof(struct vring_desc));
	memset(ring->device, 0, sizeof(*ring->device));
	*ring->driver = (struct vring_event){.flags = VRING_NO_EVENTS};
	ring->next = ring->pending = ring->looked = 0;
	ring->broken = false;
	for (uint32_t at = 0; at < ring->size; at++) {
		uint8_t *header = vring_frame(ring, at) - VRING_HEADER;

		memset(header, 0, VRING_HEADER);
		ring->shadow[at] = (struct vring_desc){
			.address = (uintptr_t)header,
			.length = ring->room + VRING_HEADER,
			.id = (uint16_t)at,
			.flags = receives ? VRING_WRITE : 0,
		};
		if (receives)
			vring_give(ring, at);
	}
}

static int memory_file(size_t bytes, unsigned int flags)
{
	int fd = memfd_create("nfvperf-vhost", MFD_CLOEXEC | flags);

	/* Hugepages are reserved at once: without them a frame would end the process by SIGBUS later. */
	if (fd >= 0 && (ftruncate(fd, (off_t)bytes) != 0 || (flags != 0 && fallocate(fd, 0, 0, (off_t)bytes) != 0))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool memory_new(struct vhost *vhost)
{
	const struct vhost_config *config = &vhost->config;
	uint32_t stride = stride_of(config->frame_bytes);
	size_t pair = ring_bytes(config->rx_descriptors, stride) + ring_bytes(config->tx_descriptors, stride);
	uint8_t *at;

	vhost->memory_bytes = (config->queues * pair + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	vhost->memory_fd = memory_file(vhost->memory_bytes, MFD_HUGETLB | MFD_HUGE_2MB);
	if (vhost->memory_fd < 0)
		vhost->memory_fd = memory_file(vhost->memory_bytes, 0);
	if (vhost->memory_fd < 0)
		return failed(vhost, "no memory of %zu MiB for its rings: %s", vhost->memory_bytes >> 20, strerror(errno));
	at = mmap(NULL, vhost->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, vhost->memory_fd, 0);
	if (at == MAP_FAILED)
		return failed(vhost, "cannot map %zu MiB for its rings: %s", vhost->memory_bytes >> 20, strerror(errno));
	vhost->memory = at;
	for (uint16_t queue = 0; queue < config->queues; queue++)
		if (!ring_place(&vhost->rx[queue], &at, config->rx_descriptors, stride, config->frame_bytes) ||
		    !ring_place(&vhost->tx[queue], &at, config->tx_descriptors, stride, config->frame_bytes))
			return failed(vhost, "out of memory");
	return true;
}

/* ---- the socket */

int vhost_touch(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ret = 0;

	if (fd < 0)
		return errno;
	memcpy(address.sun_path, path, strnlen(path, sizeof(address.sun_path) - 1));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		ret = errno;
	close(fd);
	return ret;
}

void vhost_remove_stale(const char *path)
{
	if (vhost_touch(path) == ECONNREFUSED)
		(void)unlink(path);
}

bool vhost_listen(struct vhost *vhost)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memcpy(address.sun_path, vhost->config.path, strnlen(vhost->config.path, sizeof(address.sun_path) - 1));
	vhost_remove_stale(vhost->config.path);
	vhost->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (vhost->listener < 0 || bind(vhost->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(vhost->listener, 1) != 0)
		return failed(vhost, "cannot listen at %s: %s", vhost->config.path, strerror(errno));
	return true;
}

bool vhost_open(struct vhost *vhost, const struct vhost_config *config)
{
	memset(vhost, 0, sizeof(*vhost));
	vhost->config = *config;
	vhost->listener = vhost->connection = vhost->memory_fd = -1;
	if (config->path[0] == '\0' || config->queues == 0 || config->queues > VHOST_MAX_QUEUES)
		return failed(vhost, "a vhost-user port needs a path and 1 to %d queues", VHOST_MAX_QUEUES);
	if ((config->rx_descriptors & (config->rx_descriptors - 1)) != 0 || config->rx_descriptors < VRING_LINE ||
	    (config->tx_descriptors & (config->tx_descriptors - 1)) != 0 || config->tx_descriptors < VRING_LINE)
		return failed(vhost, "descriptors of a vhost-user port are a power of 2, not %u and %u", config->rx_descriptors,
			      config->tx_descriptors);
	return memory_new(vhost) && vhost_listen(vhost);
}

static void hang_up(struct vhost *vhost)
{
	if (vhost->connection >= 0)
		close(vhost->connection);
	vhost->connection = -1;
}

void vhost_hang_up(struct vhost *vhost)
{
	hang_up(vhost);
	if (vhost->listener < 0)
		return;
	close(vhost->listener);
	(void)unlink(vhost->config.path);
	vhost->listener = -1;
}

void vhost_close(struct vhost *vhost)
{
	if (vhost->memory_bytes == 0)
		return;
	vhost_hang_up(vhost);
	if (vhost->memory != NULL)
		(void)munmap(vhost->memory, vhost->memory_bytes);
	if (vhost->memory_fd >= 0)
		close(vhost->memory_fd);
	for (uint16_t queue = 0; queue < vhost->config.queues; queue++) {
		free(vhost->rx[queue].shadow);
		free(vhost->tx[queue].shadow);
	}
	memset(vhost, 0, sizeof(*vhost));
}

/* ---- messages: each waits for what answers it, and no longer than the deadline */

static bool send_message(struct vhost *vhost, const struct vhost_message *message, int fd, int64_t deadline)
{
	struct iovec bytes = {.iov_base = (void *)(uintptr_t)message, .iov_len = VHOST_HEAD + message->bytes};
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1};

	if (fd >= 0) {
		struct cmsghdr *carries;

		header.msg_control = control;
		header.msg_controllen = sizeof(control);
		carries = CMSG_FIRSTHDR(&header);
		carries->cmsg_level = SOL_SOCKET;
		carries->cmsg_type = SCM_RIGHTS;
		carries->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(carries), &fd, sizeof(int));
	}
	if (wait_for(vhost->connection, POLLOUT, deadline) != 1)
		return failed(vhost, "the switch takes no %s", name_of(message->request));
	/* Messages are far smaller than a socket's buffer: taken whole, or not at all. */
	if (sendmsg(vhost->connection, &header, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)bytes.iov_len)
		return failed(vhost, "cannot send %s to the switch: %s", name_of(message->request), strerror(errno));
	return true;
}

static int64_t message_deadline(const struct vhost *vhost)
{
	int64_t one = now_ms() + MESSAGE_MS;

	return one < vhost->deadline_ms ? one : vhost->deadline_ms;
}

/* The number that answers a request. */
static bool receive_number(struct vhost *vhost, uint32_t request, uint64_t *number, int64_t deadline)
{
	struct vhost_message answer = {0};
	size_t want = VHOST_HEAD + sizeof(answer.number), got = 0;

	while (got < want) {
		int ready = wait_for(vhost->connection, POLLIN, deadline);
		ssize_t more;

		if (ready == 0)
			return failed(vhost, "the switch does not answer %s within %d ms, and all messages within %d ms",
				      name_of(request), MESSAGE_MS, HANDSHAKE_MS);
		more = recv(vhost->connection, (uint8_t *)&answer + got, want - got, MSG_DONTWAIT);
		if (more < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (more <= 0)
			return failed(vhost, "the switch hung up at %s%s%s", name_of(request), more < 0 ? ": " : "",
				      more < 0 ? strerror(errno) : "");
		got += (size_t)more;
	}
	if (answer.request != request || (answer.flags & (VHOST_VERSION_MASK | VHOST_REPLY)) != (VHOST_VERSION | VHOST_REPLY) ||
	    answer.bytes != sizeof(answer.number))
		return failed(vhost, "the switch answers %s with request %u, flags %#x and %u bytes", name_of(request),
			      answer.request, answer.flags, answer.bytes);
	*number = answer.number;
	return true;
}

/* A question: its answer is a number. */
static bool ask(struct vhost *vhost, uint32_t request, uint64_t *number)
{
	struct vhost_message message = {.request = request, .flags = VHOST_VERSION};
	int64_t deadline = message_deadline(vhost);

	return send_message(vhost, &message, -1, deadline) && receive_number(vhost, request, number, deadline);
}

/* An order: answered only where both sides agreed that orders are (REPLY_ACK), with 0 for done. */
static bool order(struct vhost *vhost, struct vhost_message *message, int fd)
{
	bool answered = vhost->protocol & VHOST_PROTOCOL_REPLY_ACK;
	int64_t deadline = message_deadline(vhost);
	uint64_t refused = 0;

	message->flags = VHOST_VERSION | (answered ? VHOST_NEED_REPLY : 0);
	if (!send_message(vhost, message, fd, deadline))
		return false;
	if (answered && !receive_number(vhost, message->request, &refused, deadline))
		return false;
	if (refused != 0)
		return failed(vhost, "the switch refuses %s", name_of(message->request));
	return true;
}

static bool set_number(struct vhost *vhost, uint32_t request, uint64_t number, int fd)
{
	struct vhost_message message = {.request = request, .bytes = sizeof(message.number), .number = number};

	return order(vhost, &message, fd);
}

static bool set_state(struct vhost *vhost, uint32_t request, uint32_t index, uint32_t number)
{
	return set_number(vhost, request, (uint64_t)number << 32 | index, -1);
}

/* ---- the handshake */

static bool agree_on_features(struct vhost *vhost)
{
	uint64_t offered, protocol, queues = vhost->config.queues;

	if (!ask(vhost, VHOST_GET_FEATURES, &offered))
		return false;
	vhost->features = offered & (NEEDED | VIRTIO_F_IN_ORDER);
	if (vhost_lacks_features(vhost))
		return failed(vhost, "the switch offers features %#lx and lacks %#lx%s", (unsigned long)offered,
			      (unsigned long)(NEEDED & ~offered),
			      offered & VIRTIO_F_RING_PACKED ? "" : " (packed virtqueues among them)");
	if (!ask(vhost, VHOST_GET_PROTOCOL_FEATURES, &protocol))
		return false;
	protocol &= WANTED_PROTOCOL;
	if (!set_number(vhost, VHOST_SET_PROTOCOL_FEATURES, protocol, -1))
		return false;
	vhost->protocol = protocol;
	if (queues > 1 && (!(protocol & VHOST_PROTOCOL_MQ) || !ask(vhost, VHOST_GET_QUEUE_NUM, &queues)))
		return failed(vhost, "the switch knows one queue a port, not %u", vhost->config.queues);
	if (queues < vhost->config.queues)
		return failed(vhost, "the switch has at most %lu queues a port, not %u", (unsigned long)queues,
			      vhost->config.queues);
	return true;
}

static bool share_memory(struct vhost *vhost)
{
	struct vhost_message owner = {.request = VHOST_SET_OWNER};
	/* One region, at the same address for both: descriptors hold the addresses that we use ourselves. */
	struct vhost_message memory = {
		.request = VHOST_SET_MEM_TABLE,
		.bytes = 8 + sizeof(struct vhost_region),
		.memory = {.count = 1, .region = {{
			.guest = (uintptr_t)vhost->memory,
			.bytes = vhost->memory_bytes,
			.user = (uintptr_t)vhost->memory,
		}}},
	};

	/* Features before the rings: whether they are packed decides what the switch makes of SET_VRING_NUM. */
	return order(vhost, &owner, -1) && set_number(vhost, VHOST_SET_FEATURES, vhost->features, -1) &&
	       order(vhost, &memory, vhost->memory_fd);
}

static bool set_ring(struct vhost *vhost, uint32_t index, struct vring *ring)
{
	int call = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct vhost_message address = {
		.request = VHOST_SET_VRING_ADDR,
		.bytes = sizeof(address.address),
		.address = {
			.index = index,
			.desc = (uintptr_t)ring->desc,
			.device = (uintptr_t)ring->device,
			.driver = (uintptr_t)ring->driver,
		},
	};
	bool done = false;

	ring_reset(ring, index % 2 == 0);
	ring->in_order = vhost->features & VIRTIO_F_IN_ORDER;
	if (call < 0 || kick < 0)
		failed(vhost, "cannot make an eventfd: %s", strerror(errno));
	else
		done = set_number(vhost, VHOST_SET_VRING_CALL, index, call) &&
		       set_state(vhost, VHOST_SET_VRING_NUM, index, ring->size) &&
		       set_state(vhost, VHOST_SET_VRING_BASE, index, FIRST_WRAP) && order(vhost, &address, -1) &&
		       set_number(vhost, VHOST_SET_VRING_KICK, index, kick);
	if (call >= 0)
		close(call);
	if (kick >= 0)
		close(kick);
	return done;
}

static bool set_rings(struct vhost *vhost)
{
	for (uint32_t queue = 0; queue < vhost->config.queues; queue++)
		if (!set_ring(vhost, 2 * queue, &vhost->rx[queue]) || !set_ring(vhost, 2 * queue + 1, &vhost->tx[queue]))
			return false;
	for (uint32_t index = 0; index < 2u * vhost->config.queues; index++)
		if (!set_state(vhost, VHOST_SET_VRING_ENABLE, index, 1))
			return false;
	return !(vhost->protocol & VHOST_PROTOCOL_STATUS) || set_number(vhost, VHOST_SET_STATUS, STATUS_DRIVER_OK, -1);
}

bool vhost_lacks_features(const struct vhost *vhost)
{
	return (vhost->features & NEEDED) != NEEDED;
}

bool vhost_connect(struct vhost *vhost, unsigned int timeout_ms)
{
	hang_up(vhost);
	vhost->features = NEEDED; /* whoever does not connect lacks none */
	vhost->protocol = 0;
	if (wait_for(vhost->listener, POLLIN, now_ms() + timeout_ms) != 1)
		return failed(vhost, "nobody connected to its socket within %u ms", timeout_ms);
	vhost->connection = accept4(vhost->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (vhost->connection < 0)
		return failed(vhost, "cannot accept the switch: %s", strerror(errno));
	vhost->deadline_ms = now_ms() + HANDSHAKE_MS;
	if (agree_on_features(vhost) && share_memory(vhost) && set_rings(vhost))
		return true;
	hang_up(vhost);
	return false;
}

bool vhost_connected(struct vhost *vhost)
{
	uint8_t byte;
	ssize_t got;

	if (vhost->connection < 0)
		return false;
	/* Nothing is expected: an end of file, an error or a message that we did not ask for all end it. */
	got = recv(vhost->connection, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	hang_up(vhost);
	return false;
}
