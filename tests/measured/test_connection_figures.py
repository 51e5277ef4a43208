"""Rates and numbers of connections on a real OVS-DPDK: a handicap, none, a DUT that dies, and counts to the unit."""

from __future__ import annotations

from typing import Any

import pytest
from user_project import INCONCLUSIVE, needs_a_verdict, records

from tests.functional.ovs_support import needs_hugepages
from tests.measured.test_faults import base, project, run

__all__ = ["base", "project"]

pytestmark = needs_hugepages

TRACKED = """
import pytest
import pytest_nfvperf as nfv
from pytest_nfvperf.parts import connections, endpoint, path

def tracked(**settings):
    ends = endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1")
    return nfv.compose("tracked", *ends, connections("br0", client="p0", server="p1", **settings))
"""

ZONES = """
SETTINGS = {"one": {}, "same": {}, "two": {"second_zone": 2}}

@nfv.compares("zones", list(SETTINGS))
def test_zones(zones, study, sla):
    subjects = [nfv.Subject(name, tracked(most_connections=10_000_000, **SETTINGS[name])) for name in zones]
    sla.check_each(study.connection_rate("zones", subjects, nfv.Conversation.tcp(clients=16)))
"""

SLA = """
schema: 1
rules:
- {where: {zones: same}, require: {connection_rate: '>= 90 % of {zones: one}'}}
- {where: {zones: two}, require: {connection_rate: '>= 90 % of {zones: one}'}}
"""

KILLED_AND_COUNTED = """
def test_killed(deploy, search, nfv_session):
    live = deploy(tracked())
    pid = nfv_session.rig.datapath().instance.vswitchd.pid
    in_trial(nfv_session, lambda: later(0.3, os.kill, pid, signal.SIGKILL))
    search.loss_at(live, nfv.Conversation.tcp(), 10_000, 1.2)

@pytest.mark.parametrize("zones", [1, 2])
def test_counts(zones, deploy, search):
    live = deploy(tracked(zone=1, **({"second_zone": 2} if zones == 2 else {})))
    for _ in range(10):
        point = search.loss_of(live, nfv.Conversation.tcp(close="none"), 500).loss_curve[0]
        assert point.lost_frames == 0
        assert set(live.connections().values()) == {point.offered_frames}
"""


@pytest.mark.thorough("tests/plugin/test_connection_rates.py has the words in make test")
def test_a_second_zone_is_slower_and_the_same_is_not(project: pytest.Pytester) -> None:
    """Steps: compare a zone with itself, and with two zones. Verify: two alone take fewer connections a second."""
    (project.path / "sla.yaml").write_text(SLA)
    result = run(project, TRACKED + ZONES, "--nfv-profile", "quick", "--nfv-sla", "sla.yaml")
    needs_a_verdict(result.ret, result.stdout.str())
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*zones one: * kconn/s, same: * %, two: *FAIL*", "* same *conn/s*", "*  two *conn/s* FAIL"]
    )
    result.stdout.no_fnmatch_line(" same * FAIL")


@pytest.mark.thorough("test_faults.py kills a DUT, tests/functional/test_faults_of_connections.py counts in make test")
def test_a_dut_that_dies_fails_no_connection_and_the_next_has_each_that_was_opened(project: pytest.Pytester) -> None:
    result = run(project, TRACKED + KILLED_AND_COUNTED)
    ends: dict[str, Any] = {one["test"].rpartition("::")[2]: one["data"] for one in records(project.path, "test_end")}
    killed = ends.pop("test_killed")
    assert killed["cause"] == "testbed"
    assert "ovs-vswitchd" in killed["reason"]
    assert "SIGKILL" in killed["reason"]
    assert all("::test_counts" in one["test"] for one in records(project.path, "outcome"))
    if any(end["cause"] == "inconclusive" for end in ends.values()):
        needs_a_verdict(INCONCLUSIVE, result.stdout.str())
    assert [end["status"] for end in ends.values()] == ["passed"] * 2, result.stdout.str()
