/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One trial, or one stretch of forwarding without a trial: its streams, its polling threads, what is kept of each of its
 * windows; and the process that has one after the other.
 */
#ifndef NFVPERF_RUN_H
#define NFVPERF_RUN_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "answer.h"
#include "cpu.h"
#include "port.h"
#include "receive.h"
#include "stream.h"

/* What a thread had counted when it first looked after a boundary. */
struct window {
	uint64_t late; /* cycles from the boundary to that look */
	uint64_t sent;
	uint64_t refused;
	uint64_t skipped;
	uint64_t received;
	uint64_t missing; /* frames sent before one that came, and not come themselves */
	uint64_t absent_cycles;
	uint64_t speed; /* most cycles that the probe took, at its end or when the witnesses were asked (cpu.h) */
};

/*
 * Counts of a trial by short windows, such as 10 ms, kept by each polling thread while it runs and
 * told with the answer. The boundaries are a grid from the trial's start, the same for all threads.
 */
struct window_log {
	struct window *kept; /* owned; NULL when none were asked for */
	uint32_t count;
	uint32_t room;
	uint64_t length; /* cycles */
	uint64_t next; /* TSC of the next boundary; UINT64_MAX when none is left */
	uint64_t asked_speed; /* cycles that the probe took when the witnesses were asked in this window; 0: they were not */
	uint64_t refused_undisturbed; /* frames, in windows at whose ends nothing was amiss */
};

/* What may be seen at the end of a window in which the machine disturbed nothing. */
struct undisturbed {
	uint64_t most_speed; /* cycles of the probe; 0: nobody told, all windows count */
	uint64_t most_late; /* cycles that a witness comes late */
	uint64_t most_asked_late; /* cycles from a question to a witness's look */
	uint64_t most_absent; /* cycles */
	uint64_t most_waited_ns; /* that a thread of the DUT waited for its CPU */
};

/* A thread of the DUT, by files of proc(5) that stay open over a trial; -1: nobody tells. */
struct watched {
	int schedstat; /* /proc/pid/task/tid/schedstat */
	int stat; /* /proc/pid/task/tid/stat */
};

struct run;

struct look {
	uint64_t late; /* cycles from the window's end to the look */
	uint64_t speed; /* cycles that the probe took (cpu.h) */
	int64_t waited_ns; /* that the watched thread has waited for its CPU so far, but for this witness's own looks */
	bool stopped; /* a signal or a debugger keeps the watched thread stopped */
	uint64_t asked_late; /* the most cycles from a question in the window to its look; 0: none was asked */
	uint64_t asked_speed; /* the most cycles that the probe took at such a look */
};

/*
 * A thread on a CPU of the DUT that wakes at the end of each window of a trial, says how late it
 * came and how fast that CPU computes, and sleeps again. What it sees is the machine's doing and
 * not the DUT's: a CPU that was taken away, or a core that somebody else uses, too.
 *
 * Much of that is over before a window is. So a polling thread whose frames pile up before a full
 * ring asks for a look at once: either the DUT is too slow, or its CPU is not there.
 *
 * It has a real-time priority, because a poll-mode thread never leaves its CPU by itself; it takes
 * some microseconds of each window.
 */
struct witness {
	unsigned int cpu;
	struct watched watched;
	struct run *run;
	pthread_t thread;
	struct look *kept; /* owned */
	uint32_t count; /* atomic */
	uint32_t room;
	int64_t began_ns; /* what waited_ns was at the start */
	int64_t other_ns; /* added to what another thread has waited, so that the sum goes on where that of the first ended */
	uint64_t took_ns; /* CPU time, over the trial: the DUT waited for so long at least */
	sem_t wanted; /* a look is, before the window's end */
	uint64_t asked; /* TSC of that question, 0 when there is none: atomic */
	struct watched next; /* of the thread that the DUT has there since it was started again */
	bool has_next; /* atomic: taken at the next window's end */
	bool started;
};

struct witnesses {
	struct witness witness[MAX_WITNESSES];
	unsigned int count;
	bool stop; /* atomic */
};

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
	struct stream *answers[MAX_STREAMS]; /* streams that answer are not among the others */
	unsigned int answer_count;
	struct answer_queue *queues[MAX_STREAMS]; /* in which those wait */
	unsigned int queue_count;
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
	bool rejoins; /* a switch that goes is let in again: see rejoin.h */
	uint64_t gap; /* cycles: longer times without a frame of a stream are told; 0: none are */
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
	struct answer_queue *queues[MAX_STREAMS]; /* owned */
	unsigned int queue_count;
	struct worker *workers;
	unsigned int worker_count;
	int finished_fd; /* eventfd: each thread adds 1 when it ends */

	/* shared by the threads: atomic */
	unsigned int ready;
	uint64_t start; /* TSC, 0 until all are ready */
	unsigned int sending; /* streams not yet done, without those that answer */
	uint64_t all_sent; /* TSC when the last stream was done */
	bool complete; /* all sent frames were received */
	bool stop;
	bool halt; /* send no more, receive what is under way, end */
	bool given_up; /* by itself, since more than most_refused were */
	unsigned int asked; /* number of the interval whose counts are asked for */
};

/* Everything one process holds. */
struct engine {
	struct ports ports;
	struct worker workers[MAX_WORKERS];
	unsigned int worker_count;
	struct timebase timebase;
	struct run run;
	bool forwarding; /* without a trial */
	uint8_t last_trial;
	int nice; /* of the polling threads */
	FILE *answers;
	json_int_t request; /* id of the one that is being answered */
	bool quit;
	bool input_closed;
};

/* The body of a polling thread, for rte_eal_remote_launch(). */
int worker_main(void *worker);

#endif
