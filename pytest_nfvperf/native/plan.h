/* SPDX-License-Identifier: Apache-2.0 */
/* From the request of a trial to its streams and tracks. */
#ifndef NFVPERF_PLAN_H
#define NFVPERF_PLAN_H

#include <jansson.h>

#include "engine.h"

/* Fills engine->run. False, with the answer filled, when the request cannot be run. */
bool plan_trial(struct engine *engine, json_t *request, json_t *answer);

/* Frees what the plan made. Can be called after a plan that failed. */
void plan_free(struct engine *engine);

#endif
