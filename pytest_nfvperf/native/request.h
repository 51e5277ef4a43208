/* SPDX-License-Identifier: Apache-2.0 */
/* A request: a line of JSON on stdin, with an id and a command, that gets one line of answer. */
#ifndef NFVPERF_REQUEST_H
#define NFVPERF_REQUEST_H

#include <stdbool.h>

#include <jansson.h>

#include "engine.h"

/* Carries out a command by its name, with its own keys alone. Fills the answer; false when it refused. */
typedef bool request_fn(struct engine *engine, const char *name, json_t *request, json_t *answer);

void request_answer(struct engine *engine, const char *line, request_fn *run);

/* Answers one request that came while a trial with intervals runs. False at the end of input. */
bool request_meanwhile(struct engine *engine);

#endif
