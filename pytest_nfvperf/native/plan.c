/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "protocol.h"
#include "windows.h"

enum {
	DEFAULT_SAMPLES_PER_S = 200000,
	/* A virtual CPU's timer tick takes 20-70 us: what falls due in it is sent late and said to be. A
	 * preemption takes milliseconds: what falls due in that is given up. */
	DEFAULT_GAP_LIMIT_NS = 100000,
	SHORTEST_INTERVAL_NS = 10000000,
	DEFAULT_COMPARED_FROM = 14,
	SHORTEST_WINDOW_NS = 1000000,
	MOST_WINDOWS = 100000, /* 64 bytes each and thread, and a row of the answer */
};

#define LATEST_START_NS INT64_C(100000000000000)

struct stream_request {
	const char *tx;
	json_t *rx, *templates, *signatures, *order, *fields, *checksums, *changeable, *balances, *answers;
	json_int_t fps, frames, queue_depth, combinations, compared_from, start_ns, after;
};

/* ---- a stream's frames */

static int nibble(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	return -1;
}

/* Lower-case hex into bytes; the length, or 0 for what is not hex or too long. */
static size_t unhex(const char *hex, uint8_t *bytes, size_t size)
{
	size_t length = strlen(hex) / 2;

	if (strlen(hex) % 2 != 0 || length > size)
		return 0;
	for (size_t at = 0; at < length; at++) {
		int high = nibble(hex[2 * at]);
		int low = nibble(hex[2 * at + 1]);

		if (high < 0 || low < 0)
			return 0;
		bytes[at] = (uint8_t)(high << 4 | low);
	}
	return length;
}

static bool add_templates(struct frame_set *set, const struct stream_request *want, json_t *answer)
{
	uint8_t bytes[MAX_FRAME_BYTES];
	size_t index;
	json_t *item;

	if (json_array_size(want->templates) == 0)
		return answer_error(answer, "bad_template", "a stream needs at least one template");
	if (json_array_size(want->signatures) != json_array_size(want->templates))
		return answer_error(answer, "bad_template", "signatures must have one offset for each template: %zu for %zu",
				    json_array_size(want->signatures), json_array_size(want->templates));
	json_array_foreach(want->templates, index, item) {
		json_int_t signature = json_integer_value(json_array_get(want->signatures, index));
		const char *hex = json_string_value(item);
		size_t length = hex != NULL ? unhex(hex, bytes, sizeof(bytes)) : 0;
		const char *wrong = "not lower-case hex, or too long";

		if (length > 0)
			wrong = frame_set_add(set, bytes, length, signature > 0 ? (size_t)signature : 0);
		if (wrong != NULL)
			return answer_error(answer, "bad_template", "template %zu: %s", index, wrong);
	}
	return true;
}

/* A whole number below 2^64: above JSON's own range as a decimal string. */
static bool wide_number(const json_t *value, uint64_t *number)
{
	const char *text = json_string_value(value);
	char *end;

	if (json_is_integer(value)) {
		*number = (uint64_t)json_integer_value(value);
		return json_integer_value(value) >= 0;
	}
	if (text == NULL || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0';
}

static bool add_field(struct frame_set *set, unsigned int which, json_t *object, json_t *answer)
{
	json_int_t offset, size, shift = 0, bits, count, every = 1, seed = 0, from = 0;
	json_t *first, *step = NULL;
	int random = 0;
	struct field *field = &set->field[which];
	json_error_t error;

	if (json_unpack_ex(object, &error, JSON_STRICT, "{s:I, s:I, s?I, s:I, s:o, s?o, s:I, s?I, s?I, s?b, s?I}", "offset", &offset,
			   "size", &size, "shift", &shift, "bits", &bits, "first", &first, "step", &step, "count", &count,
			   "every", &every, "seed", &seed, "random", &random, "from", &from) != 0)
		return answer_error(answer, "bad_request", "fields[%u]: %s", which, error.text);
	*field = (struct field){.random = random, .seed = (uint32_t)seed, .step = 1};
	if (!wide_number(first, &field->first) || (step != NULL && !wide_number(step, &field->step)))
		return answer_error(answer, "bad_request", "fields[%u]: first and step must be 0 to 2^64 - 1", which);
	if (offset < 0 || offset > MAX_FRAME_BYTES || size < 0 || size > 8 || shift < 0 || shift > 63 || bits < 0 ||
	    bits > 64 || count < 0 || every < 0 || seed < 0 || seed > UINT32_MAX || from > 0 || from < -MAX_FRAME_BYTES)
		return answer_error(answer, "bad_request", "fields[%u]: a number is out of range", which);
	field->offset = (uint16_t)offset;
	field->size = (uint8_t)size;
	field->shift = (uint8_t)shift;
	field->bits = (uint8_t)bits;
	field->count = (uint64_t)count;
	field->every = (uint64_t)every;
	field->from = (int16_t)from;
	return true;
}

/* Indexes below 8 as bits. */
static bool index_bits(const json_t *indexes, uint8_t *bits)
{
	size_t at;
	json_t *item;

	*bits = 0;
	json_array_foreach(indexes, at, item) {
		json_int_t index = json_is_integer(item) ? json_integer_value(item) : -1;

		if (index < 0 || index > 7)
			return false;
		*bits |= (uint8_t)(1U << index);
	}
	return indexes == NULL || json_is_array(indexes);
}

static bool add_checksum(struct frame_set *set, unsigned int which, json_t *object, json_t *answer)
{
	struct checksum *checksum = &set->checksum[which];
	json_t *fields = NULL, *checksums = NULL;
	json_int_t offset, start, end;
	int signature = 0, never_zero = 0;
	const char *kind;
	json_error_t error;

	if (json_unpack_ex(object, &error, JSON_STRICT, "{s:s, s:I, s:I, s:I, s?o, s?o, s?b, s?b}", "kind", &kind, "offset",
			   &offset, "start", &start, "end", &end, "fields", &fields, "checksums", &checksums, "signature",
			   &signature, "never_zero", &never_zero) != 0)
		return answer_error(answer, "bad_request", "checksums[%u]: %s", which, error.text);
	if (strcmp(kind, "internet") != 0 && strcmp(kind, "crc32c") != 0)
		return answer_error(answer, "bad_request", "checksums[%u]: kind must be internet or crc32c, not \"%s\"", which,
				    kind);
	if (offset < 0 || offset > MAX_FRAME_BYTES || start < 0 || start > MAX_FRAME_BYTES || end < 0 || end > MAX_FRAME_BYTES)
		return answer_error(answer, "bad_request", "checksums[%u]: offset, start and end must be within a frame", which);
	*checksum = (struct checksum){.crc32c = kind[0] == 'c', .signature = signature, .never_zero = never_zero,
				      .offset = (uint16_t)offset, .start = (uint16_t)start, .end = (uint16_t)end};
	if (!index_bits(fields, &checksum->fields) || !index_bits(checksums, &checksum->checksums))
		return answer_error(answer, "bad_request", "checksums[%u]: fields and checksums must be lists of indexes", which);
	return true;
}

static bool add_changeable(struct frame_set *set, unsigned int which, json_t *pair, json_t *answer)
{
	json_int_t offset, bytes;
	json_error_t error;

	if (json_unpack_ex(pair, &error, JSON_STRICT, "[I, I]", &offset, &bytes) != 0 || offset < 0 || bytes < 1 ||
	    offset > MAX_FRAME_BYTES || bytes > MAX_FRAME_BYTES)
		return answer_error(answer, "bad_request", "changeable[%u] must be an offset and a number of bytes", which);
	set->changeable[which] = (struct byte_range){(uint16_t)offset, (uint16_t)bytes};
	return true;
}

static bool add_balances(struct frame_set *set, const json_t *balances, json_t *answer)
{
	size_t index;
	json_t *pair;

	if (balances != NULL && json_array_size(balances) != set->templates)
		return answer_error(answer, "bad_template", "balances must have one pair for each template: %zu for %u",
				    json_array_size(balances), set->templates);
	json_array_foreach(balances, index, pair) {
		json_int_t offset;
		int never_zero;
		json_error_t error;
		const char *wrong;

		if (json_unpack_ex(pair, &error, JSON_STRICT, "[I, b]", &offset, &never_zero) != 0 || offset < 0)
			return answer_error(answer, "bad_request",
					    "balances[%zu] must be an offset and whether it is never zero", index);
		wrong = frame_set_balance(set, (uint32_t)index, (size_t)offset, never_zero);
		if (wrong != NULL)
			return answer_error(answer, "bad_template", "%s", wrong);
	}
	return true;
}

typedef bool add_fn(struct frame_set *set, unsigned int which, json_t *object, json_t *answer);

static bool add_all(struct frame_set *set, const char *name, json_t *list, unsigned int most, unsigned int *count,
		    add_fn *add, json_t *answer)
{
	size_t index;
	json_t *item;

	if (list != NULL && !json_is_array(list))
		return answer_error(answer, "bad_request", "%s must be a list", name);
	if (json_array_size(list) > most)
		return answer_error(answer, "bad_request", "a stream has at most %u %s, not %zu", most, name,
				    json_array_size(list));
	json_array_foreach(list, index, item)
		if (!add(set, (unsigned int)index, item, answer))
			return false;
	*count = (unsigned int)json_array_size(list);
	return true;
}

static bool finish(struct frame_set *set, const struct stream_request *want, json_t *answer)
{
	size_t length = want->order != NULL ? json_array_size(want->order) : 1;
	uint16_t *order = calloc(length + 1, sizeof(*order));
	const char *wrong = order == NULL ? "out of memory" : NULL;

	for (size_t at = 0; want->order != NULL && wrong == NULL && at < length; at++) {
		json_t *item = json_array_get(want->order, at);
		json_int_t index = json_is_integer(item) ? json_integer_value(item) : -1;

		if (index < 0 || index >= (json_int_t)set->templates)
			wrong = "the order names a template that is not there";
		order[at] = (uint16_t)index;
	}
	if (wrong == NULL)
		wrong = frame_set_finish(set, order, length);
	free(order);
	return wrong == NULL || answer_error(answer, "bad_template", "%s", wrong);
}

/* False, with the answer filled, when they cannot be sent. What was made of them until then is freed with the set. */
static bool plan_frames(struct frame_set *set, const struct stream_request *want, json_t *answer)
{
	if (want->combinations < 1)
		return answer_error(answer, "bad_request", "combinations must be 1 or more");
	if (want->compared_from < 0 || want->compared_from > MAX_FRAME_BYTES)
		return answer_error(answer, "bad_request", "compared_from must be an offset into the frame");
	set->combinations = (uint64_t)want->combinations;
	set->compared_from = (uint16_t)want->compared_from;
	return add_templates(set, want, answer) && add_balances(set, want->balances, answer) &&
	       add_all(set, "fields", want->fields, MAX_FIELDS, &set->fields, add_field, answer) &&
	       add_all(set, "checksums", want->checksums, MAX_CHECKSUMS, &set->checksums, add_checksum, answer) &&
	       add_all(set, "changeable", want->changeable, MAX_CHANGEABLE, &set->changeables, add_changeable, answer) &&
	       finish(set, want, answer);
}

/* ---- streams */

static struct port *endpoint(struct engine *engine, const char *name, json_t *answer)
{
	struct port *port = port_find(&engine->ports, name);

	if (port == NULL)
		port = port_leader(&engine->ports, name);
	if (port == NULL)
		answer_error(answer, "unknown_port", "no port \"%s\" is attached", name);
	else if (port->config.role != ROLE_ENDPOINT)
		answer_error(answer, "bad_request", "port \"%s\" is not an endpoint", name);
	else
		return port;
	return NULL;
}

static bool check_load(const struct engine *engine, const struct stream_request *want, json_t *answer)
{
	if (want->fps < 1 || (uint64_t)want->fps >= engine->timebase.hz)
		return answer_error(answer, "bad_request", "fps must be 1 to below the TSC's frequency");
	/* 32.32 fixed point times the frame's index must fit 128 bits, and a day at 100 Mpps does. */
	if (want->frames < 1 || want->frames > INT64_C(10000000000000))
		return answer_error(answer, "bad_request", "frames must be 1..10^13");
	if (want->start_ns < 0 || want->start_ns > LATEST_START_NS)
		return answer_error(answer, "bad_request", "start_ns must be 0..10^14");
	return true;
}

static bool has_no_load(const struct stream_request *want, json_t *answer)
{
	if (want->fps == 0 && want->frames == 0 && want->queue_depth == 0 && want->start_ns == 0 && want->after == -1)
		return true;
	return answer_error(answer, "bad_request", "a stream that answers has no fps, frames, queue_depth, start_ns and after");
}

static bool receives(const struct stream *stream, const struct port *port)
{
	for (unsigned int at = 0; at < stream->receivers; at++)
		if (stream->receiver[at] == port)
			return true;
	return false;
}

/* One port, or several, each of which gets every frame. */
static bool plan_receivers(struct engine *engine, struct stream *stream, json_t *rx, json_t *answer)
{
	size_t count = json_is_array(rx) ? json_array_size(rx) : 1;

	if (count < 1 || count > MAX_PORTS)
		return answer_error(answer, "bad_request", "rx must be a port or a list of 1..%d ports, not of %zu", MAX_PORTS,
				    count);
	for (size_t at = 0; at < count; at++) {
		const char *name = json_string_value(json_is_array(rx) ? json_array_get(rx, at) : rx);
		struct port *port;

		if (name == NULL)
			return answer_error(answer, "bad_request", "stream: rx must be a port's name or a list of them");
		port = endpoint(engine, name, answer);
		if (port == NULL)
			return false;
		if (port->leader != NULL)
			port = port->leader; /* any member receives for its bond */
		if (receives(stream, port))
			return answer_error(answer, "bad_request", "rx names port \"%s\" twice", name);
		stream->receiver[stream->receivers++] = port;
	}
	stream->rx = stream->receiver[0];
	return true;
}

static bool unpack_stream(json_t *object, struct stream_request *want, json_t *answer)
{
	json_error_t error;

	*want = (struct stream_request){.combinations = 1, .compared_from = DEFAULT_COMPARED_FROM, .after = -1};
	if (json_unpack_ex(object, &error, JSON_STRICT,
			   "{s:s, s:o, s?I, s?I, s:o, s:o, s?o, s?o, s?o, s?o, s?o, s?I, s?I, s?I, s?o, s?I, s?I}", "tx", &want->tx, "rx",
			   &want->rx, "fps", &want->fps, "frames", &want->frames, "templates", &want->templates, "signatures",
			   &want->signatures, "order", &want->order, "fields", &want->fields, "checksums", &want->checksums,
			   "changeable", &want->changeable, "balances", &want->balances, "combinations", &want->combinations, "compared_from",
			   &want->compared_from, "queue_depth", &want->queue_depth, "answers", &want->answers,
			   "start_ns", &want->start_ns, "after", &want->after) != 0)
		return answer_error(answer, "bad_request", "stream: %s", error.text);
	if (!json_is_array(want->templates) || !json_is_array(want->signatures) ||
	    (want->order != NULL && !json_is_array(want->order)))
		return answer_error(answer, "bad_request", "stream: templates, signatures and order must be lists");
	return true;
}

/* Its buffers are as large as the port's MTU asks for. */
static bool fit_port(const struct stream *stream, json_t *answer)
{
	uint16_t room = port_frame_room(stream->tx);

	for (uint32_t at = 0; at < stream->frames.templates; at++)
		if (stream->frames.template[at]->length > room)
			return answer_error(answer, "bad_template",
					    "template %u has %u bytes, but port \"%s\" with its MTU of %u has room for %u", at,
					    stream->frames.template[at]->length, stream->tx->config.name,
					    stream->tx->config.mtu, room);
	return true;
}

static bool plan_stream(struct engine *engine, struct stream *stream, json_t *object, json_t *answer)
{
	struct stream_request want;

	if (!unpack_stream(object, &want, answer))
		return false;
	stream->tx = endpoint(engine, want.tx, answer);
	if (stream->tx == NULL || !plan_receivers(engine, stream, want.rx, answer))
		return false;
	if (want.queue_depth < 0 || want.queue_depth > MAX_QUEUE_DEPTH)
		return answer_error(answer, "bad_request", "queue_depth must be 0..%d frames", MAX_QUEUE_DEPTH);
	if (strcmp(stream->tx->config.bond, want.tx) == 0)
		stream->bond = stream->tx;
	if (!(want.answers != NULL ? (has_no_load(&want, answer) && plan_answers(&engine->run, stream, want.answers, answer)) : check_load(engine, &want, answer)) ||
	    !plan_frames(&stream->frames, &want, answer) || !fit_port(stream, answer))
		return false;
	if (want.answers != NULL)
		return true;
	if (stream->frames.learned != 0)
		return answer_error(answer, "bad_request", "only a stream that answers learns fields from arriving frames");
	stream->queue_depth = (uint64_t)want.queue_depth;
	stream->fps = (uint64_t)want.fps;
	stream->delay = ns_to_cycles(&engine->timebase, (uint64_t)want.start_ns);
	if (want.after != -1 && want.queue_depth != 0)
		return answer_error(answer, "bad_request", "a stream that is sent after another has no queue_depth");
	if (want.after != -1 && !plan_after(&engine->run, stream, want.after, want.frames, answer))
		return false;
	pacer_init(&stream->pacer, engine->timebase.hz, stream->fps, (uint64_t)want.frames, engine->run.gap_limit,
		   stream->tx->config.tx_descriptors * 3 / 4);
	return true;
}

/* Every so many frames carry a latency sample: odd, so that it does not beat with bursts and flows. */
static uint32_t sampling(uint64_t fps, uint64_t samples_per_s)
{
	return (uint32_t)(fps / samples_per_s) | 1;
}

static bool too_many_on_port(const struct run *run, const struct port *port)
{
	unsigned int streams = 0;

	for (unsigned int at = 0; at < run->stream_count; at++)
		streams += run->streams[at].tx == port && run->streams[at].queue == NULL;
	return streams > MAX_PORT_STREAMS;
}

static bool plan_streams(struct engine *engine, const json_t *objects, uint64_t samples_per_s, json_t *answer)
{
	struct run *run = &engine->run;
	size_t count = json_array_size(objects);
	size_t index;
	json_t *object;

	if (count < 1 || count > MAX_STREAMS)
		return answer_error(answer, "bad_request", "a trial has 1..%d streams, not %zu", MAX_STREAMS, count);
	run->streams = calloc(count, sizeof(*run->streams));
	if (run->streams == NULL)
		return answer_error(answer, "no_memory", "no memory for the streams");
	run->stream_count = (unsigned int)count;
	json_array_foreach(objects, index, object) {
		struct stream *stream = &run->streams[index];

		stream->id = stream->opening = (uint8_t)index;
		stream->trial = run->trial;
		stream->timebase = engine->timebase;
		if (!plan_stream(engine, stream, object, answer))
			return false;
		if (too_many_on_port(run, stream->tx))
			return answer_error(answer, "bad_request",
					    "more than %d streams send on port \"%s\": send fewer classes of traffic there",
					    MAX_PORT_STREAMS, stream->tx->config.name);
		stream->sample_every = sampling(stream->fps, samples_per_s);
	}
	return true;
}

/* Members of a bond are one. */
static bool same_port(const struct port *port, const struct port *other)
{
	return port == other || (port->leader != NULL && port->leader == other->leader);
}

/* Streams on one port share its buffers: each writes as much of them as the one with the longest head. */
static void plan_buffers(struct engine *engine)
{
	struct run *run = &engine->run;

	for (unsigned int at = 0; at < run->stream_count; at++) {
		struct stream *stream = &run->streams[at];
		uint16_t most = 0;

		for (unsigned int other = 0; other < run->stream_count; other++)
			if (same_port(run->streams[other].tx, stream->tx))
				most = RTE_MAX(most, frame_set_copied(&run->streams[other].frames));
		frame_set_widen(&stream->frames, most);
		if (stream->tx->host != NULL)
			frame_set_widen(&stream->frames, UINT16_MAX); /* its frames are written into the same buffers */
		for (int each = 0; each < MAX_PORTS; each++)
			if (engine->ports.port[each].used && same_port(&engine->ports.port[each], stream->tx))
				port_prepare_buffers(&engine->ports.port[each], most);
	}
}

/* ---- tracks */

static bool plan_track(struct engine *engine, struct port *port, struct stream *stream)
{
	const struct run *run = &engine->run;
	bool shares = port->leader != NULL && port->leader != port;
	struct track *track = shares ? port->leader->tracks[stream->id] :
				       track_new(stream, run->latency && stream->rx == port, run->interval_ns != 0);

	port->tracks[stream->id] = track;
	if (track != NULL && run->gap != 0 && !shares && !track_keep_gaps(track, run->gap))
		return false;
	for (uint32_t at = 0; at < stream->frames.templates && port->places.count < MAX_PLACES; at++)
		places_add(&port->places, stream->frames.template[at]->signature);
	return track != NULL;
}

/* A track for each address that the monitor tells apart, in front of the one for all others. */
static bool plan_addresses(struct port *port, struct stream *stream)
{
	for (unsigned int at = port->config.address_count; at > 0; at--) {
		struct track *track = track_new(stream, false, false);

		if (track == NULL)
			return false;
		track->address = &port->config.addresses[at - 1];
		track->next = port->tracks[stream->id];
		port->tracks[stream->id] = track;
	}
	return true;
}

/* Each stream is tracked where it ends, and on every monitor. */
static bool plan_tracks(struct engine *engine, json_t *answer)
{
	struct run *run = &engine->run;

	for (int at = 0; at < MAX_PORTS; at++) {
		struct port *port = &engine->ports.port[at];

		port->foreign = (struct foreign){0};
		memset(port->misdirected, 0, sizeof(port->misdirected));
		port->forwarded = (struct forward_counts){0};
		port->places = (struct places){0};
		port->trial = run->trial;
		port->flushed = 0;
		port->answered = false;
		run->monitored |= port->used && port->config.role == ROLE_MONITOR && !port->config.unread;
		for (unsigned int id = 0; port->used && id < run->stream_count; id++) {
			struct stream *stream = &run->streams[id];

			if (!receives(stream, port->leader != NULL ? port->leader : port) && port->config.role != ROLE_MONITOR)
				continue;
			if (!plan_track(engine, port, stream) || !plan_addresses(port, stream))
				return answer_error(answer, "no_memory", "no memory to track the streams");
		}
	}
	return true;
}

/* ---- windows and witnesses */

/* Parts of the request; NULL where absent. */
struct window_request {
	json_int_t window_ns; /* 0: none are kept */
	json_t *witnesses, *undisturbed;
	json_int_t ask_depth; /* frames; 0: nobody asks the witnesses */
};

static bool plan_witness(struct witness *witness, json_t *told)
{
	json_int_t cpu, process = 0, thread = 0;

	if (json_unpack_ex(told, NULL, JSON_STRICT, "{s:I, s?I, s?I}", "cpu", &cpu, "process", &process, "thread",
			   &thread) != 0 || cpu < 0 || cpu >= CPU_SETSIZE)
		return false;
	witness->cpu = (unsigned int)cpu;
	watched_open(&witness->watched, process, thread);
	return true;
}

static bool plan_witnesses(struct witnesses *witnesses, json_t *told)
{
	size_t at;
	json_t *one;

	if (told == NULL)
		return true;
	if (!json_is_array(told) || json_array_size(told) > MAX_WITNESSES)
		return false;
	json_array_foreach(told, at, one) {
		if (!plan_witness(&witnesses->witness[at], one))
			return false;
		witnesses->count++;
	}
	return true;
}

/* Absent: refused frames of all windows count. */
static bool plan_undisturbed(struct run *run, json_t *told, json_t *answer)
{
	json_int_t speed = 0, late_ns = 0, asked_late_ns = 0, absent_ns = 0, waited_ns = 0;
	json_error_t error;

	if (told == NULL)
		return true;
	if (json_unpack_ex(told, &error, JSON_STRICT, "{s:I, s:I, s:I, s:I, s:I}", "most_speed", &speed, "most_late_ns",
			   &late_ns, "most_asked_late_ns", &asked_late_ns, "most_absent_ns", &absent_ns,
			   "most_waited_ns", &waited_ns) != 0)
		return answer_error(answer, "bad_request", "undisturbed: %s", error.text);
	if (speed < 1 || late_ns < 0 || asked_late_ns < 0 || absent_ns < 0 || waited_ns < 0)
		return answer_error(answer, "bad_request", "undisturbed: most_speed must be 1 or more, the others 0 or more");
	run->undisturbed = (struct undisturbed){
		.most_speed = (uint64_t)speed,
		.most_late = ns_to_cycles(&run->timebase, (uint64_t)late_ns),
		.most_asked_late = ns_to_cycles(&run->timebase, (uint64_t)asked_late_ns),
		.most_absent = ns_to_cycles(&run->timebase, (uint64_t)absent_ns),
		.most_waited_ns = (uint64_t)waited_ns,
	};
	return true;
}

/*
 * Room for all windows of the trial, and for one that the last look is in. False, with the
 * answer filled, when the request is wrong.
 */
static bool plan_windows(struct run *run, const struct window_request *want, json_t *answer)
{
	uint64_t longest = 0, windows;

	if (want->window_ns == 0)
		return true;
	if (!plan_undisturbed(run, want->undisturbed, answer))
		return false;
	if (want->ask_depth < 0 || want->ask_depth > MAX_QUEUE_DEPTH)
		return answer_error(answer, "bad_request", "ask_depth must be 0..%d frames", MAX_QUEUE_DEPTH);
	run->ask_depth = (uint64_t)want->ask_depth;
	if (want->window_ns < SHORTEST_WINDOW_NS)
		return answer_error(answer, "bad_request", "window_ns must be %d or more, or 0 for none",
				    SHORTEST_WINDOW_NS);
	for (unsigned int at = 0; at < run->stream_count; at++)
		longest = RTE_MAX(longest, run->streams[at].pacer.frames / run->streams[at].fps + 1 +
						   (run->streams[at].delay + run->timebase.hz - 1) / run->timebase.hz);
	run->window = ns_to_cycles(&run->timebase, (uint64_t)want->window_ns);
	windows = (longest * run->timebase.hz + run->residual) / run->window + 1;
	if (windows > MOST_WINDOWS)
		return answer_error(answer, "bad_request", "window_ns is too short for this trial: more than %d windows",
				    MOST_WINDOWS);
	run->window_room = (uint32_t)windows;
	if (!plan_witnesses(&run->witnesses, want->witnesses))
		return answer_error(answer, "bad_request",
				    "witnesses must be a list of at most %d objects with cpu, process, thread", MAX_WITNESSES);
	return true;
}

/* ---- all of it */

bool plan_trial(struct engine *engine, json_t *request, json_t *answer)
{
	struct run *run = &engine->run;
	json_t *streams;
	struct window_request windows = {0};
	json_int_t residual_ns, gap_limit_ns = DEFAULT_GAP_LIMIT_NS, samples_per_s = DEFAULT_SAMPLES_PER_S;
	json_int_t interval_ns = 0, most_refused = -1, gap_ns = 0;
	int latency = 1, rejoins = 0;
	json_error_t error;

	memset(run, 0, sizeof(*run));
	if (json_unpack_ex(request, &error, JSON_STRICT, "{s:o, s:I, s?b, s?I, s?I, s?I, s?I, s?I, s?o, s?o, s?I, s?I, s?b}", "streams", &streams,
			   "residual_ns", &residual_ns, "latency", &latency, "gap_limit_ns", &gap_limit_ns,
			   "samples_per_s", &samples_per_s, "interval_ns", &interval_ns, "most_refused",
			   &most_refused, "window_ns", &windows.window_ns, "witnesses", &windows.witnesses,
			   "undisturbed", &windows.undisturbed, "ask_depth", &windows.ask_depth, "gap_ns", &gap_ns,
			   "rejoin", &rejoins) != 0)
		return answer_error(answer, "bad_request", "trial: %s", error.text);
	if (residual_ns < 0 || gap_limit_ns < 1000 || samples_per_s < 1 || gap_ns < 0)
		return answer_error(answer, "bad_request", "residual_ns and gap_ns must be 0 or more, gap_limit_ns 1000 or more, "
							   "samples_per_s 1 or more");
	if (interval_ns != 0 && interval_ns < SHORTEST_INTERVAL_NS)
		return answer_error(answer, "bad_request", "interval_ns must be %d or more, or 0 for none",
				    SHORTEST_INTERVAL_NS);
	run->interval_ns = (uint64_t)interval_ns;
	run->most_refused = most_refused < 0 ? UINT64_MAX : (uint64_t)most_refused;
	engine->last_trial = engine->last_trial == UINT8_MAX ? 1 : engine->last_trial + 1;
	run->trial = engine->last_trial;
	run->latency = latency;
	run->nice = engine->nice;
	run->timebase = engine->timebase;
	run->residual = ns_to_cycles(&engine->timebase, (uint64_t)residual_ns);
	run->gap_limit = ns_to_cycles(&engine->timebase, (uint64_t)gap_limit_ns);
	run->gap = ns_to_cycles(&engine->timebase, (uint64_t)gap_ns);
	run->rejoins = rejoins;
	if (!plan_streams(engine, streams, (uint64_t)samples_per_s, answer) || !plan_tracks(engine, answer) ||
	    !plan_conversations(engine, answer))
		return false;
	plan_buffers(engine);
	return plan_windows(run, &windows, answer);
}

void plan_free(struct engine *engine)
{
	struct run *run = &engine->run;

	for (int at = 0; at < MAX_PORTS; at++) {
		for (int id = 0; id < MAX_STREAMS; id++) {
			struct port *port = &engine->ports.port[at];

			if (port->leader == NULL || port->leader == port)
				track_free(port->tracks[id]);
			port->tracks[id] = NULL;
		}
	}
	for (unsigned int at = 0; at < run->stream_count; at++)
		frame_set_free(&run->streams[at].frames);
	windows_free(engine);
	conversations_free(run);
	free(run->streams);
	run->streams = NULL;
	run->stream_count = 0;
}
