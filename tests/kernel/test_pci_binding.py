"""NICs that the guest's kernel has are bound for a run and given back: one boot, in which binding_scenarios.py runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.virtual_lab import LabNics, run_in_lab
from tests.functional.ovs_support import clean_run
from tests.kernel import binding_scenarios
from tests.kernel.inner_tests import InnerTest, check, pytest_command, results

FUNCTIONS = [name for name in vars(binding_scenarios) if name.startswith("test_")]

pytestmark = [pytest.mark.kernel, pytest.mark.lab]

INNER = "tests/kernel/binding_scenarios.py"


@pytest.fixture(scope="module")
def lab(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InnerTest, ...]]:
    shared = tmp_path_factory.mktemp("lab")
    command = pytest_command("-p", "no:hypothesispytest", "-W", "default:CPU 0 is shared", INNER)
    with clean_run() as journal:
        yield results(run_in_lab(journal, kernel, command, shared, LabNics(kernel_drivers=True), deadline_s=400))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nics_are_bound_and_given_back(lab: tuple[InnerTest, ...], function: str) -> None:
    check(lab, binding_scenarios.__name__, function)
