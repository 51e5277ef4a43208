/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switches that go and come back while a trial runs: a restart, or a far end that hangs up.
 *
 * The control thread sees the socket of a ring close, and has the polling thread leave that ring alone; what is due
 * there meanwhile is refused. When the switch connects again, it makes the ring anew and hands it back.
 */
#ifndef NFVPERF_REJOIN_H
#define NFVPERF_REJOIN_H

#include <poll.h>

#include "run.h"

/* Control thread, before the polling threads start, and once they have ended: who hung up listens again. */
void rejoin_begin(struct ports *ports);
void rejoin_end(struct ports *ports);

/* Control thread: adds what it waits for to `fds`, at most MAX_PORTS, and returns how many; shortens the timeout. */
unsigned int rejoin_wait(const struct ports *ports, struct pollfd *fds, int *timeout_ms);

/* Control thread: notes which switches went, and lets in those that are there again. */
void rejoin_turn(struct ports *ports);

/* Control thread: the far end of a ring hangs up and listens no more, or listens again. NULL, or why it cannot. */
const char *rejoin_set_link(struct port *port, bool up);

/* Polling thread: leaves the rings alone whose switch went, once all is read, and takes them again. */
void rejoin_look(struct worker *worker);

#endif
