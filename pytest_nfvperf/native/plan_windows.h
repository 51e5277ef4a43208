/* SPDX-License-Identifier: Apache-2.0 */
/* From a trial's request to its windows and witnesses. */
#ifndef NFVPERF_PLAN_WINDOWS_H
#define NFVPERF_PLAN_WINDOWS_H

#include <stdbool.h>

#include <jansson.h>

#include "run.h"

/* Parts of the request; NULL where absent. */
struct window_wishes {
	json_t *witnesses;
	json_t *undisturbed;
	json_int_t ask_depth; /* frames; 0: nobody asks the witnesses */
};

/*
 * Room for all windows of the trial, and for one that the last look is in. window_ns 0: none are kept. False, with the
 * answer filled, when the request is wrong.
 */
bool plan_windows(struct run *run, json_int_t window_ns, const struct window_wishes *wishes, json_t *answer);

#endif
