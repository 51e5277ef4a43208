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
	MAX_TEMPLATES = 65536,
	MAX_ORDER = 65536, /* frames until templates repeat */
	MAX_FIELDS = 8, /* that vary in a stream's frames */
	MAX_CHECKSUMS = 8, /* that are kept right in them */
	MAX_CHANGEABLE = 32, /* ranges of bytes that the way may change */
	MAX_PLACES = 8, /* of signatures, that a port remembers */
	MAX_FRAME_BYTES = 9216, /* in memory, without FCS */
	MIN_FRAME_BYTES = 60,
	FCS_BYTES = 4,
	MAX_QUEUE_DEPTH = 1 << 20, /* frames that may wait for a full ring */
	MAX_NAME = 64,
	MAX_DEVARGS = 512,
};

#endif
