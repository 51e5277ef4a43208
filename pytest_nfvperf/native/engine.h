/* SPDX-License-Identifier: Apache-2.0 */
/* Everything one process holds. */
#ifndef NFVPERF_ENGINE_H
#define NFVPERF_ENGINE_H

#include <stdio.h>

#include <jansson.h>

#include "port.h"
#include "run.h"

#define NFVPERF_GEN_VERSION "1.0"
#define PROTOCOL_VERSION 1

struct engine {
	struct ports ports;
	struct worker workers[MAX_WORKERS];
	unsigned int worker_count;
	struct timebase timebase;
	struct run run;
	bool forwarding; /* without a trial */
	uint8_t last_trial;
	int nice; /* of the polling threads */
	FILE *answers;
	json_int_t request; /* id of the one that is being answered */
	bool quit;
	bool input_closed;
};

#endif
