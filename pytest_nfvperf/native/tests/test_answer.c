/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that answer frames: TCP over IPv4 and IPv6, whose signature stands in a TCP option. The test is the port. */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "check.h"
#include "frames.h"

enum { TRIAL = 7, ROOM = 256, FRONT = 16, MOST_SENT = 16384, SHIFT = 12, IP = 14, OPTION = 22, STREAMS = 4 };

/* ---- the port */

static struct {
	uint16_t room, takes; /* of a burst */
	uint8_t buffers[BURST_FRAMES][ROOM];
	uint32_t sent;
	uint16_t queue[MOST_SENT];
	uint16_t length[MOST_SENT];
	uint8_t frame[MOST_SENT][ROOM];
} wire;

uint16_t port_room_slowly(struct port *port, uint16_t queue, struct burst *burst, uint16_t wanted)
{
	(void)port;
	(void)queue;
	if (wanted > wire.room)
		wanted = wire.room;
	for (uint16_t at = 0; at < wanted; at++) {
		burst->bytes[at] = wire.buffers[at];
		for (size_t byte = 0; byte < ROOM; byte++)
			wire.buffers[at][byte] = pattern_byte(byte);
	}
	return wanted;
}

uint16_t port_send_slowly(struct port *port, uint16_t queue, struct burst *burst, uint16_t count)
{
	(void)port;
	if (count > wire.takes)
		count = wire.takes;
	for (uint16_t at = 0; at < count; at++, wire.sent++) {
		CHECK(wire.sent < MOST_SENT);
		memcpy(wire.frame[wire.sent], burst->bytes[at], burst->length[at]);
		wire.length[wire.sent] = burst->length[at];
		wire.queue[wire.sent] = queue;
	}
	return count;
}

/* ---- streams: 0 is opened by the client, 1 answers it, 2 answers that, 3 answers 0 and 2 */

static struct rig {
	struct port client, server;
	struct stream streams[STREAMS];
	struct seq_window *arrived[STREAMS];
	struct answer_queue queue;
	struct poll_clock clock;
	bool ipv6;
} rig;

static size_t tcp_at(void)
{
	return IP + (rig.ipv6 ? 40 : 20);
}

/* Of the pseudo-header and all behind it; 0xffff where the checksum inside is right. */
static uint16_t tcp_sum(const uint8_t *frame, size_t length)
{
	size_t from = rig.ipv6 ? IP + 8 : IP + 12, tcp = tcp_at();

	return words_sum(frame + tcp, length - tcp, words_sum(frame + from, tcp - from, (uint32_t)(length - tcp) + 6));
}

static size_t tcp_make(uint8_t *frame, bool by_client, uint8_t flags, size_t payload)
{
	size_t tcp = tcp_at(), length = tcp + 36 + payload;

	memset(frame, 0, ROOM);
	memcpy(frame, (const uint8_t[]){2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}, 12);
	word_put(frame + 12, rig.ipv6 ? 0x86dd : 0x0800);
	ip_make(frame + IP, rig.ipv6 ? 6 : 4, length - IP);
	frame[IP + (rig.ipv6 ? 6 : 9)] = 6;
	if (!rig.ipv6) {
		word_put(frame + IP + 10, 0);
		word_put(frame + IP + 10, (uint16_t)~words_sum(frame + IP, 20, 0));
	}
	word_put(frame + tcp, by_client ? 1024 : 80);
	word_put(frame + tcp + 2, by_client ? 80 : 1024);
	frame[tcp + 12] = 9 << 4;
	frame[tcp + 13] = flags;
	frame[tcp + 20] = 253;
	frame[tcp + 21] = 16;
	for (size_t at = tcp + 36; at < length; at++)
		frame[at] = pattern_byte(at);
	word_put(frame + tcp + 16, (uint16_t)~tcp_sum(frame, length));
	return length;
}

static void vary(struct frame_set *set, struct field field)
{
	field.bits = (uint8_t)(8 * field.size);
	set->field[set->fields++] = field;
}

static void make_stream(unsigned int id, bool by_client, size_t payload)
{
	struct stream *stream = &rig.streams[id];
	struct frame_set *set = &stream->frames;
	uint16_t tcp = (uint16_t)tcp_at(), signature = tcp + OPTION, source = rig.ipv6 ? IP + 20 : IP + 12;
	uint16_t address = by_client ? source : rig.ipv6 ? IP + 36 : IP + 16;
	uint8_t bytes[ROOM];
	size_t length = tcp_make(bytes, by_client, by_client ? 0x02 : 0x12, payload);
	const char *wrong;

	*stream = (struct stream){.id = (uint8_t)id, .trial = TRIAL, .tx = by_client ? &rig.client : &rig.server,
				  .rx = by_client ? &rig.server : &rig.client, .queue = &rig.queue};
	CHECK(frame_set_add(set, bytes, length, signature) == NULL);
	vary(set, (struct field){.offset = address, .size = 4, .first = window_get(bytes + address, 4), .step = 1,
				 .count = 100, .every = 1000, .from = by_client ? 0 : (int16_t)(source - signature)});
	vary(set, (struct field){.offset = by_client ? tcp : tcp + 2, .size = 2, .first = 1024, .step = 1, .count = 1000,
				 .every = 1, .from = by_client ? 0 : (int16_t)(tcp - signature)});
	vary(set, (struct field){.offset = tcp + 4, .size = 4, .step = 1 << SHIFT, .count = 1 << (32 - SHIFT), .every = 1});
	if (!rig.ipv6)
		set->checksum[set->checksums++] = (struct checksum){.offset = IP + 10, .start = IP, .fields = 1};
	set->checksum[set->checksums++] =
		(struct checksum){.offset = tcp + 16, .start = tcp, .fields = 7, .signature = true};
	set->combinations = UINT64_C(100000) << (32 - SHIFT);
	set->compared_from = IP;
	wrong = frame_set_finish(set, (const uint16_t[]){0}, 1);
	CHECK(wrong == NULL);
	stream->cursor = frame_cursor_at(set, 0);
	rig.arrived[id] = seq_new(set->combinations);
	CHECK(rig.arrived[id] != NULL);
	stream->arrived = rig.arrived[id];
	stream->streams = rig.streams;
}

static void answers(unsigned int id, uint64_t which)
{
	rig.streams[id].answers = which;
	for (unsigned int other = 0; other < id; other++)
		if (which >> other & 1)
			rig.streams[other].answered_by |= UINT64_C(1) << id;
}

static void rig_make(bool ipv6)
{
	memset(&rig, 0, sizeof(rig));
	memset(&wire, 0, sizeof(wire));
	wire.room = wire.takes = BURST_FRAMES;
	rig.ipv6 = ipv6;
	rig.client.kind = rig.server.kind = PORT_DPDK;
	rig.client.config.queues = rig.server.config.queues = 1;
	rig.queue.port = &rig.server;
	rig.clock.gap_limit = UINT64_MAX;
	for (unsigned int id = 0; id < STREAMS; id++)
		make_stream(id, id % 2 == 0, 10 * id);
	answers(1, 1);
	answers(3, 1 | 4);
}

static void rig_free(void)
{
	for (unsigned int id = 0; id < STREAMS; id++) {
		frame_set_free(&rig.streams[id].frames);
		free(rig.arrived[id]);
	}
}

/* Frame `number` of a stream comes, as it was sent but for what a NAT made of its source. */
static void comes(unsigned int id, uint64_t number, const uint8_t *source, uint16_t port)
{
	const struct frame_set *set = &rig.streams[id].frames;
	struct frame_cursor at = frame_cursor_at(set, number);
	struct signature signature = {.magic = SIGNATURE_MAGIC, .trial = TRIAL, .seq = (uint32_t)number,
				      .stream = (uint8_t)(id | (number % 3 == 0 ? SIGNATURE_SAMPLED : 0)),
				      .scheduled = (uint32_t)number * 17, .lateness = (uint16_t)(number * 5)};
	uint8_t buffer[FRONT + ROOM] = {0}, *bytes = buffer + FRONT;
	const struct template *template = frame_write(set, &at, bytes);

	memcpy(bytes + template->signature, &signature, sizeof(signature));
	if (source != NULL)
		memcpy(bytes + (rig.ipv6 ? IP + 20 : IP + 12), source, 4);
	if (port != 0)
		word_put(bytes + tcp_at(), port);
	seq_record(rig.arrived[id], number);
	answers_note(&rig.streams[id], bytes, template->signature);
}

static struct signature signature_of(uint32_t sent)
{
	struct signature signature;

	memcpy(&signature, wire.frame[sent] + tcp_at() + OPTION, sizeof(signature));
	return signature;
}

static void check_counts(unsigned int id, uint64_t due, uint64_t sent, uint64_t refused)
{
	const struct stream *stream = &rig.streams[id];

	CHECK_EQUAL(stream->pacer.frames, due);
	CHECK_EQUAL(stream->sent, sent);
	CHECK_EQUAL(stream->refused, refused);
	CHECK_EQUAL(answers_done(stream), due == sent + refused);
}

/* ---- tests */

static void check_frame(uint32_t sent, unsigned int id, uint64_t number, const uint8_t *to, uint16_t port)
{
	struct signature signature = signature_of(sent);
	const uint8_t *frame = wire.frame[sent];
	size_t tcp = tcp_at();

	CHECK_EQUAL(wire.length[sent], tcp + 36 + 10 * id);
	CHECK_EQUAL(signature.magic, SIGNATURE_MAGIC);
	CHECK_EQUAL(signature.trial, TRIAL);
	CHECK_EQUAL(signature.stream, id | (number % 3 == 0 ? SIGNATURE_SAMPLED : 0));
	CHECK_EQUAL(signature.seq, (uint32_t)number);
	CHECK_EQUAL(signature.scheduled, (uint32_t)number * 17);
	CHECK_EQUAL(signature.lateness, (uint16_t)(number * 5));
	CHECK(memcmp(frame + (rig.ipv6 ? IP + 36 : IP + 16), to, 4) == 0);
	CHECK_EQUAL(window_get(frame + tcp + 2, 2), port);
	CHECK_EQUAL(window_get(frame + tcp + 4, 4), (uint32_t)(number << SHIFT));
	for (size_t at = tcp + 36; at < wire.length[sent]; at++)
		CHECK_EQUAL(frame[at], pattern_byte(at));
	if (!rig.ipv6)
		CHECK_EQUAL(words_sum(frame + IP, 20, 0), UINT16_MAX);
	CHECK_EQUAL(tcp_sum(frame, wire.length[sent]), UINT16_MAX);
}

/* In order, with gaps, and from far away in the numbers: to where each came from, and right in all sums. */
static void test_answers_of_what_came(bool ipv6)
{
	static const uint64_t numbers[] = {0, 1, 2, 5, 4, 1000, 1001, 123456789, UINT32_MAX, UINT32_MAX + 9ULL};
	const uint32_t count = sizeof(numbers) / sizeof(numbers[0]);

	rig_make(ipv6);
	for (uint32_t at = 0; at < count; at++)
		comes(0, numbers[at], (const uint8_t[]){10, 0, (uint8_t)at, 0xff}, (uint16_t)(40000 + at));
	check_counts(1, count, 0, 0);
	CHECK_EQUAL(answers_send(&rig.queue, &rig.clock), count);
	check_counts(1, count, count, 0);
	for (uint32_t at = 0; at < count; at++)
		check_frame(at, 1, numbers[at], (const uint8_t[]){10, 0, (uint8_t)at, 0xff}, (uint16_t)(40000 + at));
	CHECK_EQUAL(rig.streams[1].sent_bytes, count * (tcp_at() + 46U + FCS_BYTES));
	CHECK(rig.streams[1].first_sent != 0 && rig.streams[1].first_sent <= rig.streams[1].last_sent);
	rig_free();
}

static void test_duplicates_are_not_answered(void)
{
	rig_make(false);
	for (uint64_t number = 0; number < 10; number++)
		comes(0, number, NULL, 0);
	comes(0, 3, NULL, 0);
	comes(0, 9, NULL, 0);
	CHECK_EQUAL(answers_send(&rig.queue, &rig.clock), 10);
	check_counts(1, 10, 10, 0);
	CHECK_EQUAL(rig.arrived[0]->duplicated, 2);
	rig_free();
}

/* Once, whichever of the two comes last; and to where that came from. */
static void test_answer_of_two(void)
{
	static const uint8_t early[] = {1, 1, 1, 1}, late[] = {2, 2, 2, 2};

	rig_make(false);
	rig.streams[0].answered_by = 1 << 3;
	comes(0, 0, early, 0);
	comes(0, 1, early, 0);
	comes(2, 2, early, 0);
	check_counts(3, 0, 0, 0);
	comes(2, 0, late, 0);
	comes(2, 0, late, 0);
	comes(0, 2, late, 0);
	CHECK_EQUAL(answers_send(&rig.queue, &rig.clock), 2);
	check_counts(3, 2, 2, 0);
	check_frame(0, 3, 0, late, 1024);
	check_frame(1, 3, 2, late, 1026);
	rig_free();
}

/* Two steps that are due at once leave in the order of the conversations. */
static void test_order(void)
{
	rig_make(false);
	for (uint64_t number = 0; number < 100; number++) {
		comes(2, number, NULL, 0);
		comes(0, number, NULL, 0);
	}
	wire.takes = 7; /* what a driver does not take is written again */
	while (rig.queue.count > 0)
		CHECK(answers_send(&rig.queue, &rig.clock) > 0);
	CHECK_EQUAL(wire.sent, 200);
	for (uint32_t at = 0; at < wire.sent; at++)
		check_frame(at, at % 2 == 0 ? 1 : 3, at / 2, rig.streams[0].frames.template[0]->bytes + IP + 12,
			    (uint16_t)(1024 + at / 2));
	rig_free();
}

static void test_full_ring(void)
{
	rig_make(false);
	wire.room = 0;
	for (uint64_t number = 0; number < MOST_WAITING + 5; number++)
		comes(0, number, NULL, 0);
	CHECK_EQUAL(answers_send(&rig.queue, &rig.clock), 0);
	check_counts(1, MOST_WAITING + 5, 0, 5);
	wire.room = 3;
	CHECK_EQUAL(answers_send(&rig.queue, &rig.clock), 3);
	comes(0, MOST_WAITING + 5, NULL, 0);
	check_counts(1, MOST_WAITING + 6, 3, 5);
	wire.room = BURST_FRAMES;
	CHECK_EQUAL(answers_send(&rig.queue, &rig.clock), MOST_WAITING - 2);
	check_counts(1, MOST_WAITING + 6, MOST_WAITING + 1, 5);
	CHECK_EQUAL(signature_of(MOST_WAITING - 1).seq, MOST_WAITING - 1);
	CHECK_EQUAL(signature_of(MOST_WAITING).seq, MOST_WAITING + 5);
	rig_free();
}

static void test_ring_that_went(void)
{
	rig_make(false);
	for (uint64_t number = 0; number < 10; number++)
		comes(0, number, NULL, 0);
	rig.server.left = true;
	CHECK_EQUAL(answers_send(&rig.queue, &rig.clock), 0);
	check_counts(1, 10, 0, 10);
	rig_free();
}

/* A flow keeps its queue: blocks of 32 take turns, as those of other streams do. */
static void test_several_queues(void)
{
	rig_make(false);
	rig.server.config.queues = 3;
	for (uint64_t number = 0; number < 1000; number += number % 5 + 1)
		comes(0, number, NULL, 0);
	CHECK_EQUAL(answers_send(&rig.queue, &rig.clock), rig.streams[1].pacer.frames);
	for (uint32_t at = 0; at < wire.sent; at++)
		CHECK_EQUAL(wire.queue[at], signature_of(at).seq / BURST_FRAMES % 3);
	rig_free();
}

/* Headers were taken off on the way, and the address with them. */
static void test_what_is_learned_is_gone(void)
{
	uint8_t bytes[ROOM] = {0};
	struct signature signature = {.magic = SIGNATURE_MAGIC, .trial = TRIAL};

	rig_make(false);
	for (size_t place = 29; place <= 30; place++, signature.seq++) {
		memcpy(bytes + place, &signature, sizeof(signature));
		seq_record(rig.arrived[0], signature.seq);
		answers_note(&rig.streams[0], bytes, place);
	}
	check_counts(1, 1, 0, 0);
	rig_free();
}

/*
 * Those that came so far are sent a time after they were opened, however late that was; the others have failed before,
 * and those that were never opened are not due.
 */
static void test_sent_after_others(void)
{
	struct stream *opener = &rig.streams[0], *stream = &rig.streams[1];
	uint64_t came = 0, start, opened[4];

	rig_make(false);
	start = rte_rdtsc() - 2000000;
	for (unsigned int at = 0; at < 4; at++)
		opened[at] = start + at * 1000;
	opener->answered_by = 0;
	opener->came = calloc(4, sizeof(uint64_t));
	opener->came_room = 200;
	opener->opened = opened;
	opener->sent = 200;
	opener->pacer.frames = 300;
	stream->answers = 0;
	stream->after = opener;
	stream->opener = opener;
	stream->delay = 500000;
	stream->sample_every = 3;
	stream->timebase.hz = 1000000000;
	pacer_init(&stream->pacer, 1000000000, 1000000, 300, 1000000, 1000);
	for (uint64_t number = 0; number < 250; number += 1 + number % 4 / 3)
		comes(0, number, NULL, 0);
	opened[3] += UINT64_C(1000000000000);
	answers_follow(stream, &rig.clock);
	CHECK_EQUAL(stream->pacer.next, 128); /* the later ones were opened just now, or are being opened */
	opened[3] -= UINT64_C(1000000000000);
	answers_follow(stream, &rig.clock);
	CHECK_EQUAL(stream->pacer.next, 192);
	opener->pacer.next = opener->pacer.frames;
	opener->last_sent = start + 4000;
	answers_follow(stream, &rig.clock);
	CHECK_EQUAL(stream->pacer.frames, 200);
	CHECK(stream->longest_lateness >= 1000000);
	CHECK(!answers_done(stream));
	CHECK_EQUAL(answers_send(&rig.queue, &rig.clock), 200 - stream->failed_before);
	CHECK(answers_done(stream));
	CHECK_EQUAL(stream->failed_before, 49);
	for (uint64_t number = 0; number < 200; number += 1 + number % 4 / 3, came++) {
		struct signature signature = signature_of((uint32_t)came);

		CHECK_EQUAL(signature.seq, number);
		CHECK_EQUAL(signature.scheduled, (uint32_t)(start + 1000 * (number / OPENED_EVERY + 1) + 500000));
		CHECK_EQUAL(signature.stream, 1 | (number % 3 == 0 ? SIGNATURE_SAMPLED : 0));
		CHECK(number % 3 == 0 ? lateness_decode(signature.lateness) > 790000 : signature.lateness == 0);
		CHECK_EQUAL(tcp_sum(wire.frame[came], wire.length[came]), UINT16_MAX);
	}
	free(rig.streams[0].came);
	rig_free();
}

int main(void)
{
	test_sent_after_others();
	test_answers_of_what_came(false);
	test_answers_of_what_came(true);
	test_duplicates_are_not_answered();
	test_answer_of_two();
	test_order();
	test_full_ring();
	test_ring_that_went();
	test_several_queues();
	test_what_is_learned_is_gone();
	return 0;
}
