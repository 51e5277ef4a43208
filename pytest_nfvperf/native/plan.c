/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "plan.h"
#include "plan_frames.h"
#include "plan_windows.h"
#include "windows.h"

enum {
	DEFAULT_SAMPLES_PER_S = 200000,
	/* A virtual CPU's timer tick takes 20-70 us: what falls due in it is sent late and said to be. A
	 * preemption takes milliseconds: what falls due in that is given up. */
	DEFAULT_GAP_LIMIT_NS = 100000,
	SHORTEST_INTERVAL_NS = 10000000,
	DEFAULT_COMPARED_FROM = 14,
};

struct stream_request {
	const char *tx;
	json_t *rx;
	json_int_t fps, frames, queue_depth;
	struct frames_request what;
};

static struct port *endpoint(struct engine *engine, const char *name, json_t *answer)
{
	struct port *port = port_find(&engine->ports, name);

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
	return true;
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
		if (receives(stream, port))
			return answer_error(answer, "bad_request", "rx names port \"%s\" twice", name);
		stream->receiver[stream->receivers++] = port;
	}
	stream->rx = stream->receiver[0];
	return true;
}

static bool unpack_stream(json_t *object, struct stream_request *want, json_t *answer)
{
	struct frames_request *what = &want->what;
	json_error_t error;

	*want = (struct stream_request){.what = {.combinations = 1, .compared_from = DEFAULT_COMPARED_FROM}};
	if (json_unpack_ex(object, &error, JSON_STRICT,
			   "{s:s, s:o, s:I, s:I, s:o, s:o, s?o, s?o, s?o, s?o, s?o, s?I, s?I, s?I}", "tx", &want->tx, "rx",
			   &want->rx, "fps", &want->fps, "frames", &want->frames, "templates", &what->templates, "signatures",
			   &what->signatures, "order", &what->order, "fields", &what->fields, "checksums", &what->checksums,
			   "changeable", &what->changeable, "balances", &what->balances, "combinations", &what->combinations, "compared_from",
			   &what->compared_from, "queue_depth", &want->queue_depth) != 0)
		return answer_error(answer, "bad_request", "stream: %s", error.text);
	if (!json_is_array(what->templates) || !json_is_array(what->signatures) ||
	    (what->order != NULL && !json_is_array(what->order)))
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
	if (stream->tx == NULL || !plan_receivers(engine, stream, want.rx, answer) || !check_load(engine, &want, answer))
		return false;
	if (want.queue_depth < 0 || want.queue_depth > MAX_QUEUE_DEPTH)
		return answer_error(answer, "bad_request", "queue_depth must be 0..%d frames", MAX_QUEUE_DEPTH);
	stream->queue_depth = (uint64_t)want.queue_depth;
	stream->fps = (uint64_t)want.fps;
	if (!plan_frames(&stream->frames, &want.what, answer) || !fit_port(stream, answer))
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
		streams += run->streams[at].tx == port;
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

		stream->id = (uint8_t)index;
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

/* Streams on one port share its buffers: each writes as much of them as the one with the longest head. */
static void plan_buffers(struct run *run)
{
	for (unsigned int at = 0; at < run->stream_count; at++) {
		struct stream *stream = &run->streams[at];
		uint16_t most = 0;

		for (unsigned int other = 0; other < run->stream_count; other++)
			if (run->streams[other].tx == stream->tx)
				most = RTE_MAX(most, frame_set_copied(&run->streams[other].frames));
		frame_set_widen(&stream->frames, most);
		if (stream->tx->host != NULL)
			frame_set_widen(&stream->frames, UINT16_MAX); /* its frames are written into the same buffers */
		port_prepare_buffers(stream->tx, most);
	}
}

static bool plan_track(struct engine *engine, struct port *port, struct stream *stream)
{
	struct run *run = &engine->run;
	bool is_end = stream->rx == port;
	struct track *track = track_new(stream, run->latency && is_end, run->interval_ns != 0);

	port->tracks[stream->id] = track;
	if (is_end)
		run->tracks[stream->id] = track;
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
		run->monitored |= port->used && port->config.role == ROLE_MONITOR && !port->config.unread;
		for (unsigned int id = 0; port->used && id < run->stream_count; id++) {
			struct stream *stream = &run->streams[id];

			if (!receives(stream, port) && port->config.role != ROLE_MONITOR)
				continue;
			if (!plan_track(engine, port, stream) || !plan_addresses(port, stream))
				return answer_error(answer, "no_memory", "no memory to track the streams");
		}
	}
	return true;
}

bool plan_trial(struct engine *engine, json_t *request, json_t *answer)
{
	struct run *run = &engine->run;
	json_t *streams;
	struct window_wishes windows = {0};
	json_int_t residual_ns, gap_limit_ns = DEFAULT_GAP_LIMIT_NS, samples_per_s = DEFAULT_SAMPLES_PER_S;
	json_int_t interval_ns = 0, most_refused = -1, window_ns = 0;
	int latency = 1;
	json_error_t error;

	memset(run, 0, sizeof(*run));
	if (json_unpack_ex(request, &error, JSON_STRICT, "{s:o, s:I, s?b, s?I, s?I, s?I, s?I, s?I, s?o, s?o, s?I}", "streams", &streams,
			   "residual_ns", &residual_ns, "latency", &latency, "gap_limit_ns", &gap_limit_ns,
			   "samples_per_s", &samples_per_s, "interval_ns", &interval_ns, "most_refused",
			   &most_refused, "window_ns", &window_ns, "witnesses", &windows.witnesses,
			   "undisturbed", &windows.undisturbed, "ask_depth", &windows.ask_depth) != 0)
		return answer_error(answer, "bad_request", "trial: %s", error.text);
	if (residual_ns < 0 || gap_limit_ns < 1000 || samples_per_s < 1)
		return answer_error(answer, "bad_request", "residual_ns must be 0 or more, gap_limit_ns 1000 or more, "
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
	if (!plan_streams(engine, streams, (uint64_t)samples_per_s, answer) || !plan_tracks(engine, answer))
		return false;
	plan_buffers(run);
	return plan_windows(run, window_ns, &windows, answer);
}

void plan_free(struct engine *engine)
{
	struct run *run = &engine->run;

	for (int at = 0; at < MAX_PORTS; at++) {
		for (int id = 0; id < MAX_STREAMS; id++) {
			track_free(engine->ports.port[at].tracks[id]);
			engine->ports.port[at].tracks[id] = NULL;
		}
	}
	for (unsigned int at = 0; at < run->stream_count; at++)
		frame_set_free(&run->streams[at].frames);
	for (unsigned int at = 0; at < engine->worker_count; at++)
		window_free(&engine->workers[at]);
	free(run->streams);
	run->streams = NULL;
	run->stream_count = 0;
}
