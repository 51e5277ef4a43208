"""What a stream measurement may be asked for, and what is computed from its counts."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.generators.iperf3_session import interval_s, stream_options
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.measure.streams import (
    SideCpu,
    StreamCounts,
    StreamDirectionCounts,
    StreamEvidence,
    StreamResult,
    StreamSpec,
)

SPECS = st.builds(
    StreamSpec,
    streams=st.integers(1, 128),
    duration_s=st.floats(0.1, 600),
    omit_s=st.floats(0, 60),
    direction=st.sampled_from(["forward", "reverse", "both"]),
    window_bytes=st.none() | st.integers(1, 512 << 20),
    mss_bytes=st.none() | st.integers(88, 9216),
    buffer_bytes=st.none() | st.integers(1, 1 << 20),
    congestion=st.none() | st.sampled_from(["cubic", "bbr"]),
)


@given(SPECS)
def test_a_run_is_the_fewest_whole_seconds_that_hold_it(spec: StreamSpec) -> None:
    needed = spec.omit_s + spec.duration_s
    assert needed - 1e-6 <= spec.run_s < needed + 1


@given(SPECS)
def test_a_client_is_told_all_that_was_asked_and_no_more(spec: StreamSpec) -> None:
    options = stream_options(spec)
    given_options = dict(itertools.pairwise(options))
    assert given_options["--time"] == str(spec.run_s)
    assert given_options["--parallel"] == str(spec.streams)
    for option, value in (
        ("--window", spec.window_bytes),
        ("--set-mss", spec.mss_bytes),
        ("--length", spec.buffer_bytes),
        ("--congestion", spec.congestion),
    ):
        assert given_options.get(option) == (None if value is None else str(value))
    assert ("--reverse" in options, "--bidir" in options) == (spec.direction == "reverse", spec.direction == "both")
    assert ("--rcv-timeout" in options) == (spec.direction != "forward")
    assert "--udp" not in options
    assert interval_s(spec) in {0.1, 1.0}


def test_udp_goes_as_fast_as_it_can_unless_told() -> None:
    assert "--bitrate 0" in " ".join(stream_options(StreamSpec(protocol="udp")))
    assert "--bitrate 5000" in " ".join(stream_options(StreamSpec(protocol="udp", bitrate_bps=5000)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"protocol": "sctp"}, "StreamSpec(): protocol is 'sctp': write one of tcp, udp"),
        ({"direction": "up"}, "direction is 'up': "),
        ({"streams": 0}, "streams is 0: write a whole number from 1 to 128"),
        ({"streams": 129}, "streams is 129: "),
        ({"duration_s": 0.05}, "duration_s is 0.05: write a number from 0.1"),
        ({"duration_s": float("nan")}, "duration_s is nan: "),
        ({"omit_s": -1}, "omit_s is -1: "),
        ({"duration_s": 86_400, "omit_s": 1}, "omit_s + duration_s must be at most 86400 s, not 86401"),
        ({"window_bytes": 0}, "window_bytes is 0: "),
        ({"mss_bytes": 87}, "mss_bytes is 87: write a whole number from 88 to 9216"),
        ({"buffer_bytes": 1 << 21}, "buffer_bytes is 2097152: write a whole number from 1 to 1_048_576"),
        ({"protocol": "udp", "buffer_bytes": 15}, "buffer_bytes is 15: write a whole number from 16 to 65507"),
        ({"bitrate_bps": 1}, "bitrate_bps is for udp: TCP finds its own rate; leave it out, or measure udp"),
        ({"protocol": "udp", "bitrate_bps": 0}, "bitrate_bps is 0: "),
        ({"protocol": "udp", "mss_bytes": 1000}, "mss_bytes is TCP's: leave it out for udp"),
        ({"protocol": "udp", "congestion": "bbr"}, "congestion is TCP's: leave it out for udp"),
        ({"client_cpus": (-1,)}, "client_cpus is (-1,): "),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        StreamSpec(**changes)


def result(*directions: StreamDirectionCounts, **changes: Any) -> StreamResult:
    return StreamResult(spec=StreamSpec(direction="both"), directions=directions, **changes)


FORWARD = StreamDirectionCounts(
    "forward", 500_000_000, (StreamCounts(1000, retransmits=3), StreamCounts(250, retransmits=4))
)
REVERSE = StreamDirectionCounts("reverse", 250_000_000, (StreamCounts(500, retransmits=1),))
CPU = SideCpu(user_ns=100_000_000, system_ns=800_000_000, elapsed_ns=1_000_000_000, iperf3_percent=88.0)


def test_rates_are_computed_from_counts_and_measured_times() -> None:
    both = result(FORWARD, REVERSE, client_cpu=CPU, server_cpu=CPU)
    assert FORWARD.goodput_bps == 20_000
    assert both.goodput_bps == 36_000
    assert both.received_bytes == 1750
    assert both.retransmits == 8
    assert both.cores == pytest.approx(1.8)
    assert (CPU.seconds, CPU.iperf3_percent) == (0.9, 88.0)


def test_what_is_not_known_is_absent() -> None:
    nothing = result(invalid=(InvalidReason(Reason.LINK_DOWN, "gone"),))
    assert not nothing.valid
    assert (nothing.goodput_bps, nothing.received_bytes, nothing.retransmits, nothing.cores) == (None,) * 4
    assert result(FORWARD, client_cpu=CPU).cores is None
    udp = StreamDirectionCounts("forward", 1, (StreamCounts(1, datagrams=3, lost_datagrams=1), StreamCounts(1)))
    assert (udp.retransmits, udp.datagrams, udp.lost_datagrams) == (None, None, None)
    assert StreamDirectionCounts("forward", 0, ()).goodput_bps is None
    assert SideCpu(1, 1, 0).cores is None
    assert SideCpu(1, 1, 1).iperf3_percent is None


def test_nothing_received_is_a_rate_of_none_at_all_not_unknown() -> None:
    silent = result(StreamDirectionCounts("forward", 10**9, (StreamCounts(0),)), client_cpu=CPU, server_cpu=CPU)
    assert silent.goodput_bps == 0


def test_evidence_is_what_the_counters_did() -> None:
    before = CounterSnapshot("softirq", 1, (("NET_RX.cpu0", 5), ("NET_TX.cpu0", 1)))
    after = CounterSnapshot("softirq", 2, (("NET_RX.cpu0", 9), ("NET_TX.cpu0", 0)))
    evidence = StreamEvidence(before, after)
    assert evidence.source == "softirq"
    assert [(delta.name, delta.delta, delta.went_back) for delta in evidence.deltas] == [
        ("NET_RX.cpu0", 4, False),
        ("NET_TX.cpu0", -1, True),
    ]
