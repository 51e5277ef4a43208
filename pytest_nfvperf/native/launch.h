/* SPDX-License-Identifier: Apache-2.0 */
/* Gives ports and streams to the polling threads, starts them and waits for them. */
#ifndef NFVPERF_LAUNCH_H
#define NFVPERF_LAUNCH_H

#include "engine.h"

/* Who polls what. NULL, or why it cannot be. */
const char *launch_assign(struct engine *engine);

/* Starts the threads. NULL, or what failed. */
const char *launch_start(struct engine *engine);

/*
 * Sleeps until the threads have ended; where the run has intervals, tells of each, and takes "stop".
 * Stops the threads when stdin is closed.
 */
void launch_wait(struct engine *engine);

void launch_stop(struct engine *engine);

#endif
