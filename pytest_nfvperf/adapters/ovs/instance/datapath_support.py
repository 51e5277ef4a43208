"""Which of OVS's datapaths this machine can run, and what it lacks for the others."""

from __future__ import annotations

import os

from pytest_nfvperf.adapters.host.hugepages import ENOUGH_MIB, LEAST_MIB, RIG_MIB, read_hugepages
from pytest_nfvperf.adapters.net.families import has_family
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import OvsBinaries, locate
from pytest_nfvperf.model.errors import NfvperfError
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT, Tuning
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed, ovs_of

MEMORY_MIB, MIN_MEMORY_MIB = RIG_MIB[0], LEAST_MIB[0]
DATAPATHS = ("dpdk", "netdev", "system")
USERSPACE = ("dpdk", "netdev")
KERNEL_FAMILY = "ovs_datapath"
"""By which vswitchd speaks to the kernel module (lib/dpif-netlink.c)."""


def lacks(testbed: Testbed, dut: Dut) -> str | None:
    """What this machine lacks for a datapath, and what to do about it; None when it has all."""
    kind = dut.kind or testbed.ovs.datapath
    if kind not in DATAPATHS:
        return f"{kind!r} is no datapath of Open vSwitch: write one of {', '.join(DATAPATHS)}"
    try:
        binaries = locate(ovs_of(testbed.ovs, dut).prefix, dpdk=kind == "dpdk" or dut.userspace_tso)
    except NfvperfError as error:
        return str(error)
    missing = _lacks_userspace_tso(kind, binaries) if dut.userspace_tso else None
    missing = missing or _lacks_tuning(kind, binaries, dut.tuning)
    if missing is not None:
        return missing
    if kind == "system":
        return lacks_kernel_module()
    # The testbed's own falls back to the one without DPDK, and says so. One that is asked for by name does
    # not, nor does a version: figures of two datapaths would be taken for those of two versions.
    if kind == "dpdk" and (dut.kind is not None or dut.version is not None):
        memory, reason = dpdk_memory(binaries)
        return None if memory else reason
    return None


def _lacks_userspace_tso(kind: str, binaries: OvsBinaries) -> str | None:
    if kind not in USERSPACE:
        return f"userspace TSO is a setting of the userspace datapath, not of {kind!r}: leave it out"
    if binaries.dpdk_version is None:
        return (
            f"{binaries.vswitchd} was built without DPDK, and so without userspace TSO; install openvswitch-switch-dpdk"
        )
    return None


def _lacks_tuning(kind: str, binaries: OvsBinaries, tuning: Tuning) -> str | None:
    if tuning == OVS_DEFAULT:
        return None
    if kind not in USERSPACE:
        return f"tuning ({tuning}) is of the userspace datapath, not of {kind!r}: leave it out"
    return tuning.unknown_to(binaries.major_minor)


def lacks_kernel_module() -> str | None:
    """What to do where the kernel has no Open vSwitch datapath; None where it has one, or could load it."""
    try:
        found = has_family(KERNEL_FAMILY)
    except OSError as error:
        return f"the kernel cannot be asked for its Open vSwitch datapath: {error}"
    if found:
        return None
    return (
        f"kernel {os.uname().release} has no openvswitch module (Debian: linux-image-amd64, then modprobe "
        "openvswitch); without one, `make test-kernel` tests this datapath in a guest"
    )


def dpdk_memory(binaries: OvsBinaries) -> tuple[int, str]:
    """MiB of hugepages for OVS, whole pages of theirs; 0 when DPDK is impossible, and why."""
    if binaries.dpdk_version is None:
        return 0, f"{binaries.vswitchd} was built without DPDK; install openvswitch-switch-dpdk"
    pages = read_hugepages()
    if not pages.taken_by(MIN_MEMORY_MIB):
        return 0, (
            f"{pages.free_mib} MiB of free hugepages{pages.in_pages}, OVS needs {MIN_MEMORY_MIB} and the generator as "
            f"much: {pages.advice(*ENOUGH_MIB)}"
        )
    generously = pages.rooms(MEMORY_MIB, MIN_MEMORY_MIB)
    return pages.taken_by(MEMORY_MIB if generously else MIN_MEMORY_MIB), ""
