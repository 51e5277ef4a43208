/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "cpu.h"

static uint64_t involuntary_switches(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nivcsw : 0;
}

/* Second field: time spent waiting on a run queue (kernel Documentation/scheduler/sched-stats). */
static bool run_delay(uint64_t *ns)
{
	FILE *file = fopen("/proc/thread-self/schedstat", "re");
	bool known;

	if (file == NULL)
		return false;
	known = fscanf(file, "%*u %" SCNu64, ns) == 1;
	fclose(file);
	return known;
}

void health_begin(struct health *health)
{
	memset(health, 0, sizeof(*health));
	health->preemptions = involuntary_switches();
	health->run_delay_known = run_delay(&health->run_delay_ns);
}

void health_end(struct health *health)
{
	uint64_t now = 0;

	health->preemptions = involuntary_switches() - health->preemptions;
	health->run_delay_known = health->run_delay_known && run_delay(&now);
	health->run_delay_ns = health->run_delay_known ? now - health->run_delay_ns : 0;
}

int cpu_thread_create(pthread_t *thread, unsigned int cpu, bool real_time, void *(*body)(void *), void *opaque)
{
	pthread_attr_t attributes;
	cpu_set_t cpus;
	int error = pthread_attr_init(&attributes);

	if (error != 0)
		return error;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	error = pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
	if (real_time) {
		(void)pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
		(void)pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
		(void)pthread_attr_setschedparam(&attributes, &(struct sched_param){.sched_priority = 1});
	}
	if (error == 0)
		error = pthread_create(thread, &attributes, body, opaque);
	pthread_attr_destroy(&attributes);
	return error;
}
