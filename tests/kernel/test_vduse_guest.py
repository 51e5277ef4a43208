"""VDUSE in a guest with Debian 13's kernel and OVS: Debian 12's kernel has none of it, and its DPDK neither."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.guest.kernel_image import Kernel, kernel_of
from pytest_nfvperf.adapters.guest.tools import QEMU, need
from pytest_nfvperf.adapters.versions.adding import Asked, add
from pytest_nfvperf.adapters.versions.registry import Registry
from pytest_nfvperf.adapters.virtual_time.guest_run import run_in_guest
from pytest_nfvperf.adapters.virtual_time.machine import Machine
from pytest_nfvperf.model.errors import ConfigError
from tests.functional import test_vduse as functional
from tests.functional.ovs_support import clean_run
from tests.kernel.inner_tests import InnerTest, check, pytest_command, results

pytestmark = pytest.mark.kernel

RELEASE = "trixie"
MODULES = ("vduse", "virtio_vdpa", "virtio_net", "veth", "tun")
LIGHT = ("-p", "no:hypothesispytest", "-p", "no:allure_pytest")  # what is not needed takes seconds to import there
FUNCTIONS = [name for name in vars(functional) if name.startswith("test_")]


@pytest.fixture(scope="module")
def newer_kernel() -> Kernel:
    """Debian 13's kernel; a skip only where this machine cannot have a guest at all."""
    try:
        need(QEMU, "cpio", "modprobe")
        return kernel_of(RELEASE)
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def inner(newer_kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InnerTest, ...]]:
    """Every case, as it ended in the guest: one boot."""
    ovs = add(Asked(f"debian:{RELEASE}"), Registry()).version
    machine = Machine(memory_mib=3072, modules=MODULES, hugepages_mib=1024, autoload=False)
    command = ["env", f"{functional.OVS_VARIABLE}={ovs.place}", *pytest_command(str(functional.__file__), *LIGHT)]
    with clean_run() as journal:
        shared = tmp_path_factory.mktemp("guest")
        yield results(run_in_guest(journal, newer_kernel, command, shared, machine=machine, deadline_s=240))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_in_the_guest(inner: tuple[InnerTest, ...], function: str) -> None:
    check(inner, functional.__name__, function, never_skipped="test_")
