/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that several files agree on. */
#ifndef NFVPERF_SIZES_H
#define NFVPERF_SIZES_H

enum {
	BURST_FRAMES = 32, /* most frames handed to a port at once */
	MAX_STREAMS = 64,
	MAX_PORT_STREAMS = 8, /* that send on one port: each holds a burst of its buffers */
	MAX_WITNESSES = 16,
	MAX_PORTS = 32,
	MAX_ADDRESSES = 16, /* destinations by which a monitor tells copies apart */
	MAX_WORKERS = 32,
	MAX_TEMPLATES = 8,
	MAX_MIX_ORDER = 256, /* frames until a mix of sizes repeats */
	MAX_FRAME_BYTES = 9216, /* in memory, without FCS */
	MIN_FRAME_BYTES = 60,
	FCS_BYTES = 4,
	MAX_QUEUE_DEPTH = 1 << 20, /* frames that may wait for a full ring */
	MAX_NAME = 64,
	MAX_DEVARGS = 512,
};

#endif
