"""The virtual lab: random faults, each in a trial of its own (pci_faults.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.virtual_lab import LabNics, run_in_lab
from tests.functional.ovs_support import clean_run
from tests.kernel.inner_tests import check, pytest_command, results
from tests.kernel.pci_faults import FAULTS

pytestmark = [pytest.mark.kernel, pytest.mark.lab]


def test_no_loss_of_the_rig_is_the_duts(kernel: Kernel, tmp_path: Path) -> None:
    words = ("-p", "no:hypothesispytest", "-W", "default:CPU 0 is shared", "tests/kernel/pci_faults.py")
    with clean_run() as journal:
        ran = results(run_in_lab(journal, kernel, pytest_command(*words), tmp_path, LabNics(), deadline_s=2400))
    assert len(ran) == FAULTS
    check(ran, "tests.kernel.pci_faults", "test_each_lost_frame_has_its_owner")
