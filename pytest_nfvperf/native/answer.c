/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "answer.h"

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

void answer_write(FILE *to, const json_t *answer)
{
	json_dumpf(answer, to, JSON_COMPACT);
	fputc('\n', to);
	fflush(to);
}

void answer_int(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}
