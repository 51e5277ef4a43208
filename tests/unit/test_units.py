"""Quantities: what is understood, and what the refusals say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.config.units import (
    BIT_RATE,
    DIMENSIONS,
    FRAME_RATE,
    RATIO,
    SIZE,
    TIME,
    TIME_NS,
    UnitError,
    quantity,
    shortest,
)


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        (FRAME_RATE, "4 Mpps", 4e6),
        (FRAME_RATE, "4Mpps", 4e6),
        (FRAME_RATE, "0.5 kpps", 500.0),
        (BIT_RATE, "100 Gbps", 1e11),
        (BIT_RATE, "2.5e1 Gbps", 25e9),
        (TIME, "50 us", 50e-6),
        (TIME, "5 s", 5.0),
        (TIME, "12 h", 43200.0),
        (TIME, "15 min", 900.0),
        (RATIO, "50 %", 0.5),
        (RATIO, "57 %", 0.57),
        (RATIO, "3 ppm", 3e-6),
        (RATIO, 0.25, 0.25),
        (RATIO, "0", 0.0),
        (SIZE, "512 MiB", 512 << 20),
        (SIZE, "1500 bytes", 1500),
        (FRAME_RATE, "4\u00a0Mpps", 4e6),
        (TIME, "50\u202fus", 50e-6),
    ],
)
def test_understood(dimension, text, value):
    assert quantity(text, dimension) == value


@pytest.mark.parametrize(
    ("dimension", "text", "message"),
    [
        (FRAME_RATE, "4 mpps", "'4 mpps' is milli: write '4 Mpps'"),
        (BIT_RATE, "100", "'100' has no unit: write '100 Gbps' for line_rate"),
        (BIT_RATE, 100, "'100' has no unit: write '100 Gbps' for line_rate"),
        (BIT_RATE, "50 us", "'50 us' is a time, but line_rate is a bit rate: write e.g. '100 Gbps'"),
        (BIT_RATE, "4 Mpps", "'4 Mpps' is a frame rate, but line_rate is a bit rate: write e.g. '100 Gbps'"),
        (FRAME_RATE, "-4 Mpps", "'-4 Mpps' is negative, but line_rate cannot be: write e.g. '4 Mpps'"),
        (FRAME_RATE, "nan Mpps", "'nan Mpps' is not a finite number: write e.g. '4 Mpps'"),
        (FRAME_RATE, float("nan"), "'nan' is not a finite number: write e.g. '4 Mpps'"),
        (TIME, "inf s", "'inf s' is not a finite number: write e.g. '50 us'"),
        (TIME, "1e999 s", "'1e999 s' is not a finite number: write e.g. '50 us'"),
        (TIME, "4,5 s", "'4,5 s' has a comma: write '4.5 s'"),
        (FRAME_RATE, "14,880,952 pps", "'14,880,952 pps' has its thousands apart: write '14880952 pps'"),
        (FRAME_RATE, "14.880.952 pps", "'14.880.952 pps' has its thousands apart: write '14880952 pps'"),
        (FRAME_RATE, "14 880 952 pps", "'14 880 952 pps' has its thousands apart: write '14880952 pps'"),
        (FRAME_RATE, "14_880_952pps", "'14_880_952pps' has its thousands apart: write '14880952pps'"),
        (FRAME_RATE, "14'880'952 pps", "write '14880952 pps'"),
        (FRAME_RATE, "14\u202f880\u202f952 pps", "write '14880952 pps'"),
        (FRAME_RATE, "-14,880,952.25 pps", "write '-14880952.25 pps'"),
        (FRAME_RATE, "14.880.952,5 pps", "write '14880952.5 pps'"),
        (
            FRAME_RATE,
            "1,488 Mpps",
            "'1,488 Mpps' has a comma: write '1.488 Mpps' before decimals, '1488 Mpps' between thousands",
        ),
        (TIME, "4,5e3 us", "'4,5e3 us' has a comma: write '4.5e3 us'"),
        (TIME, "1,2,3 s", "'1,2,3 s' has more than one number"),
        (TIME, "5 10 s", "'5 10 s' has more than one number"),
        (TIME, "5 S", "'5 S' has unit 'S', which is spelt 's': write '5 s'"),
        (TIME, "5 sec", "'5 sec' has unit 'sec', which is spelt 's': write '5 s'"),
        (BIT_RATE, "100 GBps", "'100 GBps' is a bit rate, 800 Gbps: write '800 Gbps'"),
        (BIT_RATE, "12.5 MB/s", "'12.5 MB/s' is a bit rate, 100 Mbps: write '100 Mbps'"),
        (BIT_RATE, "4 Kbit/s", "'4 Kbit/s' is a bit rate, 4 kbps: write '4 kbps'"),
        (FRAME_RATE, "3 MBps", "'3 MBps' is a bit rate, 24 Mbps: write a frame rate, e.g. '4 Mpps'"),
        (TIME, "100 \u00b5s", "'100 \u00b5s' has '\u00b5' (MICRO SIGN): write '100 us'"),
        (TIME, "100 \u03bcs", "(GREEK SMALL LETTER MU): write '100 us'"),
        (FRAME_RATE, "4 \u041cpps", "(CYRILLIC CAPITAL LETTER EM): write '4 Mpps'"),
        (FRAME_RATE, "\uff14 \uff2d\uff50\uff50\uff53", "(FULLWIDTH DIGIT FOUR): write '4 Mpps'"),
        (FRAME_RATE, "4 \u212apps", "'4 Kpps' has unit 'Kpps', which is spelt 'kpps': write '4 kpps'"),
        (FRAME_RATE, "4\u200bMpps", "(ZERO WIDTH SPACE): write '4Mpps'"),
        (RATIO, "\u22125 %", "'-5 %' is negative"),
        (FRAME_RATE, "4 \u03bcs", "'4 us' is a time, but line_rate is a frame rate"),
        (FRAME_RATE, "10\u2076 pps", "(SUPERSCRIPT SIX): write e.g. '4 Mpps'"),
        (BIT_RATE, "100 Gbit", "unknown unit 'Gbit'"),
        (SIZE, "512 MB", "unknown unit 'MB', did you mean 'MiB'?"),
        (FRAME_RATE, True, "True is not a frame rate: write e.g. '4 Mpps'"),
        (FRAME_RATE, None, "None is not a frame rate"),
        (FRAME_RATE, "fast", "'fast' is not a frame rate: line_rate is a number and a unit, e.g. '4 Mpps'"),
        (FRAME_RATE, "", "'' is not a frame rate"),
        (FRAME_RATE, "2*3 Mpps", "unknown unit '*3 Mpps'"),
    ],
)
def test_refused(dimension, text, message):
    with pytest.raises(UnitError) as caught:
        quantity(text, dimension, "line_rate")
    assert message in str(caught.value)


def test_units_do_not_mix():
    """Each dimension's units are refused by every other dimension."""
    for wanted in DIMENSIONS:
        for other in DIMENSIONS:
            if other is not wanted:
                for unit in other.units:
                    with pytest.raises(ValueError, match="is a"):
                        quantity(f"1 {unit}", wanted)


@given(st.integers(0, 10**6), st.sampled_from(["ns", "us", "ms", "s"]))
def test_times_are_exact_in_nanoseconds(number, unit):
    factor = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[unit]
    assert quantity(f"{number} {unit}", TIME_NS) == number * factor


@given(st.integers(0, 100_000))
def test_per_cent_is_what_it_says(number):
    assert quantity(f"{number} %", RATIO) == number / 100


@given(st.sampled_from([BIT_RATE, FRAME_RATE, SIZE, TIME]), st.floats(1e-6, 1e15))
def test_shortest_reads_back(dimension, value):
    assert math.isclose(quantity(shortest(value, dimension), dimension), value, rel_tol=1e-15)


@given(st.floats(0, 1e300, allow_subnormal=False))
def test_bit_rates_read_back_exactly(value):
    assert quantity(shortest(value, BIT_RATE), BIT_RATE) == value


@pytest.mark.parametrize(
    ("value", "text"), [(1e11, "100 Gbps"), (2.5e9, "2.5 Gbps"), (1.0, "1 bps"), (12345678.0, "12.345678 Mbps")]
)
def test_shortest(value, text):
    assert shortest(value, BIT_RATE) == text
