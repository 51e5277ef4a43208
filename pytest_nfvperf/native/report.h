/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NFVPERF_REPORT_H
#define NFVPERF_REPORT_H

#include <jansson.h>

#include "engine.h"

/* One line with what the running trial has counted up to the end of an interval. */
void report_interval(const struct engine *engine);

/* Adds those of these that a device counts. */
void report_lost(json_t *object, const struct nic_counts *counts);

/* What the finished run counted, into the answer. */
void report_run(const struct engine *engine, json_t *answer);

#endif
