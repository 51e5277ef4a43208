/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>

#include <rte_common.h>

#include "answer.h"
#include "plan_windows.h"

enum {
	SHORTEST_WINDOW_NS = 1000000,
	MOST_WINDOWS = 100000, /* 104 bytes each and thread, and a row of the answer */
};

static bool plan_witness(struct witness *witness, json_t *told)
{
	json_int_t cpu, process = 0, thread = 0;

	if (json_unpack_ex(told, NULL, JSON_STRICT, "{s:I, s?I, s?I}", "cpu", &cpu, "process", &process, "thread",
			   &thread) != 0 || cpu < 0 || cpu >= CPU_SETSIZE)
		return false;
	witness->cpu = (unsigned int)cpu;
	watched_open(&witness->watched, process, thread);
	return true;
}

static bool plan_witnesses(struct witnesses *witnesses, json_t *told)
{
	size_t at;
	json_t *one;

	if (told == NULL)
		return true;
	if (!json_is_array(told) || json_array_size(told) > MAX_WITNESSES)
		return false;
	json_array_foreach(told, at, one) {
		if (!plan_witness(&witnesses->witness[at], one))
			return false;
		witnesses->count++;
	}
	return true;
}

/* Absent: refused frames of all windows count. */
static bool plan_undisturbed(struct run *run, json_t *told, json_t *answer)
{
	json_int_t speed = 0, late_ns = 0, asked_late_ns = 0, absent_ns = 0, waited_ns = 0;
	json_error_t error;

	if (told == NULL)
		return true;
	if (json_unpack_ex(told, &error, JSON_STRICT, "{s:I, s:I, s:I, s:I, s:I}", "most_speed", &speed, "most_late_ns",
			   &late_ns, "most_asked_late_ns", &asked_late_ns, "most_absent_ns", &absent_ns,
			   "most_waited_ns", &waited_ns) != 0)
		return answer_error(answer, "bad_request", "undisturbed: %s", error.text);
	if (speed < 1 || late_ns < 0 || asked_late_ns < 0 || absent_ns < 0 || waited_ns < 0)
		return answer_error(answer, "bad_request", "undisturbed: most_speed must be 1 or more, the others 0 or more");
	run->undisturbed = (struct undisturbed){
		.most_speed = (uint64_t)speed,
		.most_late = ns_to_cycles(&run->timebase, (uint64_t)late_ns),
		.most_asked_late = ns_to_cycles(&run->timebase, (uint64_t)asked_late_ns),
		.most_absent = ns_to_cycles(&run->timebase, (uint64_t)absent_ns),
		.most_waited_ns = (uint64_t)waited_ns,
	};
	return true;
}

bool plan_windows(struct run *run, json_int_t window_ns, const struct window_wishes *wishes, json_t *answer)
{
	uint64_t longest = 0, windows;

	if (window_ns == 0)
		return true;
	if (!plan_undisturbed(run, wishes->undisturbed, answer))
		return false;
	if (wishes->ask_depth < 0 || wishes->ask_depth > MAX_QUEUE_DEPTH)
		return answer_error(answer, "bad_request", "ask_depth must be 0..%d frames", MAX_QUEUE_DEPTH);
	run->ask_depth = (uint64_t)wishes->ask_depth;
	if (window_ns < SHORTEST_WINDOW_NS)
		return answer_error(answer, "bad_request", "window_ns must be %d or more, or 0 for none",
				    SHORTEST_WINDOW_NS);
	for (unsigned int at = 0; at < run->stream_count; at++)
		longest = RTE_MAX(longest, run->streams[at].pacer.frames / run->streams[at].fps + 1);
	run->window = ns_to_cycles(&run->timebase, (uint64_t)window_ns);
	windows = (longest * run->timebase.hz + run->residual) / run->window + 1;
	if (windows > MOST_WINDOWS)
		return answer_error(answer, "bad_request", "window_ns is too short for this trial: more than %d windows",
				    MOST_WINDOWS);
	run->window_room = (uint32_t)windows;
	if (!plan_witnesses(&run->witnesses, wishes->witnesses))
		return answer_error(answer, "bad_request",
				    "witnesses must be a list of at most %d objects with cpu, process, thread", MAX_WITNESSES);
	return true;
}
