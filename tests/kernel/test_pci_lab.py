"""The virtual lab: one boot, in which every test of pci_scenarios.py runs on emulated PCI NICs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.virtual_lab import LabNics, run_in_lab
from tests.functional.ovs_support import clean_run
from tests.kernel import pci_scenarios
from tests.kernel.inner_tests import InnerTest, check, pytest_command, results

FUNCTIONS = [name for name in vars(pci_scenarios) if name.startswith("test_")]

pytestmark = [pytest.mark.kernel, pytest.mark.lab]

INNER = "tests/kernel/pci_scenarios.py"
TWO_CPUS = "default:CPU 0 is shared"  # a warning, which our own configuration makes an error


@pytest.fixture(scope="module")
def lab(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InnerTest, ...]]:
    shared = tmp_path_factory.mktemp("lab")
    command = pytest_command("-p", "no:hypothesispytest", "-W", TWO_CPUS, INNER)
    with clean_run() as journal:
        yield results(run_in_lab(journal, kernel, command, shared, LabNics(), deadline_s=500))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_in_the_lab(lab: tuple[InnerTest, ...], function: str) -> None:
    check(lab, pci_scenarios.__name__, function)
