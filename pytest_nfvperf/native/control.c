/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_lcore.h>
#include <rte_version.h>

#include "answer.h"
#include "commands.h"
#include "control.h"
#include "host.h"
#include "receive.h"
#include "request.h"

static const struct {
	const char *name;
	command_fn *run;
	bool while_forwarding; /* touches nothing that a polling thread uses */
} commands[] = {
	{"hello", command_hello, true},	  {"attach", command_attach, false}, {"detach", command_detach, false},
	{"distance", command_distance, false},
	{"links", command_links, true},	  {"stats", command_stats, true},    {"learn", command_learn, false},
	{"trial", command_trial, false}, {"forward", command_forward, true}, {"quit", command_quit, true},
	{"stop", command_stop, true},
};

bool command_hello(struct engine *engine, json_t *request, json_t *answer)
{
	json_t *workers = json_array();
	json_error_t error;

	if (json_unpack_ex(request, &error, JSON_STRICT, "{}") != 0)
		return answer_error(answer, "bad_request", "hello: %s", error.text);
	for (unsigned int at = 0; at < engine->worker_count; at++)
		json_array_append_new(workers, json_pack("{s:i, s:i}", "lcore", engine->workers[at].lcore, "cpu",
							 engine->workers[at].cpu));
	json_object_set_new(answer, "protocol", json_integer(PROTOCOL_VERSION));
	json_object_set_new(answer, "program", json_string("nfvperf-gen"));
	json_object_set_new(answer, "version", json_string(NFVPERF_GEN_VERSION));
	json_object_set_new(answer, "dpdk", json_string(rte_version()));
	answer_int(answer, "tsc_hz", engine->timebase.hz);
	json_object_set_new(answer, "workers", workers);
	return true;
}

/* A running trial is stopped by request_meanwhile(): here there is none. */
bool command_stop(struct engine *engine, json_t *request, json_t *answer)
{
	(void)engine;
	(void)request;
	return answer_error(answer, "not_running", "no trial runs");
}

bool command_quit(struct engine *engine, json_t *request, json_t *answer)
{
	json_error_t error;

	if (json_unpack_ex(request, &error, JSON_STRICT, "{}") != 0)
		return answer_error(answer, "bad_request", "quit: %s", error.text);
	forward_end(engine);
	engine->quit = true;
	return true;
}

static bool dispatch(struct engine *engine, const char *name, json_t *request, json_t *answer)
{
	for (size_t at = 0; at < sizeof(commands) / sizeof(commands[0]); at++) {
		if (strcmp(commands[at].name, name) != 0)
			continue;
		if (engine->forwarding && !commands[at].while_forwarding)
			return answer_error(answer, "busy", "%s is not possible while forwarding; stop it first", name);
		return commands[at].run(engine, request, answer);
	}
	return answer_error(answer, "unknown_command",
			    "unknown command \"%s\" (known: hello attach detach distance links stats learn trial forward stop quit)", name);
}

/* Serves the hosts behind endpoints; returns how many frames there were, or -1 where there is no host. */
static int serve_hosts(struct engine *engine)
{
	int frames = -1;

	for (int at = 0; at < MAX_PORTS; at++) {
		struct port *port = &engine->ports.port[at];

		if (!port->used || port->config.role != ROLE_HOST || port->peer == NULL)
			continue;
		frames = RTE_MAX(frames, 0) + (int)host_turn(port, 0, 0);
		(void)receive_flush(port->peer);
	}
	return frames;
}

/*
 * Between trials the polling threads sleep, but a routing daemon behind a port must not lose its sessions:
 * this thread looks after it, once a millisecond. A request that came with another one waits for the next.
 */
static void idle(struct engine *engine)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	int frames;

	while (!engine->forwarding && (frames = serve_hosts(engine)) >= 0)
		if (poll(&input, 1, frames > 0 ? 0 : 1) != 0)
			return;
}

void control_loop(struct engine *engine)
{
	char *line = NULL;
	size_t size = 0;

	while (!engine->quit && !engine->input_closed) {
		idle(engine);
		if (getline(&line, &size, stdin) <= 0)
			break;
		request_answer(engine, line, dispatch);
	}
	forward_end(engine);
	free(line);
}
