/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "sizes.h"
#include "pacer.h"

void pacer_init(struct pacer *pacer, uint64_t hz, uint64_t fps, uint64_t frames, uint64_t slack, uint64_t ring_share)
{
	memset(pacer, 0, sizeof(*pacer));
	pacer->frames = frames;
	pacer->frames_per_cycle = (uint64_t)(((__uint128_t)fps << 64) / hz);
	pacer->cycles_per_frame = (uint64_t)(((__uint128_t)hz << 32) / fps);
	pacer->backlog_limit = (uint64_t)((__uint128_t)slack * pacer->frames_per_cycle >> 64);
	if (pacer->backlog_limit > ring_share)
		pacer->backlog_limit = ring_share;
	if (pacer->backlog_limit < BURST_FRAMES)
		pacer->backlog_limit = BURST_FRAMES;
}
