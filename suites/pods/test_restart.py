"""A restart of Open vSwitch under running pods (S5): how long do they not reach each other?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import Dut, SlaCheck, Study, Subject, compares
from pytest_nfvperf.parts import pod_node

ENDS = ("pod1", "pod2")


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod", interface="veth")
@pytest.mark.parametrize("end", ["exit", "kill"])
@compares("datapath", ("system", "netdev"))
def test_restart(datapath: Sequence[str], end: str, study: Study, sla: SlaCheck) -> None:
    """Pods on veth, by the kernel's datapath and by the one in userspace; OVS is asked to exit, or killed.

    Steps: in interleaved rounds build the node anew on each datapath; send datagrams from pod1 to pod2; restart OVS.
    Verify: they arrive again; for how long none did is reported.
    """
    subjects = [Subject(each, pod_node(), Dut(each)) for each in datapath]
    sla.check_each(study.reconnect_time("datapath", subjects, ends=ENDS, killed=end == "kill"))


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pods", to="pod", datapath="dpdk")
@pytest.mark.parametrize("end", ["exit", "kill"])
@compares("interface", ("veth", "vduse"))
def test_restart_with_dpdk(interface: Sequence[str], end: str, study: Study, sla: SlaCheck) -> None:
    """The same on OVS with DPDK, whose start takes longer, by the kind of the pods' interfaces.

    Steps: as above.
    Verify: as above. A VDUSE device outlives OVS, which must find its queues again.
    """
    subjects = [Subject(kind, pod_node(kind=kind), Dut("dpdk")) for kind in interface]
    sla.check_each(study.reconnect_time("interface", subjects, ends=ENDS, killed=end == "kill"))
