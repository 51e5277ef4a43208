/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, and what they have in common. */
#ifndef NFVPERF_COMMANDS_H
#define NFVPERF_COMMANDS_H

#include <stdbool.h>

#include <jansson.h>

#include "run.h"

/* Each fills the answer and returns false when it refused. */
typedef bool command_fn(struct engine *engine, json_t *request, json_t *answer);

command_fn command_attach;
command_fn command_detach;
command_fn command_distance;
command_fn command_links;
command_fn command_stats;
command_fn command_trial;
command_fn command_learn;
command_fn command_forward;

/* Ends forwarding without a trial, if it goes on. */
void forward_end(struct engine *engine);

/* ---- plan.c: from the request of a trial to its streams, tracks, windows and witnesses */

/* Fills engine->run. False, with the answer filled, when the request cannot be run. */
bool plan_trial(struct engine *engine, json_t *request, json_t *answer);

/* Frees what the plan made. Can be called after a plan that failed. */
void plan_free(struct engine *engine);

/* ---- plan_answers.c: of conversations. Those that give a bool fill the answer where it is false. */

/* Of a stream whose ends are known: it answers the earlier streams with these indexes. */
bool plan_answers(struct run *run, struct stream *stream, const json_t *indexes, json_t *answer);

/* It sends so many frames, those that came of the earlier stream with this index. */
bool plan_after(struct run *run, struct stream *stream, json_int_t index, json_int_t frames, json_t *answer);

/* When all tracks are there: what arrives is answered from then on. Says which stream is the last of its conversation. */
bool plan_conversations(struct engine *engine, json_t *answer);

void conversations_free(struct run *run);

/* ---- report.c */

/* Adds those of these that a device counts, and returns the object. */
json_t *report_lost(json_t *object, const struct nic_counts *counts);

/* What the finished run counted, into the answer. */
void report_run(const struct engine *engine, json_t *answer);

#endif
