/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever the other end says, neither end of vhost-user reads or writes where it must not, waits for ever, or keeps
 * a file open. An input's first byte says which end hears the rest of it.
 *
 * For libFuzzer (clang -fsanitize=fuzzer,address,undefined -DLIBFUZZER). Without it, main() says right answers with
 * some bytes changed, for as many seconds as its argument says.
 */
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "connected.h"
#include "vhost_switch.h"
#include "vhost_user.h"

enum { MOST_BYTES = 4096, CONNECT_MS = 100 };

/* All of the input, and then the end of it; what is said in return nobody reads. */
static void say(int connection, const uint8_t *bytes, size_t count)
{
	CHECK(count == 0 || write(connection, bytes, count) == (ssize_t)count);
	CHECK(shutdown(connection, SHUT_WR) == 0);
}

static void hear_as_front_end(const uint8_t *bytes, size_t count)
{
	struct vhost_config config = {.queues = 2, .rx_descriptors = 8, .tx_descriptors = 8, .frame_bytes = 64};
	struct vhost vhost;
	int other;

	snprintf(config.path, sizeof(config.path), "/tmp/nfvperf-fuzz-%ld", (long)getpid());
	CHECK(vhost_open(&vhost, &config));
	other = connected_to(config.path);
	say(other, bytes, count);
	if (vhost_connect(&vhost, CONNECT_MS)) {
		vring_tx_publish(&vhost.tx[1], 3);
		CHECK_EQUAL(vring_tx_room(&vhost.tx[1]), 8 - 3);
		CHECK_EQUAL(vring_rx_wait(&vhost.rx[1], 8, 1, 0), 0);
	}
	CHECK(vhost.connection < 0 || !vhost_connected(&vhost));
	vhost_close(&vhost);
	close(other);
}

static void hear_as_switch(const uint8_t *bytes, size_t count)
{
	struct vhost_switch device;
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	say(ends[1], bytes, count);
	vhost_switch_init(&device, "/nowhere");
	device.connection = ends[0];
	(void)vhost_switch_poll(&device, 1);
	vhost_switch_close(&device);
	close(ends[1]);
}

static int next_file(void)
{
	int file = dup(STDERR_FILENO);

	close(file);
	return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	int before = next_file();

	if (count == 0 || count > MOST_BYTES)
		return 0;
	if (bytes[0] % 2 == 0)
		hear_as_front_end(bytes + 1, count - 1);
	else
		hear_as_switch(bytes + 1, count - 1);
	CHECK_EQUAL(next_file(), before);
	return 0;
}

#ifndef LIBFUZZER

static uint64_t random_state = 88172645463325252u; /* xorshift64, always the same: a failure comes again */

static uint64_t random_below(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

static size_t add(uint8_t *bytes, size_t at, uint32_t request, uint32_t flags, uint32_t count, uint64_t number)
{
	struct vhost_message message = {.request = request, .flags = VHOST_VERSION | flags, .bytes = count, .number = number};

	memcpy(bytes + at, &message, VHOST_HEAD + count);
	return at + VHOST_HEAD + count;
}

/* What a switch answers that offers all: then each order is done. */
static size_t right_answers(uint8_t *bytes)
{
	static const uint32_t orders[] = {VHOST_SET_OWNER, VHOST_SET_FEATURES, VHOST_SET_MEM_TABLE};
	static const uint32_t of_ring[] = {VHOST_SET_VRING_CALL, VHOST_SET_VRING_NUM, VHOST_SET_VRING_BASE,
					    VHOST_SET_VRING_ADDR, VHOST_SET_VRING_KICK};
	size_t at = add(bytes, 0, VHOST_GET_FEATURES, VHOST_REPLY, 8, UINT64_MAX);

	at = add(bytes, at, VHOST_GET_PROTOCOL_FEATURES, VHOST_REPLY, 8, UINT64_MAX);
	at = add(bytes, at, VHOST_GET_QUEUE_NUM, VHOST_REPLY, 8, 8);
	for (size_t order = 0; order < sizeof(orders) / sizeof(orders[0]); order++)
		at = add(bytes, at, orders[order], VHOST_REPLY, 8, 0);
	for (int ring = 0; ring < 4; ring++)
		for (size_t order = 0; order < sizeof(of_ring) / sizeof(of_ring[0]); order++)
			at = add(bytes, at, of_ring[order], VHOST_REPLY, 8, 0);
	for (int ring = 0; ring < 4; ring++)
		at = add(bytes, at, VHOST_SET_VRING_ENABLE, VHOST_REPLY, 8, 0);
	return add(bytes, at, VHOST_SET_STATUS, VHOST_REPLY, 8, 0);
}

/* What a front-end says, without its memory. */
static size_t right_orders(uint8_t *bytes)
{
	size_t at = add(bytes, 0, VHOST_GET_FEATURES, 0, 0, 0);

	at = add(bytes, at, VHOST_GET_PROTOCOL_FEATURES, 0, 0, 0);
	at = add(bytes, at, VHOST_SET_PROTOCOL_FEATURES, 0, 8, VHOST_PROTOCOL_MQ | VHOST_PROTOCOL_REPLY_ACK);
	at = add(bytes, at, VHOST_SET_FEATURES, VHOST_NEED_REPLY, 8, VIRTIO_F_RING_PACKED);
	at = add(bytes, at, VHOST_SET_MEM_TABLE, VHOST_NEED_REPLY, 40, 1);
	for (uint32_t ring = 0; ring < 2; ring++) {
		at = add(bytes, at, VHOST_SET_VRING_NUM, VHOST_NEED_REPLY, 8, UINT64_C(256) << 32 | ring);
		at = add(bytes, at, VHOST_SET_VRING_BASE, VHOST_NEED_REPLY, 8, UINT64_C(1) << 47 | ring);
		at = add(bytes, at, VHOST_SET_VRING_ADDR, VHOST_NEED_REPLY, 40, ring);
		at = add(bytes, at, VHOST_SET_VRING_ENABLE, VHOST_NEED_REPLY, 8, UINT64_C(1) << 32 | ring);
	}
	return at;
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? strtol(argv[1], NULL, 10) : 2);
	unsigned long inputs = 0;

	for (; time(NULL) < end; inputs++) {
		uint8_t bytes[1 + MOST_BYTES] = {(uint8_t)(inputs % 2)};
		size_t count = 1 + (inputs % 2 == 0 ? right_answers(bytes + 1) : right_orders(bytes + 1));

		for (uint64_t changes = random_below(4); changes > 0; changes--)
			bytes[1 + random_below(count - 1)] = (uint8_t)random_below(256);
		if (random_below(4) == 0)
			count = 1 + random_below(count);
		(void)LLVMFuzzerTestOneInput(bytes, count);
	}
	printf("%lu inputs\n", inputs);
	return 0;
}

#endif
