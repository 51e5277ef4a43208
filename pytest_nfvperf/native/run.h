/* SPDX-License-Identifier: Apache-2.0 */
/* One trial, or one stretch of forwarding without a trial: its streams and its polling threads. */
#ifndef NFVPERF_RUN_H
#define NFVPERF_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu.h"
#include "port.h"
#include "stream.h"
#include "receive.h"
#include "window.h"
#include "witness.h"

struct run;

/* How much a polling thread was there, up to the end of an interval. */
struct presence {
	uint64_t at; /* TSC */
	uint64_t absences;
	uint64_t absent_cycles;
	uint64_t busy_cycles;
	uint64_t longest_poll_gap; /* cycles, within the interval */
	uint64_t longest_so_far; /* the same of the interval that runs */
};

struct worker {
	unsigned int lcore;
	unsigned int cpu;
	struct run *run;
	struct stream *streams[MAX_STREAMS];
	unsigned int stream_count;
	struct port *receivers[MAX_PORTS];
	unsigned int receiver_count;
	struct port *forwarders[MAX_PORTS];
	unsigned int forwarder_count;
	struct port *hosts[MAX_PORTS]; /* behind endpoints of this thread */
	unsigned int host_count;
	struct poll_clock clock;
	struct health health;
	bool halted; /* its streams were */
	unsigned int told; /* last interval that was told of: atomic */
	struct presence presence; /* at that time */
	struct window_log windows;
};

struct run {
	uint8_t trial;
	bool forward_only; /* until stopped */
	bool latency;
	bool monitored; /* a monitor is there: how many copies will come nobody knows */
	int nice; /* of the polling threads */
	uint64_t residual; /* cycles to wait after the last frame was sent */
	uint64_t gap_limit; /* cycles */
	uint64_t interval_ns; /* between counts told while it runs; 0: none are */
	uint64_t window; /* cycles between counts kept of a trial, told with its answer; 0: none are */
	uint32_t window_room; /* most windows that are kept */
	struct witnesses witnesses; /* of those windows */
	uint64_t ask_depth; /* frames: when so many more wait for a full ring, they are asked to look; 0: never */
	uint64_t most_refused; /* frames: with more of them it is given up early; UINT64_MAX: never */
	struct undisturbed undisturbed; /* windows: refused frames of others do not count for that */
	struct timebase timebase;
	struct stream *streams;
	unsigned int stream_count;
	struct track *tracks[MAX_STREAMS]; /* of the endpoints, by stream; owned by the ports' table below */
	struct worker *workers;
	unsigned int worker_count;
	int finished_fd; /* eventfd: each thread adds 1 when it ends */

	/* shared by the threads: atomic */
	unsigned int ready;
	uint64_t start; /* TSC, 0 until all are ready */
	unsigned int sending; /* streams not yet done */
	uint64_t all_sent; /* TSC when the last stream was done */
	bool complete; /* all sent frames were received */
	bool stop;
	bool halt; /* send no more, receive what is under way, end */
	bool given_up; /* by itself, since more than most_refused were */
	unsigned int asked; /* number of the interval whose counts are asked for */
};

/* The body of a polling thread, for rte_eal_remote_launch(). */
int worker_main(void *worker);

#endif
