/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NFVPERF_CONTROL_H
#define NFVPERF_CONTROL_H

#include "engine.h"

/* Reads commands from stdin and answers them until quit or end of input. */
void control_loop(struct engine *engine);

#endif
