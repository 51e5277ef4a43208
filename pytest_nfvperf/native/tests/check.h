/* SPDX-License-Identifier: Apache-2.0 */
/* A test is a program that ends with 1 at the first thing that is not so. */
#ifndef NFVPERF_CHECK_H
#define NFVPERF_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                  \
	do {                                                                              \
		if (!(condition)) {                                                       \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

#define CHECK_EQUAL(got, wanted)                                                                                     \
	do {                                                                                                         \
		uint64_t got_ = (uint64_t)(got), wanted_ = (uint64_t)(wanted);                                       \
		if (got_ != wanted_) {                                                                               \
			fprintf(stderr, "%s:%d: %s is %" PRIu64 ", not %" PRIu64 "\n", __FILE__, __LINE__, #got, got_, \
				wanted_);                                                                            \
			exit(1);                                                                                     \
		}                                                                                                    \
	} while (0)

#endif
