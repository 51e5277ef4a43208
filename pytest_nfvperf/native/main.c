/* SPDX-License-Identifier: Apache-2.0 */
/* nfvperf-gen: a traffic generator on DPDK ports, driven by JSON lines. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_version.h>

#include "commands.h"
#include "forward.h"
#include "protocol.h"
#include "receive.h"

#define NFVPERF_GEN_VERSION "1.0"
#define PROTOCOL_VERSION 1

/* Even kill -9 of the parent ends us; a parent that died before we asked is seen by its id. */
static bool die_with_parent(const char *parent)
{
	char *end;
	long expected = strtol(parent, &end, 10);

	if (*end != '\0' || expected <= 0) {
		fprintf(stderr, "nfvperf-gen: --parent wants a process id, not \"%s\"\n", parent);
		return false;
	}
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
		fprintf(stderr, "nfvperf-gen: prctl: %s\n", strerror(errno));
		return false;
	}
	if (getppid() == (pid_t)expected)
		return true;
	fprintf(stderr, "nfvperf-gen: parent %ld is gone\n", expected);
	return false;
}

/* Standard output carries answers alone: whatever else prints there goes to stderr. */
static bool separate_answers(struct engine *engine)
{
	int fd = dup(STDOUT_FILENO);

	if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return false;
	engine->answers = fdopen(fd, "w");
	(void)rte_openlog_stream(stderr);
	return engine->answers != NULL;
}

static unsigned int first_cpu(unsigned int lcore)
{
	rte_cpuset_t cpus = rte_lcore_cpuset(lcore);

	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus))
			return cpu;
	return 0;
}

static bool collect_workers(struct engine *engine)
{
	unsigned int lcore;

	RTE_LCORE_FOREACH_WORKER(lcore) {
		struct worker *worker = &engine->workers[engine->worker_count];

		if (engine->worker_count == MAX_WORKERS)
			break;
		worker->lcore = lcore;
		worker->cpu = first_cpu(lcore);
		engine->worker_count++;
	}
	if (engine->worker_count > 0)
		return true;
	fprintf(stderr, "nfvperf-gen: no worker lcore; give at least two lcores, the first is for control\n");
	return false;
}

static bool parse_nice(const char *text, int *nice)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end == '\0' && end != text && value >= -20 && value <= 19) {
		*nice = (int)value;
		return true;
	}
	fprintf(stderr, "nfvperf-gen: --nice wants -20..19, not \"%s\"\n", text);
	return false;
}

/*
 * With autogroups (sched(7)) a nice value counts only among the threads of one session; what
 * counts against the rest of the machine is the session's own. Ours alone, if we lead it.
 */
static void prioritise_session(int nice)
{
	FILE *file;

	if (getsid(0) != getpid())
		return;
	file = fopen("/proc/self/autogroup", "we");
	if (file == NULL)
		return;
	fprintf(file, "%d", nice);
	fclose(file);
}

/*
 * nfvperf-gen --parent PID --nice NICE EAL-ARGUMENTS...
 * Ties our life to the parent's, moves the logs to stderr, initialises DPDK. False, with a
 * message on stderr, when that failed.
 */
static bool startup(struct engine *engine, int argc, char **argv)
{
	if (argc < 5 || strcmp(argv[1], "--parent") != 0 || strcmp(argv[3], "--nice") != 0) {
		fprintf(stderr, "usage: nfvperf-gen --parent PID --nice NICE EAL-ARGUMENTS...\n");
		return false;
	}
	if (!parse_nice(argv[4], &engine->nice))
		return false;
	if (!die_with_parent(argv[2]))
		return false;
	prioritise_session(engine->nice);
	/* A switch that hangs up on a vhost-user socket is a link that is down, not our end. */
	(void)signal(SIGPIPE, SIG_IGN);
	if (!separate_answers(engine)) {
		fprintf(stderr, "nfvperf-gen: %s\n", strerror(errno));
		return false;
	}
	argv[4] = argv[0];
	if (rte_eal_init(argc - 4, argv + 4) < 0) {
		fprintf(stderr, "nfvperf-gen: DPDK did not start: %s\n", rte_strerror(rte_errno));
		return false;
	}
	engine->timebase = timebase_of(rte_get_tsc_hz());
	return collect_workers(engine);
}

/* ---- commands */

static command_fn command_hello, command_quit, command_stop;

static const struct {
	const char *name;
	command_fn *run;
	bool while_forwarding; /* touches nothing that a polling thread uses */
	bool bare; /* has no keys of its own */
} commands[] = {
	{"hello", command_hello, true, true},
	{"attach", command_attach, false, false},
	{"detach", command_detach, false, false},
	{"distance", command_distance, false, false},
	{"links", command_links, true, true},
	{"stats", command_stats, true, true},
	{"learn", command_learn, false, false},
	{"trial", command_trial, false, false},
	{"forward", command_forward, true, false},
	{"quit", command_quit, true, true},
	{"stop", command_stop, true, false},
};

static bool command_hello(struct engine *engine, json_t *request, json_t *answer)
{
	json_t *workers = json_array();

	(void)request;
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
static bool command_stop(struct engine *engine, json_t *request, json_t *answer)
{
	(void)engine;
	(void)request;
	return answer_error(answer, "not_running", "no trial runs");
}

static bool command_quit(struct engine *engine, json_t *request, json_t *answer)
{
	(void)request;
	(void)answer;
	forward_end(engine);
	engine->quit = true;
	return true;
}

static bool dispatch(struct engine *engine, const char *name, json_t *request, json_t *answer)
{
	json_error_t error;

	for (size_t at = 0; at < sizeof(commands) / sizeof(commands[0]); at++) {
		if (strcmp(commands[at].name, name) != 0)
			continue;
		if (engine->forwarding && !commands[at].while_forwarding)
			return answer_error(answer, "busy", "%s is not possible while forwarding; stop it first", name);
		if (commands[at].bare && json_unpack_ex(request, &error, JSON_STRICT, "{}") != 0)
			return answer_error(answer, "bad_request", "%s: %s", name, error.text);
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

/* Reads commands from stdin and answers them until quit or end of input. */
static void control_loop(struct engine *engine)
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

/* ---- the end */

static void shutdown_engine(struct engine *engine)
{
	for (int at = 0; at < MAX_PORTS; at++)
		if (engine->ports.port[at].used)
			port_detach(&engine->ports, &engine->ports.port[at]);
	(void)rte_eal_cleanup();
}

int main(int argc, char **argv)
{
	static struct engine engine;

	if (!startup(&engine, argc, argv))
		return 1;
	control_loop(&engine);
	shutdown_engine(&engine);
	return 0;
}
