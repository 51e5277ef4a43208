/* SPDX-License-Identifier: Apache-2.0 */
/* distance */
#include <rte_launch.h>

#include "answer.h"
#include "commands.h"
#include "distance.h"

enum {
	DEFAULT_TURNS = 1000,
	DEFAULT_LIMIT_NS = 10000000,
	LONGEST_LIMIT_NS = 100000000,
};

static json_t *report_distance(const struct engine *engine, const struct worker *worker, const struct rally *rally)
{
	const struct distance *found = &rally->result;
	json_t *object = json_object();

	answer_int(object, "worker_cpu", worker->cpu);
	answer_int(object, "cpu", rally->cpu);
	answer_int(object, "turns", found->turns);
	json_object_set_new(object, "preempted", json_boolean(found->preempted));
	if (found->turns > 0) {
		answer_int(object, "median_ns", cycles_to_ns(&engine->timebase, found->median));
		answer_int(object, "low_ns", cycles_to_ns(&engine->timebase, found->low));
		answer_int(object, "speed", found->speed);
		answer_int(object, "other_speed", found->other_speed);
	}
	return object;
}

/* Without figures where a polling thread is on that very CPU: there is no way between the two. */
static bool measure_pair(struct engine *engine, struct worker *worker, struct rally rally, json_t *pairs, json_t *answer)
{
	if (worker->cpu == rally.cpu)
		return answer_error(answer, "bad_request", "CPU %u is a polling thread's own", rally.cpu);
	if (rte_eal_remote_launch(distance_main, &rally, worker->lcore) != 0)
		return answer_error(answer, "cannot_run", "a polling thread is still busy");
	(void)rte_eal_wait_lcore(worker->lcore);
	if (rally.wrong != NULL)
		return answer_error(answer, "cannot_run", "no thread on CPU %u: %s", rally.cpu, rally.wrong);
	json_array_append_new(pairs, report_distance(engine, worker, &rally));
	return true;
}

static bool measure_pairs(struct engine *engine, const json_t *cpus, const struct rally *asked, json_t *answer)
{
	json_t *pairs = json_array();
	size_t index;
	json_t *cpu;

	json_object_set_new(answer, "distances", pairs);
	json_array_foreach(cpus, index, cpu) {
		struct rally rally = *asked;

		if (!json_is_integer(cpu) || json_integer_value(cpu) < 0)
			return answer_error(answer, "bad_request", "distance: cpus must be CPU numbers");
		rally.cpu = (unsigned int)json_integer_value(cpu);
		for (unsigned int at = 0; at < engine->worker_count; at++)
			if (!measure_pair(engine, &engine->workers[at], rally, pairs, answer))
				return false;
	}
	return true;
}

bool command_distance(struct engine *engine, json_t *request, json_t *answer)
{
	json_int_t turns = DEFAULT_TURNS, limit_ns = DEFAULT_LIMIT_NS;
	json_error_t error;
	json_t *cpus;

	if (json_unpack_ex(request, &error, JSON_STRICT, "{s:o, s?I, s?I}", "cpus", &cpus, "turns", &turns, "limit_ns",
			   &limit_ns) != 0)
		return answer_error(answer, "bad_request", "distance: %s", error.text);
	if (!json_is_array(cpus) || json_array_size(cpus) == 0)
		return answer_error(answer, "bad_request", "distance: cpus must be a list of CPU numbers");
	if (turns < 10 || turns > DISTANCE_TURNS_MAX || limit_ns < 1 || limit_ns > LONGEST_LIMIT_NS)
		return answer_error(answer, "bad_request", "distance: turns must be 10..%d, limit_ns 1..%d",
				    DISTANCE_TURNS_MAX, LONGEST_LIMIT_NS);
	return measure_pairs(engine, cpus,
			     &(struct rally){.turns = (unsigned int)turns,
					     .limit = ns_to_cycles(&engine->timebase, (uint64_t)limit_ns)},
			     answer);
}
