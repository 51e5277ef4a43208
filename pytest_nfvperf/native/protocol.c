/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"
#include "run.h"

bool answer_error(json_t *answer, const char *code, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	json_object_set_new(answer, "ok", json_false());
	json_object_set_new(answer, "code", json_string(code));
	/* A message may quote bytes of the request that are no UTF-8. */
	if (json_object_set_new(answer, "error", json_string(text)) != 0)
		json_object_set_new(answer, "error", json_string("error message is not valid UTF-8"));
	return false;
}

void answer_write(FILE *to, const json_t *line)
{
	json_dumpf(line, to, JSON_COMPACT);
	fputc('\n', to);
	fflush(to);
}

void answer_int(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static bool run_request(struct engine *engine, json_t *request, json_t *answer, request_fn *run)
{
	json_t *id = json_object_get(request, "id");
	json_t *name = json_object_get(request, "cmd");
	char command[32];

	if (!json_is_integer(id))
		return answer_error(answer, "bad_request", "a request needs an integer \"id\"");
	json_object_set(answer, "id", id);
	engine->request = json_integer_value(id);
	if (!json_is_string(name))
		return answer_error(answer, "bad_request", "a request needs a \"cmd\"");
	snprintf(command, sizeof(command), "%s", json_string_value(name));
	/* Commands see, and check strictly, only their own keys. */
	json_object_del(request, "id");
	json_object_del(request, "cmd");
	return run(engine, command, request, answer);
}

void request_answer(struct engine *engine, const char *line, request_fn *run)
{
	json_error_t error;
	json_t *request = json_loads(line, JSON_REJECT_DUPLICATES, &error);
	json_t *answer = json_pack("{s:n, s:b}", "id", "ok", 1);

	if (request == NULL)
		answer_error(answer, "bad_json", "not JSON: %s (column %d)", error.text, error.column);
	else if (!json_is_object(request))
		answer_error(answer, "bad_request", "a request must be a JSON object");
	else
		run_request(engine, request, answer, run);
	answer_write(engine->answers, answer);
	json_decref(answer);
	json_decref(request);
}

bool request_meanwhile(struct engine *engine, request_fn *run)
{
	char *line = NULL;
	size_t size = 0;
	bool there = getline(&line, &size, stdin) > 0;
	json_int_t trial = engine->request;

	if (there)
		request_answer(engine, line, run);
	engine->request = trial;
	free(line);
	return there;
}
