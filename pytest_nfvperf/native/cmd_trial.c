/* SPDX-License-Identifier: Apache-2.0 */
/* trial, learn, forward */
#include <string.h>

#include "answer.h"
#include "commands.h"
#include "launch.h"
#include "plan.h"
#include "report.h"
#include "windows.h"
#include "witnesses.h"

static const char *plan_all_windows(struct engine *engine)
{
	for (unsigned int at = 0; at < engine->worker_count; at++)
		if (!window_plan(&engine->workers[at], &engine->run))
			return "no memory for the windows";
	return NULL;
}

static bool run_to_end(struct engine *engine, json_t *answer)
{
	const char *wrong = launch_assign(engine);

	if (wrong == NULL)
		wrong = plan_all_windows(engine);
	if (wrong == NULL && !witnesses_start(&engine->run.witnesses, &engine->run))
		engine->run.witnesses.stop = true; /* the run says nothing of those CPUs */
	/* What the ports' devices count, right before the polling threads start, and once they have ended. */
	ports_each_nic(&engine->ports, nic_trial_begin);
	if (wrong == NULL)
		wrong = launch_start(engine);
	if (wrong == NULL)
		launch_wait(engine);
	ports_each_nic(&engine->ports, nic_trial_end);
	witnesses_stop(&engine->run.witnesses);
	if (wrong == NULL)
		report_run(engine, answer);
	witnesses_report(&engine->run, answer);
	return wrong == NULL || answer_error(answer, "cannot_run", "%s", wrong);
}

bool command_trial(struct engine *engine, json_t *request, json_t *answer)
{
	bool done = plan_trial(engine, request, answer) && run_to_end(engine, answer);

	plan_free(engine);
	return done;
}

/* A short trial whose counts nobody judges: bridges learn the addresses of both ends. */
bool command_learn(struct engine *engine, json_t *request, json_t *answer)
{
	bool done;

	json_object_set_new(request, "latency", json_false());
	done = plan_trial(engine, request, answer) && run_to_end(engine, answer);
	plan_free(engine);
	return done;
}

static bool forward_begin(struct engine *engine, json_t *answer)
{
	struct run *run = &engine->run;
	const char *wrong;

	if (engine->forwarding)
		return answer_error(answer, "busy", "forwarding goes on already");
	memset(run, 0, sizeof(*run));
	run->forward_only = true;
	run->timebase = engine->timebase;
	run->nice = engine->nice;
	run->gap_limit = ns_to_cycles(&engine->timebase, 1000000);
	for (int at = 0; at < MAX_PORTS; at++)
		memset(&engine->ports.port[at].forwarded, 0, sizeof(engine->ports.port[at].forwarded));
	wrong = launch_assign(engine);
	if (wrong == NULL)
		wrong = launch_start(engine);
	if (wrong != NULL)
		return answer_error(answer, "cannot_run", "%s", wrong);
	engine->forwarding = true;
	return true;
}

void forward_end(struct engine *engine)
{
	if (engine->forwarding)
		launch_stop(engine);
	engine->forwarding = false;
}

bool command_forward(struct engine *engine, json_t *request, json_t *answer)
{
	json_error_t error;
	const char *action;

	if (json_unpack_ex(request, &error, JSON_STRICT, "{s:s}", "action", &action) != 0)
		return answer_error(answer, "bad_request", "forward: %s", error.text);
	if (strcmp(action, "start") == 0)
		return forward_begin(engine, answer);
	if (strcmp(action, "stop") != 0)
		return answer_error(answer, "bad_request", "action must be start or stop, not \"%s\"", action);
	if (!engine->forwarding)
		return answer_error(answer, "not_forwarding", "nothing to stop");
	forward_end(engine);
	report_run(engine, answer);
	return true;
}
