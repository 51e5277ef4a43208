/* SPDX-License-Identifier: Apache-2.0 */
/* The commands. Each fills the answer and returns false when it refused. */
#ifndef NFVPERF_COMMANDS_H
#define NFVPERF_COMMANDS_H

#include <stdbool.h>

#include <jansson.h>

#include "engine.h"

typedef bool command_fn(struct engine *engine, json_t *request, json_t *answer);

command_fn command_hello;
command_fn command_attach;
command_fn command_detach;
command_fn command_distance;
command_fn command_links;
command_fn command_stats;
command_fn command_trial;
command_fn command_learn;
command_fn command_forward;
command_fn command_quit;
command_fn command_stop;

/* Ends forwarding without a trial, if it goes on. */
void forward_end(struct engine *engine);

#endif
