"""S4: mirrors of every frame through two VMs, to a VM, to another port of the generator and to the host."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf.judging import SlaCheck
from pytest_nfvperf.model.mirror_outputs import mirror_output
from pytest_nfvperf.model.parts import mirror as mirror_part
from pytest_nfvperf.model.topology import Topology
from pytest_nfvperf.model.traffic import RFC2544_FRAME_SIZES, Traffic
from pytest_nfvperf.model.vm_chain import vm_chain
from pytest_nfvperf.runs.mirroring import MirrorLoad
from pytest_nfvperf.runs.study import Study, Subject
from pytest_nfvperf.sweep import compares, sweep

LOADS = {"10 %": MirrorLoad(share=0.1), "50 %": MirrorLoad(share=0.5), "6 Mpps": MirrorLoad(fps=6e6)}
"""Of the forwarding rate without a mirror; and S4's own."""

OUTPUTS = {"a": "virtual", "b": "physical", "c": "host"}
"""By the letters of S4's cases."""


def _chain(output: str, by: str) -> Topology:
    """Mirrored by that method; not at all when ``by`` is "off"."""
    port = mirror_output(output)
    mirrors = () if by == "off" else (mirror_part("all", port.bridge, port.name, by=by),)
    return vm_chain(2, port, mirrors)


@pytest.mark.nfv(topology="vm-chain-2")
@sweep("load", LOADS, quick={"10 %"})
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
@sweep("case", ("2a", "2b", "2c"), quick=("2a", "2b", "2c"))
@compares("mirror", ("off", "ovsdb", "flow"), quick=("off", "ovsdb"))
def test_software(mirror: Sequence[str], case: str, frame_size: int, load: str, study: Study, sla: SlaCheck) -> None:
    """A mirror in software of all that crosses the bridge, three times each frame: complete, and at what cost?

    Steps: in interleaved rounds build generator - VM1 - VM2 - generator with the mirror's output, without and with the
    mirror; learn; warm up; offer more than it forwards; send at the load.
    Verify: at the load every copy arrives; the SLA for the forwarding rate as a ratio to the one without mirror.
    """
    chains = [Subject(by, _chain(OUTPUTS[case[1]], by)) for by in mirror]
    sent = Traffic(frame_size=frame_size, bidirectional=False)
    sla.check_each(study.mirror_cost("mirror", chains, sent, LOADS[load]))
