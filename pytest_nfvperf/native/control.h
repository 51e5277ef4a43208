/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NFVPERF_CONTROL_H
#define NFVPERF_CONTROL_H

#include "engine.h"

/* Reads commands from stdin and answers them until quit or end of input. */
void control_loop(struct engine *engine);

/* Answers one request that came while a trial with intervals runs. False at the end of input. */
bool control_meanwhile(struct engine *engine);

#endif
