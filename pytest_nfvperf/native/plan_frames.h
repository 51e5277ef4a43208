/* SPDX-License-Identifier: Apache-2.0 */
/* From the request of a stream to its frames. */
#ifndef NFVPERF_PLAN_FRAMES_H
#define NFVPERF_PLAN_FRAMES_H

#include <jansson.h>

#include "template.h"

struct frames_request {
	json_t *templates, *signatures, *order, *fields, *checksums, *changeable, *balances;
	json_int_t combinations, compared_from;
};

/* False, with the answer filled, when they cannot be sent. What was made of them until then is freed with the set. */
bool plan_frames(struct frame_set *set, const struct frames_request *want, json_t *answer);

#endif
