"""Figures for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.config.units import BIT_RATE, FRAME_RATE, TIME_NS, quantity
from pytest_nfvperf.model.display import (
    format_bps,
    format_count,
    format_fps,
    format_margin,
    format_ns,
    format_ratio,
    format_seconds,
    format_value,
)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (format_fps(4.02e6), "4.02 Mpps"),
        (format_fps(4e6), "4.00 Mpps"),
        (format_fps(999_960), "1.00 Mpps"),
        (format_fps(999_400), "999 kpps"),
        (format_fps(14_880_952), "14.9 Mpps"),
        (format_fps(0), "0 pps"),
        (format_fps(0.5), "0.500 pps"),
        (format_fps(None), "-"),
        (format_fps(math.nan), "nan"),
        (format_bps(25.1e9), "25.1 Gbps"),
        (format_ns(48_200), "48.2 us"),
        (format_ns(3), "3.00 ns"),
        (format_ns(1.5e9), "1.50 s"),
        (format_seconds(0.25), "250 ms"),
        (format_seconds(60), "60.0 s"),
        (format_seconds(900), "15 min"),
        (format_seconds(43_200), "12 h"),
        (format_seconds(None), "-"),
        (format_ratio(0.995), "99.5 %"),
        (format_ratio(0.9995), "99.95 %"),
        (format_ratio(0.005), "0.5 %"),
        (format_ratio(0), "0 %"),
        (format_ratio(1), "100 %"),
        (format_ratio(7.5e-8), "7.5e-08"),
        (format_ratio(None), "-"),
        (format_count(1_234_567), "1,234,567 frames"),
        (format_count(1_000.5, ""), "1,000.5"),
        (format_value(0.9, "line_ratio"), "90 % of line rate"),
        (format_value(180.0, "cycles"), "180 cycles"),
        (format_value(None, "cycles"), "-"),
        (format_margin(0.032), "+3.2 %"),
        (format_margin(-0.5), "-50.0 %"),
        (format_margin(None), "-"),
    ],
)
def test_format(shown, text):
    assert shown == text


@pytest.mark.parametrize(
    ("formatter", "dimension"), [(format_fps, FRAME_RATE), (format_bps, BIT_RATE), (format_ns, TIME_NS)]
)
@given(value=st.floats(1, 9e8))
def test_what_is_shown_could_be_written_in_a_file(formatter, dimension, value):
    assert math.isclose(quantity(formatter(value), dimension), value, rel_tol=0.0051)
