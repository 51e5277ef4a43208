/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deadline for virtio-user's server mode, whose probe blocks in accept() until a client comes
 * (DPDK drivers/net/virtio/virtio_user/vhost_user.c). When time is up we connect ourselves and
 * hang up, which makes the probe fail.
 */
#ifndef NFVPERF_SOCKWAIT_H
#define NFVPERF_SOCKWAIT_H

#include <pthread.h>
#include <stdbool.h>

#include "sizes.h"

struct sockwait {
	bool running;
	bool expired;
	bool done;
	unsigned int timeout_ms;
	char path[MAX_DEVARGS];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
};

/* Does nothing for devargs that are not of a server socket. */
void sockwait_start(struct sockwait *wait, const char *devargs, unsigned int timeout_ms);

/* True when the deadline struck. */
bool sockwait_stop(struct sockwait *wait);

#endif
