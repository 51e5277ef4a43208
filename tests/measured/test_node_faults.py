"""Two nodes: what goes wrong with one in a trial, each an error that names it; and turns of those that share a CPU."""

from __future__ import annotations

import pytest

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.topology.workloads import vm_to_vm
from tests.functional.ovs_support import needs_hugepages
from tests.functional.test_nodes import started, trial
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


@pytest.mark.thorough("tests/functional/test_nodes.py names each in make test")
def test_a_node_or_the_underlay_goes_in_a_trial_and_the_next_test_has_both_again(
    project: pytest.Pytester,
) -> None:
    result = run(
        project,
        NODES
        + """
def test_killed(deploy, search, nfv_session):
    live, nodes = deployed(deploy, nfv_session)
    in_trial(nfv_session, lambda: later(0.3, os.kill, nodes.node("node2").instance.pid, signal.SIGKILL))
    search.loss_at(live, ONE_WAY, 1_000, 1.2)

def test_cut(deploy, search, nfv_session):
    live, nodes = deployed(deploy, nfv_session)
    switch = LinkSwitch(nodes.node("node2").instance.home.name, "up2")
    in_trial(nfv_session, lambda: later(0.3, switch.down))
    search.loss_at(live, ONE_WAY, 1_000, 1.2)

def test_next(deploy, search, nfv_session):
    live, nodes = deployed(deploy, nfv_session)
    outcome = search.loss_at(live, ONE_WAY, 1_000, 0.5)
    assert outcome.loss_curve[0].loss_ratio == 0

def test_frozen(deploy, search, nfv_session):
    live, nodes = deployed(deploy, nfv_session)
    in_trial(nfv_session, lambda: later(0.3, os.kill, nodes.node("node2").instance.pid, signal.SIGSTOP))
    search.loss_at(live, ONE_WAY, 1_000, 1.2)
""",
    )
    result.assert_outcomes(failed=3, passed=1)
    result.stdout.fnmatch_lines(
        [
            "testbed error: node node2: ovs-vswitchd (pid *) was killed by SIGKILL*",
            "testbed error: node node*: interface 'up*' has no link: it, or its other end, was set down*",
            "testbed error: node node2: ovs-vswitchd (pid *) is in state T (stopped), and not by us: kill -CONT *",
        ]
    )


@pytest.mark.thorough("how many frames come through at overload")
@needs_hugepages
def test_dpdk_nodes_that_share_a_cpu_take_short_turns(journal: Journal) -> None:
    """What the first forwards comes through: in turns of the kernel's tick seven of eight frames overflow the ring."""
    datapath = started(journal, "dpdk", "turns")
    try:
        if not datapath.info().at_least:
            pytest.skip("each of the nodes has a CPU of its own here")
        assert datapath.info().short_turns
        built = datapath.build(vm_to_vm("none"))
        result, _ = trial(datapath, built, journal, load_fps=10_000_000)
        built.close()
    finally:
        datapath.close()
    assert result.received > 0.4 * sum(count.sent for count in result.counts)
