/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdbool.h>

#include "rt_thread.h"

static void prefer(pthread_attr_t *attributes)
{
	struct sched_param priority = {.sched_priority = 1};

	(void)pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
	(void)pthread_attr_setschedpolicy(attributes, SCHED_FIFO);
	(void)pthread_attr_setschedparam(attributes, &priority);
}

static int create(pthread_t *thread, unsigned int cpu, bool real_time, void *(*body)(void *), void *opaque)
{
	pthread_attr_t attributes;
	cpu_set_t cpus;
	int error = pthread_attr_init(&attributes);

	if (error != 0)
		return error;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	error = pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
	if (real_time)
		prefer(&attributes);
	if (error == 0)
		error = pthread_create(thread, &attributes, body, opaque);
	pthread_attr_destroy(&attributes);
	return error;
}

int rt_thread_create(pthread_t *thread, unsigned int cpu, void *(*body)(void *), void *opaque)
{
	return create(thread, cpu, true, body, opaque);
}

int cpu_thread_create(pthread_t *thread, unsigned int cpu, void *(*body)(void *), void *opaque)
{
	return create(thread, cpu, false, body, opaque);
}
