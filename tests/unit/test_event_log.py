"""What a DUT did when, read from its logs and its database on another clock."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

from pytest_nfvperf.adapters.ovs.event_log import MOST_EVENTS, events_since, log_events, transactions
from pytest_nfvperf.model.measure.outage import LogLine

SECOND = 1_000_000_000
OFFSET_NS = 1_700_000_000 * SECOND
PORT = "0f1e2d3c-0000-4000-8000-000000000001"


def line(at_ms: int, text: str = "bridge|INFO|bridge br0: added", number: int = 1) -> str:
    """A line of a daemon's log, ``at_ms`` after the wall clock's OFFSET_NS."""
    at = datetime.fromtimestamp(OFFSET_NS / SECOND + at_ms / 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z|{number:05d}|{text}\n"


def transaction(at_ms: int, **tables: object) -> str:
    return f"OVSDB JSON 99 0123\n{json.dumps({'_date': OFFSET_NS // 1_000_000 + at_ms, **tables})}\n"


def test_a_daemons_log_is_put_on_our_clock() -> None:
    text = "+no time: a line of DPDK\n" + line(1_234) + line(1_235, "fatal|WARN|terminating", 2)
    assert list(log_events("ovs-vswitchd", text, OFFSET_NS)) == [
        LogLine(1_234_000_000, "ovs-vswitchd", "bridge|INFO|bridge br0: added"),
        LogLine(1_235_000_000, "ovs-vswitchd", "fatal|WARN|terminating"),
    ]


def test_local_time_changes_nothing(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """OVS writes UTC wherever it runs."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert next(log_events("x", line(7), OFFSET_NS)).ns == 7_000_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_transaction_says_which_rows_it_changed() -> None:
    text = (
        '":0}}\n'  # the end of a line: a tail begins anywhere
        + transaction(5, Interface={PORT: {"ofport": 3, "statistics": ["map", []]}}, _comment="ovs-vsctl")
        + transaction(6, Interface={PORT: {"statistics": ["map", []]}})
        + transaction(7, Port={PORT: None}, Bridge={"ffffffff-0": {"name": "br0", "ports": ["set", []]}})
        + '{"Interface": {}}\n'  # the first record of a compacted file has no date
        + '{"_date": 17'
    )
    assert list(transactions(text, OFFSET_NS, {PORT: "p0"})) == [
        LogLine(5_000_000, "database", "ovs-vsctl; Interface p0: ofport=3"),
        LogLine(7_000_000, "database", 'Port p0: deleted; Bridge br0: name="br0" ports=["set", []]'),
    ]


def test_of_many_lines_problems_and_our_own_steps_stay(tmp_path: Path) -> None:
    """Steps: 300 lines of a log since a moment, one a warning; some before it. Verify: in order, at most 100."""
    log, now_ns = tmp_path / "a.log", time.monotonic_ns()
    wall = datetime.now(UTC).timestamp()
    texts = ["|INFO|noise"] * 299 + ["|WARN|told"]
    stamps = [datetime.fromtimestamp(wall + 1 + number / 1000, UTC) for number in range(300)]
    log.write_text(
        "2020-01-01T00:00:00.000Z|00001|x|ERR|long ago\n"
        + "".join(
            f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z|00001|x{text}\n"
            for at, text in zip(stamps, texts, strict=True)
        )
    )
    steps = [LogLine(now_ns - SECOND, "nfvperf", "before"), LogLine(now_ns + 2 * SECOND, "nfvperf", "step")]
    found = events_since(now_ns, {"ovs-vswitchd": log}, tmp_path / "no.db", {}, steps)
    assert len(found) == MOST_EVENTS
    assert [event.ns for event in found] == sorted(event.ns for event in found)
    texts = [event.text for event in found]
    assert "x|WARN|told" in texts
    assert "step" in texts
    assert "before" not in texts
    assert not any("long ago" in text for text in texts)
    assert any("202 more lines are not listed" in text for text in texts)
