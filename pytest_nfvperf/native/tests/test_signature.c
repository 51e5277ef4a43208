/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "signature.h"

static void test_lateness_keeps_three_digits(void)
{
	for (uint64_t units = 0; units < UINT64_C(4095) << 15; units += units / 100 + 1) {
		uint64_t decoded = lateness_decode(lateness_encode(units));

		CHECK(decoded <= units);
		CHECK(units - decoded <= units / 2000);
	}
}

static void test_lateness_saturates(void)
{
	uint64_t most = lateness_decode(UINT16_MAX);

	CHECK_EQUAL(lateness_decode(lateness_encode(most)), most);
	CHECK_EQUAL(lateness_encode(UINT64_C(1) << 40), UINT16_MAX);
}

/* 32 bits of time units hold the histogram's 10 s on any TSC, and convert to ns within 1/1000. */
static void check_timebase(uint64_t hz)
{
	struct timebase base = timebase_of(hz);
	uint64_t ten_seconds = hz * 10 >> base.shift;

	CHECK(ten_seconds <= UINT32_MAX);
	CHECK(units_to_ns(&base, ten_seconds) > UINT64_C(9990000000));
	CHECK(units_to_ns(&base, ten_seconds) <= UINT64_C(10000000000));
	CHECK_EQUAL(cycles_to_ns(&base, hz), 1000000000);
	CHECK_EQUAL(ns_to_cycles(&base, 1000000000), hz);
}

int main(void)
{
	test_lateness_keeps_three_digits();
	test_lateness_saturates();
	check_timebase(UINT64_C(1000000000));
	check_timebase(UINT64_C(2600000000));
	check_timebase(UINT64_C(5700000000));
	check_timebase(UINT64_C(25000000));
	return 0;
}
