"""What VMs forward without a mirror (S4, cases 1a and 1b), and the VM-to-VM baseline that its author found missing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nfvperf import (
    RFC2544_FRAME_SIZES,
    SlaCheck,
    Study,
    Subject,
    Traffic,
    compares,
    sweep,
    vm_chain,
    vm_receiving,
)

CASES = {"1a": vm_receiving(), "1b": vm_chain(1), "vm-to-vm": vm_chain(2)}


@pytest.mark.nfv(topology="vms")
@sweep("frame_size", RFC2544_FRAME_SIZES, quick={64})
@compares("case", CASES, quick=CASES)
def test_baselines(case: Sequence[str], frame_size: int, study: Study, sla: SlaCheck) -> None:
    """Forwarding rate to a VM that only receives (1a), through one VM (1b) and through two (VM to VM), no mirror.

    Steps: in interleaved rounds build each anew on a bridge that learns MAC addresses; learn; warm up; offer more
    than it forwards, one way.
    Verify: the SLA for each case.
    """
    chains = [Subject(name, CASES[name]) for name in case]
    sla.check_each(study.forwarding_rate("case", chains, Traffic(frame_size=frame_size, bidirectional=False)))
