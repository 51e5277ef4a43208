"""The iperf3 engine between two real namespaces."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import pytest

from pytest_nfvperf.adapters.generators.iperf3 import Iperf3Engine
from pytest_nfvperf.adapters.machine.reaper import reap
from pytest_nfvperf.adapters.process.journal import Kind
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.measure.ledger import deltas
from pytest_nfvperf.model.measure.streams import StreamResult, StreamSpec
from pytest_nfvperf.ports.generator import StreamEngine
from tests.functional.ovs_support import leftovers, needs_root, run_base, until
from tests.functional.stream_support import ADDRESSES_6, Pair, pair

pytestmark = needs_root
MORE = pytest.mark.thorough("more of the same")


@pytest.fixture(scope="module")
def shared() -> Iterator[Pair]:
    with pair() as made:
        yield made


@pytest.fixture(scope="module")
def engine(shared: Pair) -> Iterator[Iperf3Engine]:
    made = shared.engine()
    yield made
    made.close()


def check_counts(result: StreamResult) -> None:
    spec = result.spec
    assert result.invalid == ()
    assert [counts.direction for counts in result.directions] == list(spec.directions)
    for counts in result.directions:
        assert len(counts.streams) == spec.streams
        assert abs(counts.elapsed_ns / 1e9 - spec.duration_s) <= 0.1
        assert all(stream.received_bytes > 0 for stream in counts.streams)
    assert result.received_bytes
    assert result.goodput_bps == pytest.approx(
        sum(8e9 * counts.received_bytes / counts.elapsed_ns for counts in result.directions)
    )


def steady(engine: StreamEngine, spec: StreamSpec, ends: Pair) -> StreamResult:
    """Run again while others' work on this machine stretches the time of a run."""
    for _ in range(5):
        result = engine.run(spec, ends.client, ends.server)
        if Reason.STRETCHED_TIME not in {reason.code for reason in result.invalid}:
            break
    return result


@pytest.mark.parametrize("streams", [1, 4, *(pytest.param(number, marks=MORE) for number in (2, 8, 16))])
def test_parallel_tcp_streams_are_counted_at_the_receiver(engine: Iperf3Engine, shared: Pair, streams: int) -> None:
    result = steady(engine, StreamSpec(streams=streams, duration_s=0.8, omit_s=0.2), shared)
    check_counts(result)
    assert result.retransmits is not None
    assert result.directions[0].datagrams is None


@pytest.mark.parametrize("protocol", ["tcp", pytest.param("udp", marks=MORE)])
def test_streams_over_ipv6(protocol: Literal["tcp", "udp"]) -> None:
    with pair(addresses=ADDRESSES_6) as ends:
        result = steady(ends.engine(), StreamSpec(protocol, streams=2, duration_s=0.8, omit_s=0.2), ends)
    check_counts(result)
    moved = {delta.name: delta.delta for one in result.evidence for delta in deltas(one.before, one.after)}
    assert moved["Ip6.InDelivers"] > 100
    assert moved["Ip.InDelivers"] == 0


@pytest.mark.parametrize("direction", [pytest.param("reverse", marks=MORE), "both"])
def test_the_server_can_send_too(engine: Iperf3Engine, shared: Pair, direction: Literal["reverse", "both"]) -> None:
    spec = StreamSpec(streams=2, direction=direction, duration_s=0.8, omit_s=0.2)
    result = steady(engine, spec, shared)
    check_counts(result)
    assert all(counts.retransmits is not None for counts in result.directions)


@pytest.mark.parametrize("direction", [pytest.param("forward", marks=MORE), "both"])
def test_udp_keeps_its_bitrate_in_each_stream(
    engine: Iperf3Engine, shared: Pair, direction: Literal["forward", "both"]
) -> None:
    spec = StreamSpec("udp", streams=2, direction=direction, duration_s=1.0, bitrate_bps=4_000_000, buffer_bytes=1000)
    result = steady(engine, spec, shared)
    check_counts(result)
    assert result.retransmits is None
    for counts in result.directions:
        arrived = sum(stream.received_bytes for stream in counts.streams) / 1000 + (counts.lost_datagrams or 0)
        # Threads count bytes and datagrams one after the other, while an interval may end between the two.
        apart = len(counts.streams) if engine.info().detail == "one thread a stream" else 0
        assert counts.datagrams == pytest.approx(arrived, abs=apart)
        for stream in counts.streams:
            assert stream.received_bytes * 8 == pytest.approx(4_000_000, rel=0.1)


def test_what_is_asked_of_tcp_is_done(engine: Iperf3Engine, shared: Pair) -> None:
    spec = StreamSpec(window_bytes=50_000, mss_bytes=536, buffer_bytes=4096, congestion="reno", duration_s=0.5)
    result = steady(engine, spec, shared)
    check_counts(result)
    facts = dict(result.facts)
    assert (facts["tcp_mss"], facts["buffer_bytes"], facts["congestion"]) == ("536", "4096", "reno")
    assert facts["sndbuf_actual"] == "100000", "the kernel doubles what is asked for (socket(7))"
    assert facts["iperf3"] == engine.info().version
    assert facts["threads"] == engine.info().detail


def test_cpu_is_measured_by_us_and_by_iperf3(engine: Iperf3Engine, shared: Pair) -> None:
    one = StreamSpec(client_cpus=(0,), server_cpus=(0,))
    result = steady(engine, one, shared)
    check_counts(result)
    assert result.client_cpu is not None
    assert result.server_cpu is not None
    for side in (result.client_cpu, result.server_cpu):
        assert side.iperf3_percent is not None
        assert side.cores == pytest.approx(side.iperf3_percent / 100, abs=0.05)
        assert side.system_ns > side.user_ns
    assert result.cores is not None
    assert 0 < result.cores <= 1.05, "both were held to one CPU"


def test_counters_around_the_run_are_its_evidence(engine: Iperf3Engine, shared: Pair) -> None:
    result = steady(engine, StreamSpec(), shared)
    found = {one.source: {delta.name: delta.delta for delta in one.deltas} for one in result.evidence}
    client, server = f"client:{shared.client.namespace}", f"server:{shared.server.namespace}"
    assert set(found) == {client, server, "softirq", "cpu"}
    assert result.received_bytes is not None
    assert found[client]["client0.tx_bytes"] == found[server]["server0.rx_bytes"] > result.received_bytes
    assert found[client]["Tcp.RetransSegs"] >= (result.retransmits or 0)
    assert sum(delta for name, delta in found["softirq"].items() if name.startswith("NET_RX")) > 0
    assert found["cpu"]["system"] > 0


def test_the_warm_up_is_left_out(engine: Iperf3Engine, shared: Pair) -> None:
    whole = steady(engine, StreamSpec("udp", bitrate_bps=8_000_000), shared)
    part = steady(engine, StreamSpec("udp", bitrate_bps=8_000_000, omit_s=0.7, duration_s=0.3), shared)
    check_counts(part)
    assert whole.received_bytes is not None
    assert part.received_bytes is not None
    assert part.received_bytes / whole.received_bytes == pytest.approx(0.3, abs=0.1)


def test_streams_that_take_another_way_are_noticed(engine: Iperf3Engine, shared: Pair) -> None:
    aside = replace(shared.server, interface="lo")
    result = engine.run(StreamSpec(duration_s=0.5), shared.client, aside)
    assert [reason.code for reason in result.invalid] == [Reason.MORE_RECEIVED_THAN_SENT]
    assert "only 0 bytes came in by lo: the streams took another way" in result.invalid[0].detail


def test_nothing_is_left_of_a_run(engine: Iperf3Engine, shared: Pair) -> None:
    engine.run(StreamSpec(duration_s=0.1), shared.client, shared.server)
    assert [path.name for path in shared.journal.directory.glob("iperf3*")] == []
    assert [entry for entry in shared.journal.entries if entry.kind is Kind.PROCESS] == []


CHILD = """
import sys
from pathlib import Path
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.model.measure.streams import StreamSpec
from tests.functional.stream_support import joined
ends = joined(open_journal(Path(sys.argv[1])))
print(ends.journal.tag, flush=True)
ends.engine().run(StreamSpec(duration_s=60), ends.client, ends.server)
"""


def test_a_run_killed_in_the_middle_leaves_nothing() -> None:
    with run_base() as base:
        with subprocess.Popen([sys.executable, "-c", CHILD, str(base)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            tag = child.stdout.readline().strip()
            assert until(lambda: len([name for name in leftovers(tag) if name.startswith("process")]) == 2)
            child.kill()
        assert reap(base).failed == ()
        assert not until(lambda: leftovers(tag), deadline_s=0.2)
