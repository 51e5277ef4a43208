/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"
#include "sockwait.h"

/* Connects to the socket at this path and hangs up. 0, or errno. */
static int touch(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ret = 0;

	if (fd < 0)
		return errno;
	memcpy(address.sun_path, path, strnlen(path, sizeof(address.sun_path) - 1));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		ret = errno;
	close(fd);
	return ret;
}

/* A killed process leaves its socket, and bind() would fail. One that somebody listens on stays. */
static void remove_stale(const char *path)
{
	if (touch(path) == ECONNREFUSED)
		(void)unlink(path);
}

static void *watch(void *opaque)
{
	struct sockwait *wait = opaque;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += wait->timeout_ms / 1000;
	until.tv_nsec += (long)(wait->timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&wait->lock);
	while (!wait->done && pthread_cond_timedwait(&wait->wake, &wait->lock, &until) == 0)
		;
	wait->expired = !wait->done;
	pthread_mutex_unlock(&wait->lock);
	if (wait->expired)
		(void)touch(wait->path);
	return NULL;
}

void sockwait_start(struct sockwait *wait, const char *devargs, unsigned int timeout_ms)
{
	pthread_condattr_t monotonic;
	char server[8];

	memset(wait, 0, sizeof(*wait));
	if (!devargs_value(devargs, "server", server, sizeof(server)) || strcmp(server, "1") != 0 ||
	    !devargs_value(devargs, "path", wait->path, sizeof(wait->path)))
		return;
	remove_stale(wait->path);
	wait->timeout_ms = timeout_ms;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&wait->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&wait->lock, NULL);
	wait->running = pthread_create(&wait->thread, NULL, watch, wait) == 0;
}

bool sockwait_stop(struct sockwait *wait)
{
	if (!wait->running)
		return false;
	pthread_mutex_lock(&wait->lock);
	wait->done = true;
	pthread_cond_signal(&wait->wake);
	pthread_mutex_unlock(&wait->lock);
	pthread_join(wait->thread, NULL);
	pthread_cond_destroy(&wait->wake);
	pthread_mutex_destroy(&wait->lock);
	return wait->expired;
}
