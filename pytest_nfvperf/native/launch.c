/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include "interval.h"
#include "launch.h"
#include "report.h"
#include "request.h"

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
	return &engine->workers[(unsigned int)(port - engine->ports.port) % engine->worker_count];
}

const char *launch_assign(struct engine *engine)
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

		worker->streams[worker->stream_count++] = &run->streams[at];
	}
	return check_peers(&engine->ports);
}

const char *launch_start(struct engine *engine)
{
	struct run *run = &engine->run;

	run->workers = engine->workers;
	run->worker_count = engine->worker_count;
	run->sending = run->stream_count;
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

enum {
	LINK_LOOK_MS = 50, /* from one look at the links of NICs to the next: one that is lost takes longer to come back */
};

/* When counts are told next. */
struct schedule {
	uint64_t next_ns;
	bool asked;
};

/* How long to sleep, ms: until the next interval ends, or a moment while polling threads copy their counts. */
static int sleep_ms(const struct run *run, const struct schedule *schedule)
{
	uint64_t now;

	if (run->interval_ns == 0)
		return -1;
	if (schedule->asked)
		return 1;
	now = monotonic_ns();
	return schedule->next_ns > now ? (int)((schedule->next_ns - now + 999999) / 1000000) : 0;
}

static void tell_interval(struct engine *engine, struct schedule *schedule)
{
	struct run *run = &engine->run;
	uint64_t now = monotonic_ns();

	if (!schedule->asked && now >= schedule->next_ns) {
		interval_ask(run);
		schedule->asked = true;
	}
	if (!schedule->asked || !interval_told(run))
		return;
	report_interval(engine);
	interval_keep(run);
	schedule->asked = false;
	/* An interval that was missed is missing: two short ones in its place would only look complete. */
	while (schedule->next_ns <= now)
		schedule->next_ns += run->interval_ns;
}

/* Without intervals input that arrives meanwhile waits, and only its end matters. */
static void watch(struct engine *engine, struct pollfd *fds, int timeout_ms)
{
	bool closed;

	if (poll(fds, 2, timeout_ms) <= 0)
		return;
	closed = fds[1].revents & (POLLHUP | POLLERR | POLLNVAL);
	if (fds[1].revents & POLLIN)
		closed = !request_meanwhile(engine);
	if (closed) {
		engine->input_closed = true;
		fds[1].fd = -1;
		__atomic_store_n(&engine->run.stop, true, __ATOMIC_RELEASE);
	}
}

void launch_wait(struct engine *engine)
{
	struct run *run = &engine->run;
	bool tells = run->interval_ns != 0, watches_links = ports_watch_links(&engine->ports);
	struct schedule schedule = {.next_ns = monotonic_ns() + run->interval_ns};
	struct pollfd fds[] = {
		{.fd = run->finished_fd, .events = POLLIN},
		{.fd = STDIN_FILENO, .events = tells ? POLLIN : 0},
	};
	unsigned int finished = 0;

	while (finished < run->worker_count) {
		int timeout_ms = sleep_ms(run, &schedule);
		uint64_t more;

		if (watches_links && (timeout_ms < 0 || timeout_ms > LINK_LOOK_MS))
			timeout_ms = LINK_LOOK_MS;
		watch(engine, fds, timeout_ms);
		if (watches_links)
			ports_each_nic(&engine->ports, nic_trial_look);
		if (tells)
			tell_interval(engine, &schedule);
		if (read(run->finished_fd, &more, sizeof(more)) == (ssize_t)sizeof(more))
			finished += (unsigned int)more;
	}
	for (unsigned int at = 0; at < run->worker_count; at++)
		(void)rte_eal_wait_lcore(engine->workers[at].lcore);
	close(run->finished_fd);
	if (!tells)
		return;
	interval_tell_rest(run);
	report_interval(engine);
	interval_keep(run);
}

void launch_stop(struct engine *engine)
{
	__atomic_store_n(&engine->run.stop, true, __ATOMIC_RELEASE);
	launch_wait(engine);
}
