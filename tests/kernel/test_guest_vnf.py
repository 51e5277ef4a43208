"""A VNF that is a QEMU guest: frames go from the generator through OVS into the guest's testpmd, and back."""

from __future__ import annotations

import os
import signal

import pytest

from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.workloads import vm_chain
from tests.functional.ovs_support import needs_hugepages, needs_root
from tests.functional.vnf_support import vnf_rig

pytestmark = [needs_root, needs_hugepages, pytest.mark.daily("boots an emulated VM and waits for its testpmd")]

CALM_FPS = 500


@pytest.mark.usefixtures("kernel")
def test_a_guest_forwards_and_counts_every_frame_and_its_end_is_told() -> None:
    """One boot, emulated: that is most of the test's time. What a fault does needs no second one."""
    with vnf_rig() as rig:
        live = rig.deployment(vm_chain(1, kind="qemu"))
        for _ in range(10):  # on a busy host an emulated guest may stand still for longer than a trial waits
            trial = rig.trial(live, CALM_FPS)
            sent = trial.result.sent
            if trial.result.received == sent > 0:
                break
        assert trial.result.received == sent > 0
        assert [(vm.port, vm.received, vm.sent) for vm in trial.result.vnfs] == [("vm1", sent, sent)]
        assert trial.ledger is not None
        assert {hop.left for hop in trial.ledger.paths[0].hops} == {sent}

        (entry,) = [one for one in rig.journal.entries if one.name == "qemu-system-x86_64 of VNF vm1"]
        pid = int(entry.details["pid"])
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(TestbedError, match=rf"^qemu-system-x86_64 of VNF vm1 \(pid {pid}\) was killed by SIGKILL"):
            rig.trial(live, CALM_FPS)
