/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial, learn, forward: gives ports and streams to the polling threads, starts them and waits for them.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include "commands.h"
#include "interval.h"
#include "protocol.h"
#include "rejoin.h"
#include "windows.h"

enum { LINK_LOOK_MS = 50 }; /* from one look at the links of NICs to the next: one that is lost takes longer to come back */

/* A transmit queue has one user: two forwarders into one port would share it. */
static const char *check_peers(const struct ports *ports)
{
	const struct port *taken[MAX_PORTS] = {NULL};

	for (int at = 0; at < MAX_PORTS; at++) {
		const struct port *port = &ports->port[at];

		if (!port->used || port->config.role != ROLE_FORWARDER || port->peer == NULL)
			continue;
		for (int before = 0; before < at; before++)
			if (taken[before] == port->peer)
				return "two forwarders have the same peer";
		taken[at] = port->peer;
	}
	return NULL;
}

static struct worker *owner_of(struct engine *engine, const struct port *port)
{
	const struct port *first = port->leader != NULL ? port->leader : port; /* members share what is counted */

	return &engine->workers[(unsigned int)(first - engine->ports.port) % engine->worker_count];
}

/* Who polls what. NULL, or why it cannot be. */
static const char *launch_assign(struct engine *engine)
{
	struct run *run = &engine->run;

	for (unsigned int at = 0; at < engine->worker_count; at++) {
		struct worker *worker = &engine->workers[at];

		*worker = (struct worker){.lcore = worker->lcore, .cpu = worker->cpu, .run = run};
	}
	for (int at = 0; at < MAX_PORTS; at++) {
		struct port *port = &engine->ports.port[at];
		struct worker *worker = owner_of(engine, port);

		if (!port->used || port->config.unread || (port->config.role == ROLE_HOST && port->peer == NULL))
			continue;
		if (port->config.role == ROLE_HOST) {
			worker = owner_of(engine, port->peer); /* both use its rings */
			worker->hosts[worker->host_count++] = port;
		} else if (port->config.role == ROLE_FORWARDER)
			worker->forwarders[worker->forwarder_count++] = port;
		else if (!run->forward_only)
			worker->receivers[worker->receiver_count++] = port;
	}
	for (unsigned int at = 0; at < run->stream_count; at++) {
		struct worker *worker = owner_of(engine, run->streams[at].tx);

		if (run->streams[at].answers != 0) {
			worker->answers[worker->answer_count++] = &run->streams[at];
			continue;
		}
		worker->streams[worker->stream_count++] = &run->streams[at];
		run->sending++;
	}
	for (unsigned int at = 0; at < run->queue_count; at++) {
		struct worker *worker = owner_of(engine, run->queues[at]->port);

		worker->queues[worker->queue_count++] = run->queues[at];
	}
	return check_peers(&engine->ports);
}

static bool set_link(struct engine *engine, json_t *request, json_t *answer)
{
	const char *name, *wrong;
	json_error_t error;
	struct port *port;
	int up;

	if (json_unpack_ex(request, &error, JSON_STRICT, "{s:s, s:b}", "name", &name, "up", &up) != 0)
		return answer_error(answer, "bad_request", "link: %s", error.text);
	port = port_find(&engine->ports, name);
	if (port == NULL)
		return answer_error(answer, "unknown_port", "no port \"%s\" is attached", name);
	if (!engine->run.rejoins)
		return answer_error(answer, "cannot_run", "the trial lets no switch in again: its \"rejoin\" is false");
	wrong = rejoin_set_link(port, up);
	return wrong == NULL || answer_error(answer, "cannot_run", "%s", wrong);
}

static bool watch_other(struct engine *engine, json_t *request, json_t *answer)
{
	json_int_t cpu, process, thread;
	json_error_t error;

	if (json_unpack_ex(request, &error, JSON_STRICT, "{s:I, s:I, s:I}", "cpu", &cpu, "process", &process, "thread",
			   &thread) != 0)
		return answer_error(answer, "bad_request", "watch: %s", error.text);
	return witnesses_watch(&engine->run.witnesses, (unsigned int)cpu, process, thread) ||
	       answer_error(answer, "cannot_run", "no witness on CPU %lld takes another thread", (long long)cpu);
}

/* While a trial with intervals runs: all but its end, and links of its own, can wait. */
static bool run_meanwhile(struct engine *engine, const char *name, json_t *request, json_t *answer)
{
	if (strcmp(name, "link") == 0)
		return set_link(engine, request, answer);
	if (strcmp(name, "watch") == 0)
		return watch_other(engine, request, answer);
	if (strcmp(name, "stop") != 0)
		return answer_error(answer, "busy", "%s is not possible while a trial runs; stop it first", name);
	__atomic_store_n(&engine->run.halt, true, __ATOMIC_RELEASE);
	return true;
}

/* Without intervals input that arrives meanwhile waits, and only its end matters. */
static void watch(struct engine *engine, struct pollfd *fds, unsigned int rings, int timeout_ms)
{
	bool closed;

	if (poll(fds, 2 + rings, timeout_ms) <= 0)
		return;
	closed = fds[1].revents & (POLLHUP | POLLERR | POLLNVAL);
	if (fds[1].revents & POLLIN)
		closed = !request_meanwhile(engine, run_meanwhile);
	if (closed) {
		engine->input_closed = true;
		fds[1].fd = -1;
		__atomic_store_n(&engine->run.stop, true, __ATOMIC_RELEASE);
	}
}

/*
 * Sleeps until the threads have ended; where the run has intervals, tells of each, and takes "stop".
 * Stops the threads when stdin is closed.
 */
static void launch_wait(struct engine *engine)
{
	struct run *run = &engine->run;
	bool watches_links = ports_watch_links(&engine->ports);
	struct schedule schedule = {.next_ns = monotonic_ns() + run->interval_ns};
	struct pollfd fds[2 + MAX_PORTS] = {
		{.fd = run->finished_fd, .events = POLLIN},
		{.fd = STDIN_FILENO, .events = run->interval_ns != 0 ? POLLIN : 0},
	};
	unsigned int finished = 0;

	while (finished < run->worker_count) {
		int timeout_ms = interval_sleep_ms(run, &schedule);
		unsigned int rings = 0;
		uint64_t more;

		if (watches_links && (timeout_ms < 0 || timeout_ms > LINK_LOOK_MS))
			timeout_ms = LINK_LOOK_MS;
		if (run->rejoins)
			rings = rejoin_wait(&engine->ports, fds + 2, &timeout_ms);
		watch(engine, fds, rings, timeout_ms);
		if (run->rejoins)
			rejoin_turn(&engine->ports);
		if (watches_links)
			ports_each_nic(&engine->ports, nic_trial_look);
		interval_turn(engine, &schedule);
		if (read(run->finished_fd, &more, sizeof(more)) == (ssize_t)sizeof(more))
			finished += (unsigned int)more;
	}
	for (unsigned int at = 0; at < run->worker_count; at++)
		(void)rte_eal_wait_lcore(engine->workers[at].lcore);
	close(run->finished_fd);
	interval_end(engine);
}

/* Starts the threads. NULL, or what failed. */
static const char *launch_start(struct engine *engine)
{
	struct run *run = &engine->run;

	run->workers = engine->workers;
	run->worker_count = engine->worker_count;
	run->finished_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (run->finished_fd < 0)
		return strerror(errno);
	for (unsigned int at = 0; at < engine->worker_count; at++) {
		int ret = rte_eal_remote_launch(worker_main, &engine->workers[at], engine->workers[at].lcore);

		if (ret == 0)
			continue;
		/* Those already started wait for the others: let them go, then give up. */
		__atomic_store_n(&run->stop, true, __ATOMIC_RELEASE);
		__atomic_store_n(&run->start, 1, __ATOMIC_RELEASE);
		run->worker_count = at;
		launch_wait(engine);
		return "a polling thread is still busy";
	}
	return NULL;
}

static bool run_to_end(struct engine *engine, json_t *answer)
{
	const char *wrong = launch_assign(engine);

	if (wrong == NULL && !windows_plan(engine))
		wrong = "no memory for the windows";
	if (wrong == NULL && !witnesses_start(&engine->run.witnesses, &engine->run))
		engine->run.witnesses.stop = true; /* the run says nothing of those CPUs */
	rejoin_begin(&engine->ports);
	/* What the ports' devices count, right before the polling threads start, and once they have ended. */
	ports_each_nic(&engine->ports, nic_trial_begin);
	if (wrong == NULL)
		wrong = launch_start(engine);
	if (wrong == NULL)
		launch_wait(engine);
	rejoin_end(&engine->ports);
	ports_each_nic(&engine->ports, nic_trial_end);
	witnesses_stop(&engine->run.witnesses);
	if (wrong == NULL)
		report_run(engine, answer);
	witnesses_report(&engine->run, answer);
	return wrong == NULL || answer_error(answer, "cannot_run", "%s", wrong);
}

bool command_trial(struct engine *engine, json_t *request, json_t *answer)
{
	bool done = plan_trial(engine, request, answer) && run_to_end(engine, answer);

	plan_free(engine);
	return done;
}

/* A short trial whose counts nobody judges: bridges learn the addresses of both ends. */
bool command_learn(struct engine *engine, json_t *request, json_t *answer)
{
	json_object_set_new(request, "latency", json_false());
	return command_trial(engine, request, answer);
}

static bool forward_begin(struct engine *engine, json_t *answer)
{
	struct run *run = &engine->run;
	const char *wrong;

	if (engine->forwarding)
		return answer_error(answer, "busy", "forwarding goes on already");
	memset(run, 0, sizeof(*run));
	run->forward_only = true;
	run->timebase = engine->timebase;
	run->nice = engine->nice;
	run->gap_limit = ns_to_cycles(&engine->timebase, 1000000);
	for (int at = 0; at < MAX_PORTS; at++)
		memset(&engine->ports.port[at].forwarded, 0, sizeof(engine->ports.port[at].forwarded));
	wrong = launch_assign(engine);
	if (wrong == NULL)
		wrong = launch_start(engine);
	if (wrong != NULL)
		return answer_error(answer, "cannot_run", "%s", wrong);
	engine->forwarding = true;
	return true;
}

void forward_end(struct engine *engine)
{
	if (!engine->forwarding)
		return;
	__atomic_store_n(&engine->run.stop, true, __ATOMIC_RELEASE);
	launch_wait(engine);
	engine->forwarding = false;
}

bool command_forward(struct engine *engine, json_t *request, json_t *answer)
{
	json_error_t error;
	const char *action;

	if (json_unpack_ex(request, &error, JSON_STRICT, "{s:s}", "action", &action) != 0)
		return answer_error(answer, "bad_request", "forward: %s", error.text);
	if (strcmp(action, "start") == 0)
		return forward_begin(engine, answer);
	if (strcmp(action, "stop") != 0)
		return answer_error(answer, "bad_request", "action must be start or stop, not \"%s\"", action);
	if (!engine->forwarding)
		return answer_error(answer, "not_forwarding", "nothing to stop");
	forward_end(engine);
	report_run(engine, answer);
	return true;
}
