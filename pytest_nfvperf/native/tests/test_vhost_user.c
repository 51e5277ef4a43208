/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of vhost-user talk over a socket, and frames of every size come through both rings, in order, whole. */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "connected.h"
#include "vhost_switch.h"
#include "vhost_user.h"

enum { DEADLINE_MS = 5000, FRAMES = 200000, LONGEST = 9216 };

struct other_end {
	char path[64];
	uint64_t lacks; /* features that it does not offer */
	uint16_t queues;
	bool served;
	unsigned int loops; /* frames that it sends back; 0: none, it only shakes hands */
	struct vhost_switch device;
};

/* Answers until the rings are enabled, the front-end hangs up, or the deadline. */
static bool finishes_handshake(struct other_end *end)
{
	for (int ms = 0; ms < DEADLINE_MS; ms++) {
		bool was_connected = end->device.connection >= 0;

		if (vhost_switch_poll(&end->device, end->queues))
			return true;
		if (was_connected && end->device.connection < 0)
			return false;
		(void)poll(NULL, 0, 1);
	}
	return false;
}

static void *serve(void *opaque)
{
	struct other_end *end = opaque;

	vhost_switch_init(&end->device, end->path);
	end->device.offered &= ~end->lacks;
	end->served = finishes_handshake(end);
	for (unsigned int sent = 0; end->served && sent < end->loops;) {
		struct vring_device *from = &end->device.ring[1], *to = &end->device.ring[0];
		uint8_t *in, *out;
		uint32_t length, room;

		in = vring_device_take(from, &length);
		CHECK(!from->broken);
		if (in == NULL)
			continue;
		while ((out = vring_device_take(to, &room)) == NULL)
			CHECK(!to->broken);
		CHECK(room >= length);
		memcpy(out, in, length);
		vring_device_fill(to, length);
		vring_device_return(from, 1);
		sent++;
	}
	return NULL;
}

static struct vhost_config config_of(const char *path, uint16_t queues)
{
	struct vhost_config config = {.queues = queues, .rx_descriptors = 256, .tx_descriptors = 128, .frame_bytes = LONGEST};

	snprintf(config.path, sizeof(config.path), "%s", path);
	return config;
}

static void path_of(char *path, size_t size, const char *name)
{
	snprintf(path, size, "/tmp/nfvperf-test-%ld-%s", (long)getpid(), name);
}

/* A front-end of one queue that listens, and a thread that connects to it. */
static pthread_t open_with(struct vhost *vhost, struct other_end *end, const char *name)
{
	struct vhost_config config;
	pthread_t thread;

	path_of(end->path, sizeof(end->path), name);
	config = config_of(end->path, 1);
	CHECK(vhost_open(vhost, &config));
	CHECK(pthread_create(&thread, NULL, serve, end) == 0);
	return thread;
}

static uint32_t length_of(unsigned int frame)
{
	return frame % 7 == 0 ? 60 + frame % (LONGEST - 59) : 60 + frame % 5;
}

static uint8_t byte_of(unsigned int frame, uint32_t at)
{
	return (uint8_t)(frame * 31 + at);
}

static void write_frame(struct vring *ring, uint64_t position, unsigned int frame)
{
	uint32_t length = length_of(frame);
	uint8_t *bytes = vring_frame(ring, position);

	for (uint32_t at = 0; at < length; at++)
		bytes[at] = byte_of(frame, at);
	vring_tx_length(ring, position, length);
}

static void check_frame(const struct vring *ring, uint64_t position, unsigned int frame)
{
	const uint8_t *bytes = vring_frame(ring, position);

	CHECK_EQUAL(vring_rx_length(ring, position), length_of(frame));
	for (uint32_t at = 0; at < length_of(frame); at++)
		CHECK_EQUAL(bytes[at], byte_of(frame, at));
}

/* Bursts of 1 to 32, so that they begin and end anywhere in a line. */
static void loop_frames(uint64_t lacks)
{
	struct other_end end = {.lacks = lacks, .queues = 1, .loops = FRAMES};
	unsigned int sent = 0, received = 0, turn = 0;
	struct vhost vhost;
	pthread_t thread;

	thread = open_with(&vhost, &end, "loop");
	CHECK(vhost_connect(&vhost, DEADLINE_MS));
	CHECK_EQUAL(vhost.tx[0].in_order, (lacks & VIRTIO_F_IN_ORDER) == 0);
	while (received < FRAMES) {
		uint32_t burst = 1 + turn++ % 32, room = vring_tx_room(&vhost.tx[0]), waiting;

		CHECK(!vhost.tx[0].broken);
		burst = burst < room ? burst : room;
		burst = burst < FRAMES - sent ? burst : FRAMES - sent;
		for (uint32_t at = 0; at < burst; at++)
			write_frame(&vhost.tx[0], vhost.tx[0].next + at, sent++);
		vring_tx_publish(&vhost.tx[0], burst);
		waiting = vring_rx_wait(&vhost.rx[0], 32, turn, 4);
		for (uint32_t at = 0; at < waiting; at++)
			check_frame(&vhost.rx[0], vhost.rx[0].next + at, received++);
		vring_rx_release(&vhost.rx[0], waiting);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(vhost_connected(&vhost));
	vhost_switch_close(&end.device);
	CHECK(!vhost_connected(&vhost));
	vhost_close(&vhost);
	CHECK(access(end.path, F_OK) != 0);
}

/* The switch is there again after it went, and the rings are as new. */
static void reconnects(void)
{
	struct vhost_config config;
	struct vhost vhost;
	char path[64];

	path_of(path, sizeof(path), "again");
	config = config_of(path, 3);
	CHECK(vhost_open(&vhost, &config));
	for (unsigned int times = 1; times <= 20; times++) {
		struct other_end end = {.queues = 3};
		pthread_t thread;

		memcpy(end.path, path, sizeof(path));
		CHECK(pthread_create(&thread, NULL, serve, &end) == 0);
		CHECK(vhost_connect(&vhost, DEADLINE_MS));
		CHECK(pthread_join(thread, NULL) == 0);
		CHECK(end.served);
		vring_tx_publish(&vhost.tx[2], times % 7);
		CHECK_EQUAL(vring_tx_room(&vhost.tx[2]), 128 - times % 7);
		vhost_switch_close(&end.device);
		CHECK(!vhost_connected(&vhost));
		/* Nobody finds the socket of one that hung up, until it listens again. */
		vhost_hang_up(&vhost);
		CHECK(access(path, F_OK) != 0);
		CHECK(!vhost_connect(&vhost, 0));
		CHECK(vhost_listen(&vhost));
	}
	vhost_close(&vhost);
}

static void a_missing_feature_is_named(void)
{
	struct other_end end = {.lacks = VIRTIO_F_RING_PACKED, .queues = 1};
	struct vhost vhost;
	pthread_t thread;

	thread = open_with(&vhost, &end, "split");
	CHECK(!vhost_connect(&vhost, DEADLINE_MS));
	CHECK(vhost_lacks_features(&vhost));
	CHECK(strstr(vhost.error, "packed") != NULL);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(!end.served);
	vhost_switch_close(&end.device);
	vhost_close(&vhost);
}

struct bad_end {
	char path[64];
	const void *bytes;
	size_t count;
};

/* Sends what it is given, whatever it is asked, and waits for the end. */
static void *answer_badly(void *opaque)
{
	struct bad_end *end = opaque;
	int connection = connected_to(end->path);
	uint8_t ignored[256];

	if (end->count > 0)
		CHECK(send(connection, end->bytes, end->count, MSG_NOSIGNAL) == (ssize_t)end->count);
	while (end->bytes != NULL && recv(connection, ignored, sizeof(ignored), 0) > 0)
		;
	close(connection);
	return NULL;
}

static void refuses(const char *name, const void *bytes, size_t count, const char *says)
{
	struct bad_end end = {.bytes = bytes, .count = count};
	struct vhost_config config;
	struct vhost vhost;
	pthread_t thread;

	path_of(end.path, sizeof(end.path), name);
	config = config_of(end.path, 1);
	CHECK(vhost_open(&vhost, &config));
	CHECK(pthread_create(&thread, NULL, answer_badly, &end) == 0);
	CHECK(!vhost_connect(&vhost, DEADLINE_MS));
	if (strstr(vhost.error, says) == NULL)
		fprintf(stderr, "%s: %s\n", name, vhost.error);
	CHECK(strstr(vhost.error, says) != NULL);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(vhost.connection < 0);
	vhost_close(&vhost);
}

static void bad_answers_are_errors(void)
{
	struct vhost_message wrong = {.request = VHOST_GET_QUEUE_NUM, .flags = VHOST_VERSION | VHOST_REPLY, .bytes = 8};
	struct vhost_message question = {.request = VHOST_GET_FEATURES, .flags = VHOST_VERSION, .bytes = 8};
	struct vhost_message longer = {.request = VHOST_GET_FEATURES, .flags = VHOST_VERSION | VHOST_REPLY, .bytes = 4096};
	static const uint8_t half[5] = {1};

	refuses("wrong", &wrong, VHOST_HEAD + 8, "answers GET_FEATURES with request 17");
	refuses("question", &question, VHOST_HEAD + 8, "answers GET_FEATURES with request 1, flags 0x1");
	refuses("longer", &longer, VHOST_HEAD + 8, "4096 bytes");
	refuses("gone", NULL, 0, "GET_FEATURES");
	refuses("mute", half, 0, "does not answer GET_FEATURES within 2000 ms");
	refuses("half", half, sizeof(half), "does not answer GET_FEATURES within 2000 ms");
}

static void nobody_connects(void)
{
	struct vhost_config config;
	struct vhost vhost;
	char path[64];

	path_of(path, sizeof(path), "nobody");
	config = config_of(path, 1);
	CHECK(vhost_open(&vhost, &config));
	CHECK(!vhost_connect(&vhost, 50));
	CHECK(strstr(vhost.error, "nobody connected") != NULL);
	vhost_close(&vhost);
}

static void bad_configurations_are_errors(void)
{
	struct vhost_config config = config_of("/tmp/nowhere/at/all", 1);
	struct vhost vhost;

	CHECK(!vhost_open(&vhost, &config));
	CHECK(strstr(vhost.error, "cannot listen at /tmp/nowhere/at/all") != NULL);
	vhost_close(&vhost);
	config.rx_descriptors = 100;
	CHECK(!vhost_open(&vhost, &config));
	CHECK(strstr(vhost.error, "power of 2, not 100 and 128") != NULL);
	vhost_close(&vhost);
}

/* A device that gives back what it never had does not make us run through its ring. */
static void a_broken_device_is_seen(void)
{
	struct other_end end = {.queues = 1};
	struct vhost vhost;
	pthread_t thread;

	thread = open_with(&vhost, &end, "broken");
	CHECK(vhost_connect(&vhost, DEADLINE_MS));
	CHECK(pthread_join(thread, NULL) == 0);
	vring_tx_publish(&vhost.tx[0], 3);
	vhost.tx[0].desc[0].id = 77;
	vhost.tx[0].desc[0].flags = VRING_USED | VRING_AVAIL;
	CHECK_EQUAL(vring_tx_room(&vhost.tx[0]), 128 - 3);
	CHECK(vhost.tx[0].broken);
	vhost_switch_close(&end.device);
	vhost_close(&vhost);
}

int main(void)
{
	loop_frames(0);
	loop_frames(VIRTIO_F_IN_ORDER);
	reconnects();
	a_missing_feature_is_named();
	bad_answers_are_errors();
	nobody_connects();
	bad_configurations_are_errors();
	a_broken_device_is_seen();
	return 0;
}
