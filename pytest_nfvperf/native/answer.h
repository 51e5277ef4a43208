/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the JSON-lines protocol (docs/reference/engine-protocol.md). */
#ifndef NFVPERF_ANSWER_H
#define NFVPERF_ANSWER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

/* Fills the answer with an error; returns false, so that a command can end with it. */
bool answer_error(json_t *answer, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Writes it as one line. */
void answer_write(FILE *to, const json_t *answer);

/* Adds an integer. */
void answer_int(json_t *object, const char *key, uint64_t value);

#endif
