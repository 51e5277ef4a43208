/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the witnesses of a trial (witness.h), and tells what they saw. */
#ifndef NFVPERF_WITNESSES_H
#define NFVPERF_WITNESSES_H

#include <stdbool.h>

#include <jansson.h>

#include "run.h"

/* Starts one on each CPU, before the run. False, with the reason, when one could not be: the run goes on without. */
bool witnesses_start(struct witnesses *witnesses, struct run *run);

/* Polling thread: asks all of them to look now. A question that is still open is not asked again. */
void witnesses_ask(struct witnesses *witnesses, uint64_t now);

/* Ends them: within a window. */
void witnesses_stop(struct witnesses *witnesses);

/* Adds to the answer what each of them saw, if there are any, and frees it. */
void witnesses_report(struct run *run, json_t *answer);

#endif
