/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_cycles.h>

#include "answer.h"
#include "forward.h"
#include "receive.h"

enum {
	MAX_ROUNDS = 8, /* bursts taken in one turn: drains eight times faster than it is sent */
	CONTENT_EVERY = 16, /* every so many latency samples the whole of a long frame is compared */
	RECENT_TRIALS = 4,
	ETHERTYPE_OFFSET = 12,
};

/* As they stand in memory on a little-endian machine. */
#define TYPE_ARP 0x0608
#define TYPE_IPV6 0xdd86
#define TYPE_LLDP 0xcc88

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ethertypes and signatures assume it");

static bool add_histograms(struct track *track, bool intervals)
{
	track->latency = hist_new();
	track->latency_raw = hist_new();
	if (intervals) {
		track->retired = hist_new();
		track->total = hist_new();
	}
	return track->latency != NULL && track->latency_raw != NULL &&
	       (!intervals || (track->retired != NULL && track->total != NULL));
}

struct track *track_new(struct stream *stream, bool latency, bool intervals)
{
	struct track *track = calloc(1, sizeof(*track));

	if (track == NULL)
		return NULL;
	track->stream = stream;
	track->window = seq_new(stream->frames.fields != 0 ? stream->frames.combinations : 1);
	if (track->window != NULL && (!latency || add_histograms(track, intervals)))
		return track;
	track_free(track);
	return NULL;
}

bool track_keep_gaps(struct track *track, uint64_t limit)
{
	track->gaps = calloc(1, sizeof(*track->gaps));
	if (track->gaps != NULL)
		track->gaps->limit = limit;
	return track->gaps != NULL;
}

void track_begin(struct track *track, uint64_t start, const struct poll_clock *clock)
{
	if (track->gaps == NULL)
		return;
	track->gaps->due = track->gaps->at = start;
	track->gaps->clock = clock;
}

void track_free(struct track *track)
{
	while (track != NULL) {
		struct track *next = track->next;

		free(track->window);
		free(track->latency);
		free(track->latency_raw);
		free(track->retired);
		free(track->total);
		free(track->gaps);
		free(track);
		track = next;
	}
}

static void count_foreign(struct foreign *foreign, const uint8_t *bytes)
{
	static const uint8_t bridge_group[] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x00};
	uint16_t type;

	memcpy(&type, bytes + ETHERTYPE_OFFSET, sizeof(type));
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

/* Has the frame the end that it was sent with? Short ones may have been padded to the least that Ethernet has. */
static inline bool ends_right(const struct template *template, struct frame frame, size_t place)
{
	size_t behind = frame.whole - place, wanted = (size_t)template->length - template->signature;

	return likely(behind == wanted) || (behind > wanted && frame.whole == MIN_FRAME_BYTES);
}

static inline const struct signature *signature_at(const uint8_t *bytes, size_t place)
{
	return (const void *)(bytes + place);
}

static inline struct track *track_at(const struct port *port, struct frame frame, size_t place)
{
	uint8_t stream = signature_at(frame.bytes, place)->stream;

	return track_of(port->tracks[(stream & ~SIGNATURE_SAMPLED) % MAX_STREAMS], frame.bytes);
}

/*
 * Bytes of a frame may happen to look like a signature, in front of its own: another place from which on it is as long
 * as it was sent; 0: there is none.
 */
static size_t better_place(const struct port *port, struct frame frame, uint8_t trial)
{
	size_t place = 0;

	while ((place = place_behind(frame.bytes, frame.length, trial, place)) != 0) {
		const struct track *track = track_at(port, frame, place);
		uint64_t seq;

		if (track == NULL)
			continue;
		seq = seq_expand(track->window, signature_at(frame.bytes, place)->seq);
		if (ends_right(frame_set_at(&track->stream->frames, seq), frame, place))
			return place;
	}
	return 0;
}

/* Where there is no room for another, only longer ones are kept from then on. */
static void keep_longer(struct gap_log *log)
{
	unsigned int kept = 0;

	log->limit *= 2;
	for (unsigned int at = 0; at < log->count; at++) {
		const struct gap *gap = &log->kept[at];

		if (gap->due_before - gap->due_after > log->limit || gap->at_before - gap->at_after > log->limit)
			log->kept[kept++] = *gap;
	}
	log->count = kept;
}

/* Later frames that came earlier are `due` already: a late one ends no gap of theirs, and shows that all is not blocked. */
static void note_arrival(struct gap_log *log, uint64_t missing, uint64_t due, uint64_t now)
{
	bool late = (int64_t)(due - log->due) < 0;

	while (log->count == MOST_GAPS)
		keep_longer(log);
	if (now - log->at > log->limit || (!late && due - log->due > log->limit))
		log->kept[log->count++] = (struct gap){
			.due_after = log->due,
			.due_before = late ? log->due : due,
			.at_after = log->at,
			.at_before = now,
			.missing = missing,
			.absent = log->clock->absent_cycles - log->absent,
		};
	log->due = late ? log->due : due;
	log->at = now;
	log->absent = log->clock->absent_cycles;
}

/* The frame with this number came, whatever is in it. */
static inline void count_number(struct track *track, struct frame frame, const struct signature *signature, uint64_t seq,
				uint64_t cycles)
{
	const struct frame_set *frames = &track->stream->frames;
	unsigned int shift = track->stream->timebase.shift;
	uint64_t due = cycles - ((uint64_t)((uint32_t)(cycles >> shift) - signature->scheduled) << shift);

	if (likely(seq == track->window->next && seq != 0)) {
		frame_next(frames, &track->due);
	} else {
		note_gap(track, seq, due);
		if (seq >= track->window->next)
			track->due = frame_cursor_at(frames, seq + 1);
	}
	if (unlikely(track->gaps != NULL))
		note_arrival(track->gaps, seq > track->window->next ? seq - track->window->next : 0, due, cycles);
	track->bytes += (uint64_t)frame.whole + FCS_BYTES;
	track->last_due = due;
	seq_record(track->window, seq);
}

/* A frame of this trial and stream. False, and nothing is counted, where it has not the end that it was sent with. */
static inline bool count_ours(struct track *track, struct frame frame, size_t place, uint64_t cycles)
{
	const struct signature *signature = signature_at(frame.bytes, place);
	const struct frame_set *frames = &track->stream->frames;
	uint64_t seq = seq_expand(track->window, signature->seq);
	bool sampled = signature->stream & SIGNATURE_SAMPLED;
	const struct frame_cursor *at = &track->due;
	const struct template *template;
	struct frame_cursor elsewhere;
	bool whole;

	if (unlikely(seq != track->window->next || seq == 0)) {
		elsewhere = frame_cursor_at(frames, seq);
		at = &elsewhere;
	}
	template = frame_template(frames, at);
	if (unlikely(!ends_right(template, frame, place)))
		return false;
	whole = unlikely(sampled) && template->length > MAX_COMPARED && track->samples % CONTENT_EVERY == 0;
	if (likely(frame.length == frame.whole) &&
	    unlikely(whole || !frame_is_as_sent(frames, at, frame.bytes, place)))
		track->corrupted += !frame_matches(frames, at, frame.bytes, place, whole);
	count_number(track, frame, signature, seq, cycles);
	if (sampled) {
		track->samples++;
		if (track->latency != NULL)
			sample(track, signature, (uint32_t)(cycles >> track->stream->timebase.shift));
	}
	return true;
}

/* One that is too short or too long; it says no latency. */
static void count_wrong_length(struct track *track, struct frame frame, size_t place, uint64_t cycles)
{
	const struct signature *signature = signature_at(frame.bytes, place);
	uint64_t seq = seq_expand(track->window, signature->seq);
	const struct template *template = frame_set_at(&track->stream->frames, seq);

	track->corrupted++;
	track->truncated += frame.whole - place < (size_t)template->length - template->signature;
	count_number(track, frame, signature, seq, cycles);
}

/* Of a trial whose frames may still be under way: a host's frames look like one of any trial more often. */
static bool is_recent(struct frame frame, size_t place, uint8_t trial)
{
	return (uint8_t)(trial - signature_at(frame.bytes, place)->trial) <= RECENT_TRIALS;
}

/* The stream that ends here and begins with these addresses and type: it lost its signature. NULL: there is none. */
static struct track *track_of_start(const struct port *port, const uint8_t *bytes)
{
	for (int at = 0; at < MAX_STREAMS && port->config.role == ROLE_ENDPOINT; at++) {
		struct track *track = port->tracks[at];

		if (track != NULL && memcmp(track->stream->frames.template[0]->bytes, bytes, RTE_ETHER_HDR_LEN) == 0)
			return track;
	}
	return NULL;
}

static void count_misfit(struct port *port, struct frame frame, size_t place, uint8_t trial)
{
	bool ours = place != 0 && (port->host == NULL || is_recent(frame, place, trial));
	struct track *cut;

	if (!ours && port->host != NULL && host_take(port->host, frame.bytes, frame.length, frame.whole))
		return;
	if (ours)
		port->foreign.other_trial++;
	else if ((cut = track_of_start(port, frame.bytes)) != NULL)
		cut->corrupted++;
	else
		count_foreign(&port->foreign, frame.bytes);
}

/* It came to a port at which its stream does not end: back to its sender, or to a third one. */
static void count_misdirected(struct port *port, struct frame frame, size_t place)
{
	port->foreign.misdirected++;
	port->misdirected[(signature_at(frame.bytes, place)->stream & ~SIGNATURE_SAMPLED) % MAX_STREAMS]++;
}

/* Returns where the signature of a frame that was counted stands; 0: of no stream that ends here. */
static __rte_always_inline size_t receive_frame(struct port *port, struct frame frame, uint8_t trial, uint64_t now)
{
	size_t place = signature_layout(&port->places, frame.bytes, frame.length, trial), better;
	struct track *track;

	if (unlikely(place == 0 || signature_at(frame.bytes, place)->trial != trial)) {
		count_misfit(port, frame, place, trial);
		return 0;
	}
	track = track_at(port, frame, place);
	if (likely(track != NULL && count_ours(track, frame, place, now)))
		return place;
	better = better_place(port, frame, trial);
	if (better != 0) {
		(void)count_ours(track_at(port, frame, better), frame, better, now);
		return better;
	}
	if (track != NULL) {
		count_wrong_length(track, frame, place, now);
		return place;
	}
	count_misdirected(port, frame, place);
	return 0;
}

/* At the end of a conversation's frames: a function of its own, so that other streams' frames do not pay for it. */
static __rte_noinline void receive_answered(struct port *port, struct frame frame, uint8_t trial, uint64_t now)
{
	size_t place = receive_frame(port, frame, trial, now);
	struct track *track = place != 0 ? track_at(port, frame, place) : NULL;

	if (track != NULL && track->stream->arrived != NULL)
		answers_note(track->stream, frame.bytes, place);
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

static uint64_t foreign_frames(const struct foreign *foreign)
{
	return foreign->other_trial + foreign->misdirected + foreign->arp + foreign->ipv6 + foreign->lldp + foreign->stp +
	       foreign->other;
}

uint32_t receive_turn(struct port *port, uint8_t trial, struct poll_clock *clock)
{
	uint64_t foreign = unlikely(port->leader != NULL) ? foreign_frames(&port->foreign) : 0;
	uint32_t received = 0;

	for (uint16_t queue = 0; queue < port->config.queues; queue++) {
		for (int round = 0; round < MAX_ROUNDS; round++) {
			struct burst burst;
			uint64_t now;

			if (port_take(port, queue, &burst, rte_rdtsc()) == 0)
				break;
			now = clock_look(clock);
			if (unlikely(port->answered))
				for (uint16_t at = 0; at < burst.count; at++)
					receive_answered(port, frame_at(&burst, at), trial, now);
			else
				for (uint16_t at = 0; at < burst.count; at++)
					(void)receive_frame(port, frame_at(&burst, at), trial, now);
			port_give_back(port, queue, &burst);
			received += burst.count;
			if (burst.count < BURST_FRAMES)
				break;
		}
	}
	if (received == 0)
		publish(port);
	else if (unlikely(port->leader != NULL) && port->config.learns &&
		 received > foreign_frames(&port->foreign) - foreign)
		port->leader->sender = port;
	return received;
}

/* True when the frame was the host's behind the port. */
static bool pass_on(struct port *port, struct frame frame)
{
	size_t place;

	if (port->host == NULL)
		return false;
	place = signature_layout(&port->places, frame.bytes, frame.length, port->trial);
	if (place != 0 && is_recent(frame, place, port->trial))
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
