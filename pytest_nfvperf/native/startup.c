/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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

#include "startup.h"

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

bool startup(struct engine *engine, int argc, char **argv)
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

void shutdown_engine(struct engine *engine)
{
	for (int at = 0; at < MAX_PORTS; at++)
		if (engine->ports.port[at].used)
			port_detach(&engine->ports, &engine->ports.port[at]);
	(void)rte_eal_cleanup();
}
