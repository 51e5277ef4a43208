"""What goes wrong with one of two nodes inside a running trial: each an error that names it, and nothing stays."""

from __future__ import annotations

import pytest

from tests.measured.test_faults import base, project, run

__all__ = ["base", "project"]

NODES = """
from pytest_nfvperf import Dut, vm_to_vm
from pytest_nfvperf.features.routing.path_daemons import LinkSwitch

ONE_WAY = Traffic(frame_size=256, bidirectional=False)

def deployed(deploy, nfv_session, overlay="vxlan"):
    live = deploy(vm_to_vm(overlay), dut=Dut("netdev"))
    return live, nfv_session.rig.datapath(live.dut)
"""


def test_a_node_or_the_underlay_goes_in_a_trial_and_the_next_test_has_both_again(project: pytest.Pytester) -> None:
    result = run(
        project,
        NODES
        + """
def test_killed(deploy, search, nfv_session):
    live, nodes = deployed(deploy, nfv_session)
    in_trial(nfv_session, lambda: later(0.3, os.kill, nodes.node("node2").instance.pid, signal.SIGKILL))
    search.loss_at(live, ONE_WAY, 1_000, 0.6)

def test_cut(deploy, search, nfv_session):
    live, nodes = deployed(deploy, nfv_session)
    switch = LinkSwitch(nodes.node("node2").instance.home.name, "up2")
    in_trial(nfv_session, lambda: later(0.3, switch.down))
    search.loss_at(live, ONE_WAY, 1_000, 0.6)

def test_next(deploy, search, nfv_session):
    live, nodes = deployed(deploy, nfv_session)
    outcome = search.loss_at(live, ONE_WAY, 1_000, 0.5)
    assert outcome.loss_curve[0].loss_ratio == 0
""",
    )
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            "testbed error: node node2: ovs-vswitchd (pid *) was killed by SIGKILL*",
            "testbed error: node node*: interface 'up*' has no link: it, or its other end, was set down*",
        ]
    )


def test_a_node_frozen_in_a_trial_is_named(project: pytest.Pytester) -> None:
    result = run(
        project,
        NODES
        + """
def test_frozen(deploy, search, nfv_session):
    live, nodes = deployed(deploy, nfv_session)
    in_trial(nfv_session, lambda: later(0.3, os.kill, nodes.node("node2").instance.pid, signal.SIGSTOP))
    search.loss_at(live, ONE_WAY, 1_000, 0.6)
""",
    )
    result.assert_outcomes(failed=1)
    said = "testbed error: node node2: ovs-vswitchd (pid *) is in state T (stopped), and not by us: kill -CONT *"
    result.stdout.fnmatch_lines([said])
