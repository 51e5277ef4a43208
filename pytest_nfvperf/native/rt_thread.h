/* SPDX-License-Identifier: Apache-2.0 */
/* A thread with a real-time priority on one CPU: it runs there at once, whoever polls. Keep it short. */
#ifndef NFVPERF_RT_THREAD_H
#define NFVPERF_RT_THREAD_H

#include <pthread.h>

/* As pthread_create(3): 0, or an error number; EPERM without the right to such a priority (sched(7)). */
int rt_thread_create(pthread_t *thread, unsigned int cpu, void *(*body)(void *), void *opaque);

/* The same at the priority that the caller has. */
int cpu_thread_create(pthread_t *thread, unsigned int cpu, void *(*body)(void *), void *opaque);

#endif
