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
    SIZE,
    TIME,
    TIME_NS,
    parse_bit_rate,
    parse_duration_s,
    parse_rate_fps,
    parse_ratio,
    parse_size_bytes,
    quantity,
    shortest,
)
from pytest_nfvperf.model.errors import ConfigError

KEY = "dut.ports[0].line_rate"


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_rate_fps, "4 Mpps", 4e6),
        (parse_rate_fps, "4Mpps", 4e6),
        (parse_rate_fps, "0.5 kpps", 500.0),
        (parse_bit_rate, "100 Gbps", 1e11),
        (parse_bit_rate, "2.5e1 Gbps", 25e9),
        (parse_duration_s, "50 us", 50e-6),
        (parse_duration_s, "5 s", 5.0),
        (parse_duration_s, "12 h", 43200.0),
        (parse_duration_s, "15 min", 900.0),
        (parse_ratio, "50 %", 0.5),
        (parse_ratio, "57 %", 0.57),
        (parse_ratio, "3 ppm", 3e-6),
        (parse_ratio, 0.25, 0.25),
        (parse_ratio, "0", 0.0),
        (parse_size_bytes, "512 MiB", 512 << 20),
        (parse_size_bytes, "1500 bytes", 1500),
    ],
)
def test_understood(parse, text, value):
    assert parse(text, KEY) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_rate_fps, "4 mpps", "'4 mpps' is milli: write '4 Mpps'"),
        (parse_bit_rate, "100", "'100' has no unit: write '100 Gbps' for line_rate"),
        (parse_bit_rate, 100, "'100' has no unit: write '100 Gbps' for line_rate"),
        (parse_bit_rate, "50 us", "'50 us' is a time, but line_rate is a bit rate: write e.g. '100 Gbps'"),
        (parse_bit_rate, "4 Mpps", "'4 Mpps' is a frame rate, but line_rate is a bit rate: write e.g. '100 Gbps'"),
        (parse_rate_fps, "-4 Mpps", "'-4 Mpps' is negative, but line_rate cannot be: write e.g. '4 Mpps'"),
        (parse_rate_fps, "nan Mpps", "'nan Mpps' is not a finite number: write e.g. '4 Mpps'"),
        (parse_rate_fps, float("nan"), "'nan' is not a finite number: write e.g. '4 Mpps'"),
        (parse_duration_s, "inf s", "'inf s' is not a finite number: write e.g. '50 us'"),
        (parse_duration_s, "1e999 s", "'1e999 s' is not a finite number: write e.g. '50 us'"),
        (parse_duration_s, "4,5 s", "'4,5 s' has a comma: write '4.5 s'"),
        (parse_duration_s, "5 S", "'5 S' has unit 'S', which is spelt 's': write '5 s'"),
        (parse_duration_s, "5 sec", "'5 sec' has unit 'sec', which is spelt 's': write '5 s'"),
        (parse_bit_rate, "100 GBps", "'100 GBps' has unit 'GBps', which is spelt 'Gbps': write '100 Gbps'"),
        (parse_bit_rate, "100 Gbit", "unknown unit 'Gbit'"),
        (parse_size_bytes, "512 MB", "unknown unit 'MB', did you mean 'MiB'?"),
        (parse_size_bytes, "0.3 bytes", "'0.3 bytes' is not a whole number of bytes"),
        (parse_rate_fps, True, "True is not a frame rate: write e.g. '4 Mpps'"),
        (parse_rate_fps, None, "None is not a frame rate"),
        (parse_rate_fps, "fast", "'fast' is not a frame rate: line_rate is a number and a unit, e.g. '4 Mpps'"),
        (parse_rate_fps, "", "'' is not a frame rate"),
        (parse_rate_fps, "2*3 Mpps", "unknown unit '*3 Mpps'"),
    ],
)
def test_refused(parse, text, message):
    with pytest.raises(ConfigError) as caught:
        parse(text, KEY)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{KEY}: ")
    assert caught.value.key == KEY


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
    assert parse_ratio(f"{number} %", KEY) == number / 100


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
