/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "plan_frames.h"

static int nibble(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	return -1;
}

/* Lower-case hex into bytes; the length, or 0 for what is not hex or too long. */
static size_t unhex(const char *hex, uint8_t *bytes, size_t size)
{
	size_t length = strlen(hex) / 2;

	if (strlen(hex) % 2 != 0 || length > size)
		return 0;
	for (size_t at = 0; at < length; at++) {
		int high = nibble(hex[2 * at]);
		int low = nibble(hex[2 * at + 1]);

		if (high < 0 || low < 0)
			return 0;
		bytes[at] = (uint8_t)(high << 4 | low);
	}
	return length;
}

static bool add_templates(struct frame_set *set, const struct frames_request *want, json_t *answer)
{
	uint8_t bytes[MAX_FRAME_BYTES];
	size_t index;
	json_t *item;

	if (json_array_size(want->templates) == 0)
		return answer_error(answer, "bad_template", "a stream needs at least one template");
	if (json_array_size(want->signatures) != json_array_size(want->templates))
		return answer_error(answer, "bad_template", "signatures must have one offset for each template: %zu for %zu",
				    json_array_size(want->signatures), json_array_size(want->templates));
	json_array_foreach(want->templates, index, item) {
		json_int_t signature = json_integer_value(json_array_get(want->signatures, index));
		const char *hex = json_string_value(item);
		size_t length = hex != NULL ? unhex(hex, bytes, sizeof(bytes)) : 0;
		const char *wrong = "not lower-case hex, or too long";

		if (length > 0)
			wrong = frame_set_add(set, bytes, length, signature > 0 ? (size_t)signature : 0);
		if (wrong != NULL)
			return answer_error(answer, "bad_template", "template %zu: %s", index, wrong);
	}
	return true;
}

/* A whole number below 2^64: above JSON's own range as a decimal string. */
static bool wide_number(const json_t *value, uint64_t *number)
{
	const char *text = json_string_value(value);
	char *end;

	if (json_is_integer(value)) {
		*number = (uint64_t)json_integer_value(value);
		return json_integer_value(value) >= 0;
	}
	if (text == NULL || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0';
}

static bool add_field(struct frame_set *set, unsigned int which, json_t *object, json_t *answer)
{
	json_int_t offset, size, shift = 0, bits, count, every = 1, seed = 0;
	json_t *first, *step = NULL;
	int random = 0;
	struct field *field = &set->field[which];
	json_error_t error;

	if (json_unpack_ex(object, &error, JSON_STRICT, "{s:I, s:I, s?I, s:I, s:o, s?o, s:I, s?I, s?I, s?b}", "offset", &offset,
			   "size", &size, "shift", &shift, "bits", &bits, "first", &first, "step", &step, "count", &count,
			   "every", &every, "seed", &seed, "random", &random) != 0)
		return answer_error(answer, "bad_request", "fields[%u]: %s", which, error.text);
	*field = (struct field){.random = random, .seed = (uint32_t)seed, .step = 1};
	if (!wide_number(first, &field->first) || (step != NULL && !wide_number(step, &field->step)))
		return answer_error(answer, "bad_request", "fields[%u]: first and step must be 0 to 2^64 - 1", which);
	if (offset < 0 || offset > MAX_FRAME_BYTES || size < 0 || size > 8 || shift < 0 || shift > 63 || bits < 0 ||
	    bits > 64 || count < 0 || every < 0 || seed < 0 || seed > UINT32_MAX)
		return answer_error(answer, "bad_request", "fields[%u]: a number is out of range", which);
	field->offset = (uint16_t)offset;
	field->size = (uint8_t)size;
	field->shift = (uint8_t)shift;
	field->bits = (uint8_t)bits;
	field->count = (uint64_t)count;
	field->every = (uint64_t)every;
	return true;
}

/* Indexes below 8 as bits. */
static bool index_bits(const json_t *indexes, uint8_t *bits)
{
	size_t at;
	json_t *item;

	*bits = 0;
	json_array_foreach(indexes, at, item) {
		json_int_t index = json_is_integer(item) ? json_integer_value(item) : -1;

		if (index < 0 || index > 7)
			return false;
		*bits |= (uint8_t)(1U << index);
	}
	return indexes == NULL || json_is_array(indexes);
}

static bool add_checksum(struct frame_set *set, unsigned int which, json_t *object, json_t *answer)
{
	struct checksum *checksum = &set->checksum[which];
	json_t *fields = NULL, *checksums = NULL;
	json_int_t offset, start, end;
	int signature = 0, never_zero = 0;
	const char *kind;
	json_error_t error;

	if (json_unpack_ex(object, &error, JSON_STRICT, "{s:s, s:I, s:I, s:I, s?o, s?o, s?b, s?b}", "kind", &kind, "offset",
			   &offset, "start", &start, "end", &end, "fields", &fields, "checksums", &checksums, "signature",
			   &signature, "never_zero", &never_zero) != 0)
		return answer_error(answer, "bad_request", "checksums[%u]: %s", which, error.text);
	if (strcmp(kind, "internet") != 0 && strcmp(kind, "crc32c") != 0)
		return answer_error(answer, "bad_request", "checksums[%u]: kind must be internet or crc32c, not \"%s\"", which,
				    kind);
	if (offset < 0 || offset > MAX_FRAME_BYTES || start < 0 || start > MAX_FRAME_BYTES || end < 0 || end > MAX_FRAME_BYTES)
		return answer_error(answer, "bad_request", "checksums[%u]: offset, start and end must be within a frame", which);
	*checksum = (struct checksum){.crc32c = kind[0] == 'c', .signature = signature, .never_zero = never_zero,
				      .offset = (uint16_t)offset, .start = (uint16_t)start, .end = (uint16_t)end};
	if (!index_bits(fields, &checksum->fields) || !index_bits(checksums, &checksum->checksums))
		return answer_error(answer, "bad_request", "checksums[%u]: fields and checksums must be lists of indexes", which);
	return true;
}

static bool add_changeable(struct frame_set *set, unsigned int which, json_t *pair, json_t *answer)
{
	json_int_t offset, bytes;
	json_error_t error;

	if (json_unpack_ex(pair, &error, JSON_STRICT, "[I, I]", &offset, &bytes) != 0 || offset < 0 || bytes < 1 ||
	    offset > MAX_FRAME_BYTES || bytes > MAX_FRAME_BYTES)
		return answer_error(answer, "bad_request", "changeable[%u] must be an offset and a number of bytes", which);
	set->changeable[which] = (struct byte_range){(uint16_t)offset, (uint16_t)bytes};
	return true;
}

static bool add_balances(struct frame_set *set, const json_t *balances, json_t *answer)
{
	size_t index;
	json_t *pair;

	if (balances != NULL && json_array_size(balances) != set->templates)
		return answer_error(answer, "bad_template", "balances must have one pair for each template: %zu for %u",
				    json_array_size(balances), set->templates);
	json_array_foreach(balances, index, pair) {
		json_int_t offset;
		int never_zero;
		json_error_t error;
		const char *wrong;

		if (json_unpack_ex(pair, &error, JSON_STRICT, "[I, b]", &offset, &never_zero) != 0 || offset < 0)
			return answer_error(answer, "bad_request",
					    "balances[%zu] must be an offset and whether it is never zero", index);
		wrong = frame_set_balance(set, (uint32_t)index, (size_t)offset, never_zero);
		if (wrong != NULL)
			return answer_error(answer, "bad_template", "%s", wrong);
	}
	return true;
}

typedef bool add_fn(struct frame_set *set, unsigned int which, json_t *object, json_t *answer);

static bool add_all(struct frame_set *set, const char *name, json_t *list, unsigned int most, unsigned int *count,
		    add_fn *add, json_t *answer)
{
	size_t index;
	json_t *item;

	if (list != NULL && !json_is_array(list))
		return answer_error(answer, "bad_request", "%s must be a list", name);
	if (json_array_size(list) > most)
		return answer_error(answer, "bad_request", "a stream has at most %u %s, not %zu", most, name,
				    json_array_size(list));
	json_array_foreach(list, index, item)
		if (!add(set, (unsigned int)index, item, answer))
			return false;
	*count = (unsigned int)json_array_size(list);
	return true;
}

static bool finish(struct frame_set *set, const struct frames_request *want, json_t *answer)
{
	size_t length = want->order != NULL ? json_array_size(want->order) : 1;
	uint16_t *order = calloc(length + 1, sizeof(*order));
	const char *wrong = order == NULL ? "out of memory" : NULL;

	for (size_t at = 0; want->order != NULL && wrong == NULL && at < length; at++) {
		json_t *item = json_array_get(want->order, at);
		json_int_t index = json_is_integer(item) ? json_integer_value(item) : -1;

		if (index < 0 || index >= (json_int_t)set->templates)
			wrong = "the order names a template that is not there";
		order[at] = (uint16_t)index;
	}
	if (wrong == NULL)
		wrong = frame_set_finish(set, order, length);
	free(order);
	return wrong == NULL || answer_error(answer, "bad_template", "%s", wrong);
}

bool plan_frames(struct frame_set *set, const struct frames_request *want, json_t *answer)
{
	if (want->combinations < 1)
		return answer_error(answer, "bad_request", "combinations must be 1 or more");
	if (want->compared_from < 0 || want->compared_from > MAX_FRAME_BYTES)
		return answer_error(answer, "bad_request", "compared_from must be an offset into the frame");
	set->combinations = (uint64_t)want->combinations;
	set->compared_from = (uint16_t)want->compared_from;
	return add_templates(set, want, answer) && add_balances(set, want->balances, answer) &&
	       add_all(set, "fields", want->fields, MAX_FIELDS, &set->fields, add_field, answer) &&
	       add_all(set, "checksums", want->checksums, MAX_CHECKSUMS, &set->checksums, add_checksum, answer) &&
	       add_all(set, "changeable", want->changeable, MAX_CHANGEABLE, &set->changeables, add_changeable, answer) &&
	       finish(set, want, answer);
}
