/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps what polling threads count and witnesses see of each window of a trial, and tells it (run.h). */
#ifndef NFVPERF_WINDOWS_H
#define NFVPERF_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "run.h"

/* Control thread, before the trial: room for the windows of all polling threads. False when memory is short. */
bool windows_plan(struct engine *engine);
void windows_free(struct engine *engine);

/* Polling thread, at a look at the clock behind a boundary: keeps what it has counted. */
void window_keep(struct worker *worker, uint64_t now);

/* Control thread, after the trial: what each window had, by thread. */
json_t *window_report(const struct run *run, const struct worker *worker);

/* ---- witnesses */

/* Before they start: has its witness watch a thread. A process of 0: none is watched. */
void watched_open(struct watched *watched, long long process, long long thread);

/* While they run: the DUT was started again, and has this thread on that CPU. False where no witness takes it. */
bool witnesses_watch(struct witnesses *witnesses, unsigned int cpu, long long process, long long thread);

/* Starts one on each CPU, before the run. False, with the reason, when one could not be: the run goes on without. */
bool witnesses_start(struct witnesses *witnesses, struct run *run);

/* Polling thread: asks all of them to look now. A question that is still open is not asked again. */
void witnesses_ask(struct witnesses *witnesses, uint64_t now);

/* Ends them: within a window. */
void witnesses_stop(struct witnesses *witnesses);

/* Adds to the answer what each of them saw, if there are any, and frees it. */
void witnesses_report(struct run *run, json_t *answer);

#endif
