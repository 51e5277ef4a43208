"""The parser of iperf3's reports, on reports of 3.12 (Debian 12) and 3.18 (Debian 13) between two namespaces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.generators.iperf3_session import (
    Report,
    StreamPart,
    bytes_within,
    parse_report,
    read_report,
    unaccounted,
    window,
)

RECORDED = Path(__file__).parent / "recorded" / "iperf3"
VERSIONS = ("3.12", "3.18")


def report(version: str, name: str, end: str) -> Report:
    found = read_report(RECORDED / f"{version}-{name}-{end}.json", client=end == "client")
    assert found is not None
    return found


def both(version: str, name: str) -> tuple[Report, Report]:
    return report(version, name, "client"), report(version, name, "server")


def total(one: Report, *, sender: bool) -> int:
    return sum(part.bytes for key in one.keys(sender=sender) for part in one.streams[key])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "client_sends", "server_sends"),
    [("tcp", 2, 0), ("reverse", 0, 1), ("bidir", 2, 2), ("udp", 2, 0)],
)
def test_both_ends_know_a_stream_by_the_same_name(
    version: str, name: str, client_sends: int, server_sends: int
) -> None:
    client, server = both(version, name)
    assert client.keys(sender=True) == server.keys(sender=False)
    assert client.keys(sender=False) == server.keys(sender=True)
    assert (len(client.keys(sender=True)), len(server.keys(sender=True))) == (client_sends, server_sends)
    assert all(key.isdigit() for key in client.streams)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["tcp", "reverse", "bidir"])
def test_only_the_sender_of_tcp_tells_of_retransmits(version: str, name: str) -> None:
    for one in both(version, name):
        for parts in one.streams.values():
            assert {part.retransmits is None for part in parts} == {not parts[0].sender}
            assert {part.packets for part in parts} == {None}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_receiver_of_udp_tells_of_losses(version: str) -> None:
    client, server = both(version, "udp")
    for key in server.keys(sender=False):
        assert all(part.lost_packets is not None and part.packets is not None for part in server.streams[key])
        assert all(part.lost_packets is None and part.packets for part in client.streams[key][:-1])
    assert server.out_of_order == 0
    assert server.totals == {}, "3.12 says 0 there: absent, not none"


def test_intervals_of_3_12_add_up_to_the_total() -> None:
    for name in ("tcp", "reverse", "bidir"):
        for one in both("3.12", name):
            assert {unaccounted(one, key) for key in one.streams} == {0}
            assert set(one.totals) == set(one.streams)


def test_intervals_of_3_18_do_not() -> None:
    hidden = [
        unaccounted(one, key)
        for name in ("tcp", "reverse", "bidir")
        for one in both("3.18", name)
        for key in one.streams
    ]
    assert any(hidden)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["tcp", "reverse", "bidir"])
def test_no_more_is_received_than_was_sent_in_all(version: str, name: str) -> None:
    client, server = both(version, name)
    for sender, receiver in ((client, server), (server, client)):
        for key in receiver.keys(sender=False):
            assert receiver.totals[key] <= sender.totals[key]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_whole_run_as_a_window_is_the_total(version: str) -> None:
    _, server = both(version, "tcp")
    for key, parts in server.streams.items():
        span = window(parts, 0.0, 1.0)
        assert span[0] == parts[0]
        assert bytes_within(server, key, parts) == server.totals[key]


def test_cpu_and_facts_are_this_ends_own() -> None:
    client, server = both("3.12", "tcp")
    assert client.cpu_percent is not None
    assert server.cpu_percent is not None
    assert client.cpu_percent != server.cpu_percent
    assert client.facts["tcp_mss"] == "1448"
    assert client.facts["congestion"]
    assert "congestion" not in report("3.12", "udp", "client").facts
    assert client.elapsed_s == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("name", "end", "error"),
    [
        ("refused", "client", "unable to connect to server: Connection refused"),
        ("nobind", "server", "error - unable to start listener for connections: Cannot assign requested address"),
        ("server-died", "client", "unable to write to stream socket: Connection reset by peer"),
    ],
)
def test_errors_are_in_its_own_words(name: str, end: str, error: str) -> None:
    assert report("3.12", name, end).error == error


def test_what_was_not_or_not_wholly_written_is_absent(tmp_path: Path) -> None:
    assert read_report(tmp_path / "none.json", client=True) is None
    text = (RECORDED / "3.12-tcp-client.json").read_text()
    assert parse_report(text[:-20], client=True) is None
    assert parse_report("", client=True) is None
    assert parse_report("[]", client=True) is None


def test_a_report_without_counters_has_none() -> None:
    empty = parse_report(json.dumps({"start": {}, "intervals": [], "end": {}}), client=False)
    assert empty is not None
    assert (empty.error, empty.cpu_percent, empty.streams, empty.totals, empty.facts) == (None, None, {}, {}, {})
    assert empty.elapsed_s == 0


def parts_of(lengths: list[float]) -> tuple[StreamPart, ...]:
    parts, start = [], 0.0
    for number, length in enumerate(lengths):
        parts.append(StreamPart("1", False, start, start + length, number, None, None, None))
        start += length
    return tuple(parts)


@given(
    lengths=st.lists(st.floats(0.09, 0.3), min_size=12, max_size=60),
    omit=st.integers(0, 5).map(lambda tenths: tenths / 10),
    duration=st.integers(1, 9).map(lambda tenths: tenths / 10),
)
def test_a_window_is_whole_intervals_nearest_to_what_was_asked(
    lengths: list[float], omit: float, duration: float
) -> None:
    parts = parts_of(lengths)
    span = window(parts, omit, duration)
    assert span
    at = parts.index(span[0])
    assert parts[at : at + len(span)] == span
    longest = max(lengths)
    assert abs(span[0].start_s - omit) <= longest / 2 + 1e-9
    # At least one interval is taken, and it may be longer than what was asked.
    assert abs(span[-1].end_s - omit - duration) <= longest / 2 + max(longest / 2, longest - duration) + 1e-9


def test_a_run_that_ended_within_the_warm_up_has_no_window() -> None:
    assert window(parts_of([0.1, 0.1]), 0.2, 1.0) == ()
    assert window((), 0.0, 1.0) == ()
    late = window(parts_of([0.1] * 5), 0.2, 1.0)
    assert late[-1].end_s - late[0].start_s == pytest.approx(0.3)
