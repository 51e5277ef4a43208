/* SPDX-License-Identifier: Apache-2.0 */
#include "signature.h"

enum { FIRST_PLACE = 14 }; /* behind the MAC addresses and a type */

/*
 * As our senders write it. Other bytes look like one once in 2^24 places, or more seldom: only samples have a lateness,
 * and half of the streams' numbers are never used.
 */
static bool is_signature(const uint8_t *bytes, uint8_t trial)
{
	struct signature signature;

	memcpy(&signature, bytes, sizeof(signature));
	return signature.magic == SIGNATURE_MAGIC && signature.trial == trial &&
	       (signature.stream & ~SIGNATURE_SAMPLED) < MAX_STREAMS &&
	       (signature.lateness == 0 || (signature.stream & SIGNATURE_SAMPLED) != 0);
}

void places_add(struct places *places, uint16_t place)
{
	for (unsigned int at = 0; at < places->count; at++)
		if (places->at[at] == place)
			return;
	if (places->count == 0)
		places->last = place;
	if (places->count < MAX_PLACES)
		places->at[places->count++] = place;
}

size_t place_behind(const uint8_t *bytes, size_t length, uint8_t trial, size_t from)
{
	const uint8_t *at = bytes + from;

	if (length < sizeof(struct signature))
		return 0;
	while (at < bytes + length - sizeof(struct signature)) {
		at = memchr(at + 1, SIGNATURE_MAGIC & 0xff, (size_t)(bytes + length - sizeof(struct signature) - at));
		if (at == NULL)
			return 0;
		if (is_signature(at, trial))
			return (size_t)(at - bytes);
	}
	return 0;
}

static void remember(struct places *places, uint16_t place)
{
	places->last = place;
	if (places->count < MAX_PLACES) {
		places->at[places->count++] = place;
		return;
	}
	places->at[places->next] = place;
	places->next = (uint16_t)((places->next + 1) % MAX_PLACES);
}

/* A leftover of an earlier trial, or a frame of another generator, which has stood where ours do. */
static size_t place_of_other_trial(const struct places *places, const uint8_t *bytes, size_t length)
{
	for (unsigned int at = 0; at < places->count; at++) {
		const uint8_t *signature = bytes + places->at[at];

		if (length >= places->at[at] + sizeof(struct signature) &&
		    is_signature(signature, signature[offsetof(struct signature, trial)]))
			return places->at[at];
	}
	return 0;
}

size_t place_search(struct places *places, const uint8_t *bytes, size_t length, uint8_t trial)
{
	size_t place;

	for (unsigned int at = 0; at < places->count; at++) {
		place = places->at[at];
		if (length >= place + sizeof(struct signature) && is_signature(bytes + place, trial)) {
			places->last = (uint16_t)place;
			return place;
		}
	}
	place = place_behind(bytes, length, trial, FIRST_PLACE - 1);
	if (place == 0)
		return place_of_other_trial(places, bytes, length);
	remember(places, (uint16_t)place);
	return place;
}
