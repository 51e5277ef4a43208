"""TCP from a pod on one node to a pod on the other (S5): what does the tunnel between the nodes cost?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import Dut, SlaCheck, Study, Subject, compares, sweep
from pytest_nfvperf.parts import pod_nodes

ENDS = ("pod1", "pod2")


@pytest.mark.nfv_not_quick
@pytest.mark.nfv(topology="pod-nodes", to="pod on the other node", interface="veth")
@sweep("buffer", (64, 1460, 65_536))
@compares("overlay", ("none", "geneve", "vxlan"))
def test_between_nodes(overlay: Sequence[str], buffer: int, study: Study, sla: SlaCheck) -> None:
    """Goodput between pods on two nodes in userspace, by what joins the nodes, by the size of a write.

    Steps: in interleaved rounds build two nodes with an underlay between; send TCP from pod1 to pod2.
    Verify: measured and reported, as ratios to no overlay. Nodes that share a CPU do at least what is shown.
    """
    subjects = [Subject(name, pod_nodes(name), Dut("netdev")) for name in overlay]
    sla.check_each(study.tcp_throughput("overlay", subjects, ends=ENDS, buffer_bytes=buffer))
