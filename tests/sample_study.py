"""A run made of model objects: studies of packets and of TCP, and a soak, for report and evidence tests."""

from __future__ import annotations

import random
from dataclasses import replace

from pytest_nfvperf.model.evidence.records import (
    KINDS,
    ConnectData,
    Record,
    RecordIds,
    RequestData,
    StreamData,
    TestData,
    TestEndData,
    make_record,
)
from pytest_nfvperf.model.measure.cpu_account import CpuAccount, CpuPart, CpuRole
from pytest_nfvperf.model.measure.outage import BlockedDirection, BlockedGap, LogLine, Outage
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.streams import (
    ConnectResult,
    ConnectSpec,
    Reconnection,
    RequestResult,
    RequestSpec,
    SideCpu,
    StreamCounts,
    StreamDirectionCounts,
    StreamResult,
    StreamSpec,
)
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.statistics import Bound, Samples, relative, slope
from pytest_nfvperf.model.traffic.histogram import Histogram
from pytest_nfvperf.model.traffic.trial import Direction
from tests.outcomes import measured
from tests.sample_soak import soak_outcome, soak_record

CHAINS = (1, 2, 4, 9)
COMMON = {"suite": "chaining", "topology": "chain", "profile": "quick", "engine": "embedded"}
PACKETS = {"forwarding_rate": ("pps", 5.6e6, -0.002), "cycles_per_packet": ("cycles", 228.0, 0.002)}
TCP = {
    "tcp_throughput": ("bps", 1.55e9, -0.08),
    "sender_cores": ("cores", 0.06, -0.05),
    "receiver_cores": ("cores", 0.16, -0.05),
    "datapath_cores": ("cores", 0.84, 0.01),
}


def study(test: str, metrics: dict[str, tuple[str, float, float]], at_least: str = "", **labels: str) -> list[Outcome]:
    """Outcomes of one study; metrics by name: unit, value on one bridge, change for each one more as a ratio."""
    rng = random.Random(test + str(labels))
    bound = Bound.AT_LEAST if at_least else Bound.EXACT
    sampled = {
        number: [
            Samples(name, unit, _values(rng, value * (1 + share * (number - 1))), ("trial-0001",) * 5, bound, at_least)
            for name, (unit, value, share) in metrics.items()
        ]
        for number in CHAINS
    }
    baseline = (("bridges", "1"),)
    outcomes = [
        Outcome(
            labels=tuple(sorted({**COMMON, "test": test, **labels, "bridges": str(number)}.items())),
            algorithm="frmol" if "forwarding_rate" in metrics else "tcp",
            mean_frame_size=64.0 if "forwarding_rate" in metrics else 0.0,
            directions=2,
            samples=tuple(own),
            relatives=tuple(
                ratio
                for mine, base in zip(own, sampled[1], strict=True)
                if number > 1 and (ratio := relative(mine, base, baseline, 0.983)) is not None
            ),
            elapsed_s=31.0,
        )
        for number, own in sampled.items()
    ]
    slopes = (
        slope([(float(n), own[index]) for n, own in sampled.items()], "bridges", 0.983) for index in range(len(metrics))
    )
    outcomes[-1] = replace(outcomes[-1], slopes=tuple(found for found in slopes if found is not None))
    return [measured(outcome) for outcome in outcomes]


def _values(rng: random.Random, middle: float) -> tuple[float, ...]:
    return tuple(middle * rng.gauss(1, 0.01) for _ in range(5))


def patch_chain() -> list[Outcome]:
    """64-byte packets through patch ports."""
    return study("test_patch_chain", PACKETS, frame_size="64", link="patch", datapath="dpdk", flows="1")


def tcp_chain(link: str = "veth", datapath: str = "netdev") -> list[Outcome]:
    """One TCP stream."""
    return study("test_tcp_chain", TCP, link=link, datapath=datapath, streams="1", tso="off")


def verdict_on(outcome: Outcome, judgement: Judgement) -> Verdict:
    """On the ratio to one bridge."""
    return Verdict(
        judgement, "forwarding_rate >= 95 % of {bridges: 1}", "forwarding_rate", 0.95, "ratio", 0.98, 0.03,
        "98 % (97 % .. 99 %)", "sla.yaml:3: rules[0]", subject=outcome.labels,
    )  # fmt: skip


def stream_run() -> StreamData:
    """One valid run of a TCP stream."""
    counts = StreamDirectionCounts(
        "forward", 700_000_000, (StreamCounts(135_000_000, 136_000_000, 18_918),), 700_100_000
    )
    cpu = SideCpu(10_000_000, 50_000_000, 1_000_000_000, 6.1)
    return StreamData(StreamResult(StreamSpec(duration_s=0.7, omit_s=0.3), (counts,), cpu, cpu), 1.3, 0.84)


def request_run() -> RequestData:
    """One run of requests and responses, with an account of the CPU time."""
    times = Histogram(((20_000, 9), (50_000, 1)), 19_000, 50_000)
    account = CpuAccount(
        1_000_000_000, 500_000_000, 100_000_000, 0, False, (CpuPart(CpuRole.SENDER, "x", 490_000_000),)
    )
    return RequestData(RequestResult(RequestSpec(), times, 0, 1_000_000_000, "sockperf 3.7"), 1.5, account)


def connect_run() -> ConnectData:
    """One run of TCP connects, of which nobody accounted for the CPU time."""
    times = Histogram(((20_000, 9), (50_000, 1)), 19_000, 48_000, 9)
    return ConnectData(ConnectResult(ConnectSpec(10), times, 24_500.0, 1, 10, 1_000_000, "iperf 2.1.8"), 0.3)


RESTART = Reconnection(outage_ns=412_000_000, restart_ns=390_000_000, interval_ns=1_000_000, sent=1900, arrived=1480)


BLOCKED = BlockedGap(3_000_000, 320_000_000, 316_000_000, 31_700)
OUTAGE = Outage(
    "trial-0003",
    "restart, flows lost",
    returned_ns=327_000_000,
    blocked=(
        BlockedDirection(
            Direction("p0", "p1"), "", (BlockedGap(3_000_000, 320_000_000, 316_000_000, 31_700),), 1e5, 31_700
        ),
    ),
    certain_lost=31_600,
    lost=31_700,
    bin_ns=100_000_000,
    bins_from_ns=-100_000_000,
    received=(10_000, 300, 0, 0, 8_000),
    offered=(10_000, 10_000, 10_000, 10_000, 10_000),
    log=(LogLine(1_000_000, "nfvperf", "asks ovs-vswitchd to exit"),),
    notes=("the generator's port p0 lost its link 0.5 s after the trial began, for 0.3 s",),
)


def study_records() -> list[Record]:
    """Records of three tests: patch chains, of which the longest failed, TCP over veth, and a soak."""
    ids = RecordIds()
    records: list[Record] = []

    def add(test: str, *payloads: object) -> None:
        for payload in payloads:
            kind = KINDS[type(payload)]
            records.append(make_record(payload, id=ids.next(kind), run="r", test=test, time_ns=len(records) + 1))

    packets, streams = patch_chain(), tcp_chain()
    judged = zip(packets[1:], (Judgement.PASS, Judgement.PASS, Judgement.FAIL), strict=True)
    verdicts = [verdict_on(outcome, judgement) for outcome, judgement in judged]
    test = "suites/chaining/test_packets.py::test_patch_chain"
    add(test, _begun(packets), *packets, *verdicts, TestEndData("failed", 31.0, "SLA not met"))
    test = "suites/chaining/test_tcp.py::test_tcp_chain"
    add(
        test,
        _begun(streams),
        stream_run(),
        request_run(),
        connect_run(),
        RESTART,
        OUTAGE,
        *streams,
        TestEndData("passed", 31.0, ""),
    )
    test = "suites/endurance/test_soak.py::test_soak"
    add(test, TestData(soak_outcome().labels, {}, "Soak."), soak_record(), soak_outcome(), TestEndData("passed", 61.0))
    return records


def _begun(outcomes: list[Outcome]) -> TestData:
    return TestData(tuple(pair for pair in outcomes[0].labels if pair[0] != "bridges"), {}, "Compare.")
