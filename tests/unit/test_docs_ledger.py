"""The page on the drop ledger has every reason, with the versions that the code knows."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_nfvperf.adapters.ovs.counters import (
    DATAPATH_REASONS,
    ERRORS,
    FIRST,
    LAST,
    PORT_REASONS,
    DropReason,
)

PAGE = Path(__file__).parents[2] / "docs/reference/drop-ledger.md"


def versions(reason: DropReason) -> str:
    if (reason.since, reason.until) == (FIRST, LAST):
        return ""
    return f"{reason.since} to {reason.until}" if reason.until != LAST else f"since {reason.since}"


def table() -> str:
    rows = [(source, reason, versions(reason)) for source, reasons in SOURCES for reason in reasons]
    return "\n".join(f"| {source} | `{reason.name}` | {reason.meaning} | {since} |" for source, reason, since in rows)


SOURCES = (("DPDK port", PORT_REASONS), ("datapath", DATAPATH_REASONS))


def test_the_page_lists_the_reasons_that_the_code_knows() -> None:
    sources = ("| DPDK port |", "| datapath |")
    listed = "\n".join(line for line in PAGE.read_text().splitlines() if line.startswith(sources))
    assert listed == table(), "the page on the drop ledger is not up to date: its rows are what table() says"


def test_the_page_lists_the_errors_that_the_code_reads() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?)(?: \([^)]*(?:newer)\))? \|$", PAGE.read_text(), re.MULTILINE))
    assert rows == ERRORS


def test_the_page_lists_counters_of_the_kernel_that_the_code_reads() -> None:
    listed = re.findall(r"^\| kernel \| `(\w+)`", PAGE.read_text(), re.MULTILINE)
    code = "".join(path.read_text() for path in (PAGE.parents[2] / "pytest_nfvperf/adapters").rglob("*.py"))
    assert len(listed) == 6
    assert [name for name in listed if name not in code] == []
