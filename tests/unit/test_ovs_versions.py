"""What Debian's packages of four OVS versions said when they were started here, against what the code expects of them.

``recorded/ovs``: drop counters that ``coverage/read-counter`` knows, PMD commands, counters of a vhost-user port, and
``pmd-perf-show`` of a PMD without traffic.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.ovs.counters import DATAPATH_REASONS, PORT_REASONS, DropReason, parse_pmd_perf

RECORDED = Path(__file__).parent / "recorded" / "ovs"
VERSIONS = ("2.15.0", "3.1.0", "3.5.0", "4.0.0")
IN_NO_PACKAGE = {"datapath_drop_hw_miss_recover"}
"""In the sources of 2.16 to 3.6, and in none of Debian's packages of them."""


def recorded(version: str) -> dict[str, list[str]]:
    """Lines by the heading that they are under."""
    text = (RECORDED / f"{version}.txt").read_text(encoding="utf-8")
    parts = re.split(r"^# (.*)\n", text, flags=re.MULTILINE)[1:]
    return {heading: body.splitlines() for heading, body in zip(parts[::2], parts[1::2], strict=True)}


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def has(reason: DropReason, version: str) -> bool:
    return number(reason.since) <= number(version) <= number(reason.until)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_the_drop_counters_that_the_table_says(version: str) -> None:
    expected = {reason.name for reason in DATAPATH_REASONS if has(reason, version)} - IN_NO_PACKAGE
    assert set(recorded(version)["coverage/read-counter knows"]) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_the_reasons_of_dpdk_ports(version: str) -> None:
    """OVS's own; those of a NIC are DPDK's, and a vhost-user port has none."""
    counters = recorded(version)["counters of a dpdkvhostuserclient port"]
    own = {reason.name for reason in PORT_REASONS if reason.name.startswith("ovs_")}
    assert own == {reason.name for reason in PORT_REASONS if has(reason, version)} & {*counters}
    assert not {reason.name for reason in PORT_REASONS} & {name for name in counters if name.startswith("rx_")}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_one_of_the_two_listings_of_pmds(version: str) -> None:
    commands = recorded(version)["dpif-netdev commands"]
    assert ("dpif-netdev/pmd-stats-show" in commands) == (number(version) < (4, 0))
    assert "dpif-netdev/pmd-perf-show" in commands
    counters = parse_pmd_perf("\n".join(recorded(version)["dpif-netdev/pmd-perf-show"]))
    assert counters["pmd.packets_received"] == counters["pmd.c01.upcalls_failed"] == 0
    assert counters["pmd.cycles_used"] > 0
