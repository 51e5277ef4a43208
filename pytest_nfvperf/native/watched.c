/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watched.h"

static int open_of(long long process, long long thread, const char *name)
{
	char path[sizeof("/proc//task//schedstat") + 2 * 20];

	(void)snprintf(path, sizeof(path), "/proc/%lld/task/%lld/%s", process, thread, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Returns false where nothing could be read. */
static bool text_of(int file, char *text, size_t size)
{
	ssize_t length = file < 0 ? 0 : pread(file, text, size - 1, 0);

	if (length <= 0)
		return false;
	text[length] = '\0';
	return true;
}

void watched_open(struct watched *watched, long long process, long long thread)
{
	bool any = process > 0 && thread > 0;

	watched->schedstat = any ? open_of(process, thread, "schedstat") : -1;
	watched->stat = any ? open_of(process, thread, "stat") : -1;
}

struct scheduled watched_look(const struct watched *watched)
{
	struct scheduled seen = {0};
	char text[64];
	char *rest;

	if (!text_of(watched->schedstat, text, sizeof(text)))
		return seen;
	seen.ran_ns = strtoull(text, &rest, 10);
	seen.waited_ns = strtoull(rest, NULL, 10);
	return seen;
}

bool watched_stopped(const struct watched *watched)
{
	char text[64]; /* a thread's name has at most 15 characters, and its state follows it */
	const char *name_end;

	if (!text_of(watched->stat, text, sizeof(text)))
		return false;
	name_end = strrchr(text, ')');
	return name_end != NULL && (strncmp(name_end, ") T", 3) == 0 || strncmp(name_end, ") t", 3) == 0);
}

void watched_close(struct watched *watched)
{
	if (watched->schedstat >= 0)
		(void)close(watched->schedstat);
	if (watched->stat >= 0)
		(void)close(watched->stat);
}
