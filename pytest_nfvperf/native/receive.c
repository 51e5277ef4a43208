/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_cycles.h>

#include "host.h"
#include "receive.h"
#include "signature.h"
#include "template.h"
#include "track.h"

enum {
	MAX_ROUNDS = 8, /* bursts taken in one turn: drains eight times faster than it is sent */
	CONTENT_EVERY = 16, /* every so many latency samples the whole frame is compared */
};

/* As they stand in memory on a little-endian machine. */
#define TYPE_IPV4 0x0008
#define TYPE_VLAN 0x0081
#define TYPE_ARP 0x0608
#define TYPE_IPV6 0xdd86
#define TYPE_LLDP 0xcc88

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ethertypes and signatures assume it");

static uint16_t raw16(const uint8_t *bytes)
{
	uint16_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static void count_foreign(struct foreign *foreign, const uint8_t *bytes, uint16_t type)
{
	static const uint8_t bridge_group[] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x00};

	if (type == TYPE_ARP)
		foreign->arp++;
	else if (type == TYPE_IPV6)
		foreign->ipv6++;
	else if (type == TYPE_LLDP)
		foreign->lldp++;
	else if (memcmp(bytes, bridge_group, sizeof(bridge_group)) == 0)
		foreign->stp++;
	else
		foreign->other++;
}

static void sample(struct track *track, const struct signature *signature, uint32_t now)
{
	const struct timebase *base = &track->stream->timebase;
	uint32_t latency = now - signature->scheduled;
	uint64_t late = lateness_decode(signature->lateness);

	/* Two roundings of the same moment may differ by a unit. */
	if ((int32_t)latency < 0 && latency > UINT32_MAX - 16)
		latency = 0;
	hist_record(track->latency, units_to_ns(base, latency));
	hist_record(track->latency_raw, units_to_ns(base, latency > late ? latency - late : 0));
}

/* A frame that was received: its bytes, how many lie there, and how many the whole of it has. */
struct frame {
	const uint8_t *bytes;
	uint16_t length;
	uint16_t whole;
};

static void check_content(struct track *track, struct frame frame, uint64_t seq, size_t payload)
{
	if (frame.length == frame.whole &&
	    !frame_matches(&track->stream->frames, seq, frame.bytes, frame.length, payload))
		track->corrupted++;
}

/* Frames are missing before this one, or it is the first; `due` is its own time. */
static void note_gap(struct track *track, uint64_t seq, uint64_t due)
{
	uint64_t missing = seq - track->window->next;

	if (track->window->received == 0) {
		track->first_due = due;
	} else if (seq > track->window->next && missing > track->gap_frames) {
		track->gap_frames = missing;
		track->gap_after = track->last_due;
		track->gap_before = due;
	}
}

/* Counts the number; returns where the frame with it stands in mix and flows. */
static inline struct frame_cursor count_number(struct track *track, uint64_t seq, uint64_t due)
{
	const struct frame_set *frames = &track->stream->frames;
	struct frame_cursor at = track->due;

	if (likely(seq == track->window->next && seq != 0)) {
		frame_next(frames, &track->due);
	} else {
		note_gap(track, seq, due);
		at = frame_cursor_at(frames, seq);
		if (seq >= track->window->next)
			track->due = frame_cursor_at(frames, seq + 1);
	}
	track->last_due = due;
	seq_record(track->window, seq);
	return at;
}

/* A frame of this trial and stream. */
static inline void count_ours(struct track *track, struct frame frame, const struct signature *signature, size_t payload,
			      uint64_t cycles)
{
	const struct frame_set *frames = &track->stream->frames;
	unsigned int shift = track->stream->timebase.shift;
	uint32_t now = (uint32_t)(cycles >> shift);
	uint64_t due = cycles - ((uint64_t)(now - signature->scheduled) << shift);
	uint64_t seq = seq_expand(track->window, signature->seq);
	struct frame_cursor at = count_number(track, seq, due);
	const struct template *template = frames->template[frames->order[at.order]];
	uint16_t length = (uint16_t)__builtin_bswap16(raw16((const uint8_t *)signature - UDP_HEADER_BYTES +
							    UDP_LENGTH_OFFSET));

	track->bytes += (uint64_t)frame.whole + FCS_BYTES;
	if (unlikely(length != template->udp_length || frame.whole < payload - UDP_HEADER_BYTES + length)) {
		track->corrupted++;
		track->truncated += length == template->udp_length;
		return;
	}
	if (likely(template->lines != 0 && frame.length == frame.whole) &&
	    unlikely(!frame_is_as_sent(frames, &at, (const uint8_t *)signature - frames->signature)))
		check_content(track, frame, seq, payload);
	if (!(signature->stream & SIGNATURE_SAMPLED))
		return;
	if (track->latency != NULL)
		sample(track, signature, now);
	if (track->samples++ % CONTENT_EVERY == 0 && template->lines == 0)
		check_content(track, frame, seq, payload);
}

static inline const struct signature *signature_at(const uint8_t *bytes, size_t payload)
{
	return (const void *)(bytes + payload);
}

/* Where the signature stands in a frame that is UDP over IPv4, as most are, else 0. */
static inline size_t payload_over_ipv4(const uint8_t *bytes, uint16_t type, uint16_t length)
{
	size_t ipv4 = ETHERTYPE_OFFSET + 2;
	size_t payload;

	if (unlikely(type == TYPE_VLAN)) {
		type = raw16(bytes + ETHERTYPE_OFFSET + 4);
		ipv4 += 4;
	}
	payload = ipv4 + IPV4_HEADER_BYTES + UDP_HEADER_BYTES;
	if (type != TYPE_IPV4 || length < payload + sizeof(struct signature))
		return 0;
	return bytes[ipv4] == 0x45 && bytes[ipv4 + 9] == PROTOCOL_UDP ? payload : 0;
}

/* The same over IPv6 and in a VXLAN. */
static size_t payload_elsewhere(const uint8_t *bytes, uint16_t length)
{
	struct layout layout;

	if (!layout_of(bytes, length, &layout) || length < layout.payload + sizeof(struct signature))
		return 0;
	return signature_at(bytes, layout.payload)->magic == SIGNATURE_MAGIC ? layout.payload : 0;
}

/* Where the signature stands in a frame of any generator of ours, else 0. */
static inline size_t payload_of(const uint8_t *bytes, uint16_t type, uint16_t length)
{
	size_t payload = payload_over_ipv4(bytes, type, length);

	if (unlikely(payload == 0 || signature_at(bytes, payload)->magic != SIGNATURE_MAGIC))
		return payload_elsewhere(bytes, length);
	return payload;
}

static inline void receive_frame(struct port *port, struct frame frame, uint8_t trial, uint64_t now)
{
	uint16_t type = raw16(frame.bytes + ETHERTYPE_OFFSET);
	size_t payload = payload_of(frame.bytes, type, frame.length);
	const struct signature *signature = signature_at(frame.bytes, payload);
	struct track *track;

	if (unlikely(payload == 0)) {
		if (port->host == NULL || !host_take(port->host, frame.bytes, frame.length, frame.whole))
			count_foreign(&port->foreign, frame.bytes, type);
		return;
	}
	if (unlikely(signature->trial != trial)) {
		port->foreign.other_trial++;
		return;
	}
	track = track_of(port->tracks[(signature->stream & ~SIGNATURE_SAMPLED) % MAX_STREAMS], frame.bytes);
	if (unlikely(track == NULL)) {
		port->foreign.misdirected++;
		return;
	}
	count_ours(track, frame, signature, payload, now);
}

static struct frame frame_at(const struct burst *burst, uint16_t at)
{
	return (struct frame){burst->bytes[at], burst->length[at], burst->whole[at]};
}

/* Lets other threads see how far the streams are, without making every count atomic. */
static void publish(struct port *port)
{
	for (int at = 0; at < MAX_STREAMS; at++) {
		struct track *track = port->tracks[at];

		if (track != NULL)
			__atomic_store_n(&track->published, track->window->received, __ATOMIC_RELEASE);
	}
}

uint32_t receive_turn(struct port *port, uint8_t trial, struct poll_clock *clock)
{
	uint32_t received = 0;

	for (uint16_t queue = 0; queue < port->config.queues; queue++) {
		for (int round = 0; round < MAX_ROUNDS; round++) {
			uint64_t began = rte_rdtsc();
			struct burst burst;
			uint64_t now;

			if (port_take(port, queue, &burst, began) == 0)
				break;
			now = clock_look(clock);
			clock_burst(clock, &clock->rx, began, now, burst.count);
			for (uint16_t at = 0; at < burst.count; at++)
				receive_frame(port, frame_at(&burst, at), trial, now);
			port_give_back(port, queue, &burst);
			received += burst.count;
			if (burst.count < BURST_FRAMES)
				break;
		}
	}
	if (received == 0)
		publish(port);
	return received;
}

/* True when the frame was the host's behind the port. */
static bool pass_on(struct port *port, struct frame frame)
{
	if (port->host == NULL || payload_of(frame.bytes, raw16(frame.bytes + ETHERTYPE_OFFSET), frame.length) != 0)
		return false;
	return host_take(port->host, frame.bytes, frame.length, frame.whole);
}

uint64_t receive_flush(struct port *port)
{
	uint64_t flushed = 0;

	for (uint16_t queue = 0; queue < port->config.queues; queue++) {
		/* No more than the ring holds: a sender that never stops must not keep us here. */
		for (unsigned int taken = 0; taken < port->config.rx_descriptors;) {
			struct burst burst;

			if (port_take(port, queue, &burst, rte_rdtsc()) == 0)
				break;
			for (uint16_t at = 0; at < burst.count; at++)
				flushed += !pass_on(port, frame_at(&burst, at));
			port_give_back(port, queue, &burst);
			taken += burst.count;
		}
	}
	return flushed;
}
