/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON-lines protocol (docs/reference/engine-protocol.md). A request is a line of JSON on stdin, with an id and a
 * command, and gets one line of answer.
 */
#ifndef NFVPERF_PROTOCOL_H
#define NFVPERF_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

struct engine;

/* Fills the answer with an error; returns false, so that a command can end with it. */
bool answer_error(json_t *answer, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds an integer. */
void answer_int(json_t *object, const char *key, uint64_t value);

/* Writes a line. */
void answer_write(FILE *to, const json_t *line);

/* Carries out a command by its name, with its own keys alone. Fills the answer; false when it refused. */
typedef bool request_fn(struct engine *engine, const char *name, json_t *request, json_t *answer);

void request_answer(struct engine *engine, const char *line, request_fn *run);

/* Answers one request that came while a trial with intervals runs. False at the end of input. */
bool request_meanwhile(struct engine *engine, request_fn *run);

#endif
