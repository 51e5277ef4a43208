/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NFVPERF_CONNECTED_H
#define NFVPERF_CONNECTED_H

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "check.h"

/* A socket that is connected to the one that listens at this path. */
static inline int connected_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	CHECK(connect(connection, (struct sockaddr *)&address, sizeof(address)) == 0);
	return connection;
}

#endif
