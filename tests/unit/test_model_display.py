"""Figures for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_nfvperf.config.units import BIT_RATE, FRAME_RATE, TIME_NS, quantity
from pytest_nfvperf.model.display import (
    MISSPELT,
    did_you_mean,
    format_against,
    format_bps,
    format_count,
    format_elapsed,
    format_fps,
    format_margin,
    format_ns,
    format_ratio,
    format_seconds,
    format_value,
    how_many,
    label_words,
)
from pytest_nfvperf.model.metrics import METRICS


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
        (format_margin(-0.0002), "-0.02 %"),
        (format_margin(0.000041), "+0.004 %"),
        (format_margin(0.0), "+0.0 %"),
        (format_margin(-0.0), "+0.0 %"),
        (format_value(1.0, "times"), "1 time"),
        (format_value(2.0, "times"), "2 times"),
        (format_value(0.25, "cores"), "0.25 cores"),
        (format_elapsed(0.04), "0.0 s"),
        (format_elapsed(4.24), "4.2 s"),
        (format_elapsed(31.7), "32 s"),
        (format_elapsed(754), "13 min"),
        (format_elapsed(43_200), "12 h"),
        (format_margin(None), "-"),
        (how_many(1, "bridge"), "1 bridge"),
        (how_many(0, "bridge"), "0 bridges"),
        (how_many(1000, "flow"), "1,000 flows"),
        (how_many(2, "search"), "2 searches"),
        (label_words({"counted": "1"}, {"counted": "bridge"}), ["1 bridge"]),
        (label_words({"counted": "10000"}, {"counted": "flow"}), ["10,000 flows"]),
        (label_words({"counted": "many"}, {"counted": "flow"}), ["many flows"]),
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


@pytest.mark.parametrize(
    ("value", "other", "unit", "text"),
    [
        (0.005001, 0.005, "ratio", "0.5001 %"),
        (0.005, 0.005001, "ratio", "0.5 %"),
        (0.0050000004, 0.005, "ratio", "0.50000004 %"),
        (0.5, 0.005, "ratio", "50 %"),
        (3_999_999.0, 4e6, "pps", "3.999999 Mpps"),
        (4e6, 3_999_999.0, "pps", "4.000000 Mpps"),
        (100_020.0, 100_000.0, "ns", "100.02 us"),
        (1000.04, 1000.0, "frames", "1,000.04 frames"),
        (16 * 1024**2 + 1000.0, 16 * 1024**2, "bytes", "16.001 MiB"),
        (1000.04, 1000.0, "bytes", "1,000.04 bytes"),
        (5.5e-07, -0.01, "ratio", "0.00006 %"),
        (-5.5e-07, 5e-07, "ratio", "-5.5e-07"),
        (0.949996, 0.95, "line_ratio", "94.9996 % of line rate"),
        (4e6, 4e6 * (1 + 1e-12), "pps", "4.00 Mpps"),
        (4e6, None, "pps", "4.00 Mpps"),
        (None, 4e6, "pps", "-"),
        (math.nan, 4e6, "pps", "nan"),
    ],
)
def test_a_figure_has_digits_enough_to_differ_from_the_other(value, other, unit, text):
    assert format_against(value, other, unit) == text


@pytest.mark.parametrize("unit", ["pps", "bps", "ns", "s", "ratio", "line_ratio", "cores", "bytes", "frames"])
@given(value=st.floats(1e-3, 1e9), by=st.floats(1e-8, 1e-3))
def test_what_differs_is_never_shown_alike(unit, value, by):
    other = value * (1 + by)
    assume(value >= {"bytes": 1, "frames": 1, "cores": 1}.get(unit, 0))  # parts of a byte are nobody's limit
    assert format_against(value, other, unit) != format_against(other, value, unit)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nrd", ", did you mean 'ndr'?"),
        ("loss", ", did you mean 'loss_ratio'?"),
        ("packet_loss", ", did you mean 'loss_ratio'?"),
        ("MAX-latency", ", did you mean 'latency_max'?"),
        ("p99", ", did you mean 'latency_p99' or 'load_latency_p99'?"),
        ("lost_frame", ", did you mean 'lost_frames'?"),
        ("x", ""),
        ("", ""),
    ],
)
def test_a_word_of_a_name_finds_it_as_a_slip_does(written, meant):
    assert did_you_mean(written, METRICS) == meant


def test_whoever_asks_for_slips_gets_no_name_that_only_shares_a_word():
    assert did_you_mean("loss", METRICS, MISSPELT) == ""
    assert did_you_mean("topologi", ["topology"], MISSPELT) == ""
    assert did_you_mean("frame_sise", ["frame_size"], MISSPELT) == ", did you mean 'frame_size'?"
