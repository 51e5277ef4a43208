"""VDUSE in a guest with Debian 13's kernel and OVS: Debian 12's kernel has none of it, and its DPDK neither."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.vnf.guest_kernel import QEMU, Kernel, need
from pytest_nfvperf.features.versions.origins import add_version
from pytest_nfvperf.features.versions.registry import Registry
from pytest_nfvperf.features.virtual_time.guest_run import SHARED, GuestMachine, run_in_guest
from pytest_nfvperf.model.errors import ConfigError
from tests.functional import test_vduse as functional
from tests.functional.ovs_support import clean_run
from tests.kernel.inner_tests import InnerTest, check, pytest_command, results
from tests.kernel.other_kernels import kernel_of

pytestmark = [pytest.mark.kernel, pytest.mark.daily("downloads and boots Debian 13's kernel and OVS")]

RELEASE = "trixie"
MODULES = ("vduse", "virtio_vdpa", "virtio_net", "veth", "tun", "openvswitch")
LIGHT = ("-p", "no:hypothesispytest", "-p", "no:allure_pytest")  # what is not needed takes seconds to import there
RESULTS = "results"
SUITE = "suites/pods/test_streams.py::test_vduse[interface_veth_vduse-on-1460]"
TESTBED = """
schema: 1
name: kernel-guest
dut:
  ovs: {instance: private, datapath: system}
generator: {engine: embedded}
cpus: {housekeeping: [0], generator: [0], pmd: [1]}
"""
FUNCTIONS = [name for name in vars(functional) if name.startswith("test_")]


@pytest.fixture(scope="module")
def newer_kernel() -> Kernel:
    """Debian 13's kernel; a skip only where this machine cannot have a guest at all."""
    try:
        need(QEMU, "cpio", "modprobe")
        return kernel_of(RELEASE)
    except ConfigError as error:
        pytest.skip(str(error))


@dataclass(frozen=True, slots=True)
class Inner:
    """What ran in the guest. ``measured``: the directory of the suite's run."""

    cases: tuple[InnerTest, ...]
    measured: Path


@pytest.fixture(scope="module")
def inner(newer_kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inner]:
    """Every case, as it ended in the guest: one boot."""
    ovs, _ = add_version(f"debian:{RELEASE}", Registry())
    machine = GuestMachine(memory_mib=3072, modules=MODULES, hugepages_mib=1024, autoload=False)
    shared = tmp_path_factory.mktemp("guest")
    (shared / "kernel.yaml").write_text(TESTBED)
    options = {
        "ovs": str(ovs.place),
        "testbed": SHARED / "kernel.yaml",
        "results": SHARED / RESULTS,
        "report": "none",
        "profile": "gate",
    }
    arguments = [
        str(functional.__file__),
        SUITE,
        *LIGHT,
        *("-p", "tests.kernel.brief_gate", "-W", "default:CPU 0 is shared"),
        *(f"--nfv-{name}={value}" for name, value in options.items()),
    ]
    command = ["env", f"{functional.OVS_VARIABLE}={ovs.place}", *pytest_command(*arguments)]
    with clean_run() as journal:
        cases = results(run_in_guest(journal, newer_kernel, command, shared, machine=machine, deadline_s=300))
        yield Inner(cases, next(path for path in (shared / RESULTS).iterdir() if path.is_dir()))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_in_the_guest(inner: Inner, function: str) -> None:
    check(inner.cases, functional.__name__, function, never_skipped="test_")


def test_the_suite_compares_vduse_with_the_kernels_datapath(inner: Inner) -> None:
    """It needs no generator: none is built for the emulated CPU."""
    check(inner.cases, "suites.pods.test_streams", "test_vduse", never_skipped="test_")
    measured = {outcome.label["interface"]: outcome for outcome in read_run(inner.measured).outcomes.values()}
    assert measured.keys() == {"veth", "vduse"}
    assert [measured[kind].label["datapath"] for kind in ("veth", "vduse")] == ["system", "dpdk"]
    assert all(outcome.samples for outcome in measured.values())
