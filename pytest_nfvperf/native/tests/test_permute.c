/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "check.h"
#include "template.h"

/* Places of the values number 0, 1, 2, 3, half and last, each modulo the count; tests/unit/test_generator_templates.py
 * reads these lines and holds the model's permuted() to them. */
static const struct {
	uint32_t count, seed, places[6];
} known[] = {
	{1, 0u, {0, 0, 0, 0, 0, 0}},
	{2, 1u, {1, 0, 1, 0, 0, 0}},
	{3, 9u, {0, 1, 2, 0, 1, 2}},
	{5, 7u, {2, 0, 3, 1, 3, 4}},
	{64, 2u, {14, 49, 19, 53, 37, 32}},
	{1000, 12345u, {426, 936, 767, 324, 178, 6}},
	{65536, 4294967295u, {15862, 35061, 1039, 6364, 22360, 11735}},
	{10000019, 3u, {2685939, 5399839, 6236811, 445711, 8204307, 238882}},
};

static void test_known_places(void)
{
	for (size_t at = 0; at < sizeof(known) / sizeof(known[0]); at++) {
		uint32_t count = known[at].count;
		const uint32_t numbers[] = {0, 1, 2, 3, count / 2, count - 1};

		for (int each = 0; each < 6; each++)
			CHECK_EQUAL(permuted(numbers[each] % count, count, known[at].seed), known[at].places[each]);
	}
}

/* Each value comes once. */
static void test_nothing_repeats(void)
{
	for (uint32_t count = 1; count < 3000; count = count * 3 / 2 + 1) {
		uint8_t *seen = calloc(count, 1);

		for (uint32_t at = 0; at < count; at++) {
			uint32_t place = permuted(at, count, count * 77);

			CHECK(place < count);
			CHECK(seen[place]++ == 0);
		}
		free(seen);
	}
}

int main(void)
{
	test_known_places();
	test_nothing_repeats();
	return 0;
}
