/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a trial's counts by windows (window.h), and tells them. */
#ifndef NFVPERF_WINDOWS_H
#define NFVPERF_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "run.h"

/* Control thread, before the trial: false when memory is short. */
bool window_plan(struct worker *worker, const struct run *run);
void window_free(struct worker *worker);

/* Polling thread: the first boundary. */
void window_begin(struct window_log *log, uint64_t start);

/* Polling thread, at a look at the clock behind a boundary: keeps what it has counted. */
void window_keep(struct worker *worker, uint64_t now);

/* Control thread, after the trial: what each window had, by thread. */
json_t *window_report(const struct run *run, const struct worker *worker);

#endif
