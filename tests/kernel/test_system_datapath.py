"""The tests of the kernel's datapaths, run in a guest: one boot, and each test's result shown as if it ran here."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from pytest_nfvperf.adapters.vnf.guest_kernel import Kernel
from pytest_nfvperf.features.virtual_time.guest_run import run_in_guest
from tests.functional import test_datapath_contract as contract
from tests.functional import test_kernel_datapath as functional
from tests.functional import test_nodes as nodes
from tests.functional.ovs_support import clean_run
from tests.kernel.inner_tests import ROOT, InnerTest, check, pytest_command, results

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.daily("minutes of emulation; test_suites.py has this datapath in make test-kernel"),
]

SUITES = (functional, contract)
FUNCTIONS = [
    pytest.param(suite, name, id=f"{suite.__name__.rpartition('.')[2]}-{name}")
    for suite in SUITES
    for name in vars(suite)
    if name.startswith("test_")
]
NODES = "test_tcp_passes_from_node_to_node"
"""Of two nodes the guest runs this. The others take a minute each there: the generator polls an emulated CPU."""


@pytest.fixture(scope="module")
def inner(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InnerTest, ...]]:
    """Every case of the suites, as it ended in the guest."""
    files = [_file(suite) for suite in SUITES]
    chosen = f"(system and (not test_nodes or {NODES})) or (test_kernel_datapath and linux-bridge)"
    command = pytest_command(*files, _file(nodes), "-k", chosen)
    with clean_run() as journal:
        yield results(run_in_guest(journal, kernel, command, tmp_path_factory.mktemp("guest"), deadline_s=360))


def _file(suite: ModuleType) -> str:
    return str(suite.__file__).removeprefix(f"{ROOT}/")


def test_nodes_in_the_guest(inner: tuple[InnerTest, ...]) -> None:
    check(inner, nodes.__name__, NODES, never_skipped="system")


@pytest.mark.parametrize(("suite", "function"), FUNCTIONS)
def test_in_the_guest(inner: tuple[InnerTest, ...], suite: ModuleType, function: str) -> None:
    check(inner, suite.__name__, function, never_skipped="system")
