/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NFVPERF_STARTUP_H
#define NFVPERF_STARTUP_H

#include "engine.h"

/*
 * nfvperf-gen --parent PID --nice NICE EAL-ARGUMENTS...
 * Ties our life to the parent's, moves the logs to stderr, initialises DPDK. False, with a
 * message on stderr, when that failed.
 */
bool startup(struct engine *engine, int argc, char **argv);

void shutdown_engine(struct engine *engine);

#endif
