"""The virtual lab: one boot, in which every test of pci_scenarios.py runs on emulated PCI NICs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.virtual_lab.lab import LabNics, run_in_lab
from tests.functional.ovs_support import clean_run
from tests.kernel.inner_tests import InnerTest, check, pytest_command, results

pytestmark = [pytest.mark.kernel, pytest.mark.lab]

INNER = "tests/kernel/pci_scenarios.py"
TWO_CPUS = "default:CPU 0 is shared"  # a warning, which our own configuration makes an error


@pytest.fixture(scope="module")
def lab(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InnerTest, ...]]:
    shared = tmp_path_factory.mktemp("lab")
    command = pytest_command("-p", "no:hypothesispytest", "-W", TWO_CPUS, INNER)
    with clean_run() as journal:
        yield results(run_in_lab(journal, kernel, command, shared, LabNics(), deadline_s=500))


@pytest.mark.parametrize(
    "function",
    [
        "test_a_killed_run_leaves_nothing",
        "test_a_nic_that_is_absent_is_named",
        "test_a_nic_that_nobody_has_bound_is_named",
        "test_crossed_cables_are_found",
        "test_a_cut_cable_is_found",
        "test_every_frame_comes_through",
        "test_frames_that_a_nic_missed_are_in_the_ledger_once",
        "test_a_link_that_goes_and_comes_in_a_trial_is_nobodys_loss",
    ],
)
def test_in_the_lab(lab: tuple[InnerTest, ...], function: str) -> None:
    check(lab, "tests.kernel.pci_scenarios", function)
