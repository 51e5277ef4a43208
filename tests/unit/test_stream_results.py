"""From recorded reports to counts, and what makes them invalid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.end_counters import EndState, Interface
from pytest_nfvperf.adapters.generators.iperf3 import (
    Sides,
    account_reasons,
    count_direction,
    counter_reasons,
    interface_reasons,
    path_reasons,
    process_reasons,
    side_cpu,
    sides,
    time_reasons,
)
from pytest_nfvperf.adapters.generators.iperf3_session import Ended, Report, read_report
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.measure.streams import StreamDirectionCounts, StreamEvidence, StreamSpec
from pytest_nfvperf.ports.generator import StreamEnd

RECORDED = Path(__file__).parent / "recorded" / "iperf3"
END = StreamEnd("ns", "10.0.0.1", "e0")


def pairs(spec: StreamSpec, version: str, name: str) -> list[Sides]:
    found = [
        read_report(RECORDED / f"{version}-{name}-{end}.json", client=end == "client") for end in ("client", "server")
    ]
    client, server = found
    assert client is not None
    assert server is not None
    return sides(spec, client, server)


def counted(spec: StreamSpec, pair: Sides) -> StreamDirectionCounts:
    counts = count_direction(spec, pair)
    assert counts is not None
    return counts


@pytest.mark.parametrize("version", ["3.12", "3.18"])
def test_a_whole_run_counts_the_receivers_total_but_for_what_came_after_it(version: str) -> None:
    spec = StreamSpec(streams=2, direction="both")
    both = pairs(spec, version, "bidir")
    ways = [counted(spec, pair) for pair in both]
    assert [counts.direction for counts in ways] == ["forward", "reverse"]
    for counts, pair in zip(ways, both, strict=True):
        keys = pair.receiver.keys(sender=False)
        total = sum(pair.receiver.totals[key] for key in keys)
        after = sum(part.bytes for key in keys for part in pair.receiver.streams[key] if part.start_s > 0.99)
        assert counts.received_bytes == total - after
        assert counts.retransmits is not None
    assert list(time_reasons(spec, ways)) == []
    assert list(account_reasons(both, ways)) == []


def test_a_part_of_a_run_counts_its_intervals() -> None:
    spec = StreamSpec(streams=2, omit_s=0.3, duration_s=0.5)
    [pair] = pairs(spec, "3.12", "tcp")
    counts = counted(spec, pair)
    assert counts.elapsed_ns == pytest.approx(0.5e9, abs=0.1e9)
    key = pair.receiver.keys(sender=False)[0]
    measured = pair.receiver.streams[key][3:7]  # from 0.349 to 0.816 s: the machine was busy
    assert counts.streams[0].received_bytes == sum(part.bytes for part in measured)
    assert list(account_reasons([pair], [counts])) == []


def test_udp_counts_losses_at_the_receiver() -> None:
    spec = StreamSpec("udp", streams=2)
    counts = counted(spec, pairs(spec, "3.12", "udp")[0])
    assert counts.retransmits is None
    assert counts.datagrams is not None
    assert counts.lost_datagrams is not None
    assert (counts.datagrams - counts.lost_datagrams) * 1448 == counts.received_bytes


def test_too_few_streams_or_too_little_time_is_no_count() -> None:
    spec = StreamSpec(streams=3)
    assert count_direction(spec, pairs(spec, "3.12", "tcp")[0]) is None
    late = StreamSpec(streams=2, omit_s=1.2)
    assert count_direction(late, pairs(late, "3.12", "tcp")[0]) is None


def test_a_measured_time_that_is_another_is_a_reason() -> None:
    spec = StreamSpec(duration_s=2.0)
    reasons = list(
        time_reasons(
            spec,
            [StreamDirectionCounts("forward", 2_099_000_000, ()), StreamDirectionCounts("reverse", 1_800_000_000, ())],
        )
    )
    assert [(reason.code, reason.detail) for reason in reasons] == [
        (Reason.STRETCHED_TIME, "reverse: measured for 1.800 s, not 2 s, limit 0.1 s more or less")
    ]


def with_hidden(pair: Sides, share: float) -> Sides:
    """The same, with a total that its intervals do not show."""
    totals = {key: round(total * (1 + share)) for key, total in pair.receiver.totals.items()}
    return replace(pair, receiver=replace(pair.receiver, totals=totals))


def test_hidden_bytes_matter_only_when_a_part_was_measured() -> None:
    part = StreamSpec(streams=2, omit_s=0.3, duration_s=0.5)
    [pair] = pairs(part, "3.12", "tcp")
    much, little = with_hidden(pair, 0.05), with_hidden(pair, 0.005)
    [reason] = account_reasons([much], [counted(part, much)])
    assert reason.code is Reason.COUNTER_WENT_BACK
    assert reason.detail.startswith("forward: ")
    assert reason.detail.endswith("limit 2%: leave omit_s at 0")
    assert list(account_reasons([little], [counted(part, little)])) == []
    whole = StreamSpec(streams=2)
    assert list(account_reasons([much], [counted(whole, much)])) == []


def interface(**changes: object) -> Interface:
    values: dict[str, object] = {"index": 3, "up": True, "changes": 2, "counters": {}, **changes}
    return Interface(**values)  # type: ignore[arg-type]


def state(**interfaces: Interface) -> EndState:
    return EndState(interfaces, {})


@pytest.mark.parametrize(
    ("after", "detail"),
    [
        (state(), "interface e0 in namespace ns went away"),
        (state(e0=interface(index=4)), "interface e0 in namespace ns was replaced: its index was 3 and is 4"),
        (state(e0=interface(up=False, changes=3)), "interface e0 in namespace ns went down"),
        (state(e0=interface(changes=4)), "interface e0 in namespace ns lost its carrier or got it, 2 changes in all"),
    ],
)
def test_an_interface_that_is_another_is_a_reason(after: EndState, detail: str) -> None:
    [reason] = interface_reasons(END, state(e0=interface()), after)
    assert (reason.code, reason.detail) == (Reason.LINK_DOWN, detail)


def test_an_interface_whose_kernel_counts_no_carrier_changes_is_fine() -> None:
    assert list(interface_reasons(END, state(e0=interface(changes=None)), state(e0=interface()))) == []


def snapshot(**counters: int) -> CounterSnapshot:
    return CounterSnapshot("client:ns", 1, tuple(sorted(counters.items())))


def test_a_counter_that_fell_is_a_reason_but_not_a_gauge() -> None:
    names = {"e0.rx_bytes": 5, "Tcp.CurrEstab": 9, "idle": 7}
    fell = StreamEvidence(snapshot(**names), snapshot(**dict.fromkeys(names, 1)))
    [reason] = counter_reasons([fell])
    assert (reason.code, reason.detail) == (Reason.COUNTER_WENT_BACK, "client:ns: e0.rx_bytes")


def came_in(rx_bytes: Mapping[str, int]) -> dict[str, EndState]:
    return {role: state(e0=interface(counters=rx_bytes)) for role in ("client", "server")}


def test_streams_that_did_not_come_in_by_the_interface_are_a_reason() -> None:
    spec = StreamSpec(streams=2)
    found = pairs(spec, "3.12", "tcp")
    received = sum(part.bytes for parts in found[0].receiver.streams.values() for part in parts)
    ends = {"client": END, "server": END}
    assert list(path_reasons(found, ends, came_in({"rx_bytes": 10}), came_in({"rx_bytes": 10 + received}))) == []
    assert list(path_reasons(found, ends, came_in({}), came_in({}))) == [], "no counter, no verdict"
    [reason] = path_reasons(found, ends, came_in({"rx_bytes": 10}), came_in({"rx_bytes": 9 + received}))
    assert reason.code is Reason.MORE_RECEIVED_THAN_SENT
    assert reason.detail.endswith(f"only {received - 1} bytes came in by e0: the streams took another way")


def ended(report: Report | None, **changes: object) -> Ended:
    values: dict[str, object] = {"status": 0, "in_time": True, "cpu_ns": (5, 6), "report": report, "log": "", **changes}
    return Ended(**values)  # type: ignore[arg-type]


def test_only_who_was_killed_by_others_died() -> None:
    both = {"client": ended(None, status=-9), "server": ended(None, status=-15, in_time=False)}
    assert [reason.detail for reason in process_reasons(both)] == ["the iperf3 client was killed by SIGKILL"]


def test_an_error_is_the_reports_or_the_logs_or_the_status() -> None:
    report = read_report(RECORDED / "3.12-refused-client.json", client=True)
    assert ended(report, status=1).error == "unable to connect to server: Connection refused"
    assert (
        ended(None, status=1, log="iperf3: parameter error\nusage").error
        == "exited with status 1: iperf3: parameter error"
    )
    assert ended(None, status=1).error == "exited with status 1"
    assert ended(None).error is None


def test_the_cpu_of_a_side_is_over_the_whole_run() -> None:
    report = read_report(RECORDED / "3.12-tcp-client.json", client=True)
    assert report is not None
    cpu = side_cpu(ended(report))
    assert cpu is not None
    assert (cpu.user_ns, cpu.system_ns, cpu.iperf3_percent) == (5, 6, report.cpu_percent)
    assert cpu.elapsed_ns == round(report.elapsed_s * 1e9)
    assert side_cpu(ended(None)) is None
    assert side_cpu(ended(report, cpu_ns=None)) is None
