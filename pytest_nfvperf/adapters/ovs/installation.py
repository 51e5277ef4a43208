"""An installation of OVS: its programs and versions, and which datapaths it can run here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.host.hugepages import ENOUGH_MIB, LEAST_MIB, RIG_MIB, read_hugepages
from pytest_nfvperf.adapters.net.netlink import has_family
from pytest_nfvperf.adapters.process import private_mounts
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.measure.compare import Side
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT, Tuning
from pytest_nfvperf.model.testbed.testbed import Dut, OvsSpec, Testbed, ovs_of

# Finding an Open vSwitch: the distribution's package, a prefix it was built into, or a root of another release.

_VERSION = re.compile(r"\(Open vSwitch\) (\S+)")
_DPDK_VERSION = re.compile(r"^DPDK (\S+)", re.MULTILINE)
_LIBRARY = re.compile(r"error while loading shared libraries: ([^:]+):")
_LOADERS = ("lib*/ld-linux*", "lib/*/ld-linux*", "usr/lib*/ld-linux*", "usr/lib/*/ld-linux*")


@dataclass(frozen=True, slots=True)
class OvsBinaries:
    """One installation of OVS. Paths are this machine's.

    Attributes:
        prefix: of the installation, or its root; None for the distribution's package.
        dpdk_version: None when vswitchd was built without DPDK.
        root: the root directory that the programs run in; None for those that run as they are.
    """

    prefix: str | None
    vswitchd: Path
    ovsdb_server: Path
    ovsdb_tool: Path
    ofctl: Path
    schema: Path
    version: str
    dpdk_version: str | None
    root: Path | None = None

    @property
    def major_minor(self) -> tuple[int, int]:
        """Such as (3, 1), for what differs between versions."""
        numbers = re.findall(r"\d+", self.version)
        return int(numbers[0]), int(numbers[1])

    def command(self, program: Path, *visible: Path) -> tuple[str, ...]:
        """The words that start one of its programs. ``visible``: directories that it must see in a root."""
        return _command(self.root, program, visible)


def locate(prefix: str | None = None, *, dpdk: bool = True) -> OvsBinaries:
    """Find the binaries and the schema, and ask vswitchd for its versions.

    Args:
        prefix: of an installation (``/opt/ovs-3.3.4``: sbin/, bin/, share/openvswitch/), or a root with a whole
            system's files (usr/, and its own dynamic loader); None for the distribution's package.
        dpdk: prefer a vswitchd built with DPDK, where a distribution has both.

    Raises:
        ConfigError: no OVS under the prefix: what was looked for, and where; or it lacks a library.
        TestbedError: no OVS installed: the package to install.
    """
    given = None if prefix is None else Path(prefix)
    root = given if given is not None and is_root(given) else None
    finder = _Finder(prefix, _places(given, root), root)
    vswitchd = finder.find("ovs-vswitchd", _vswitchd_names(dpdk=dpdk, packaged=given is None or root is not None))
    version, dpdk_version = _versions(vswitchd, root)
    return OvsBinaries(
        prefix=prefix,
        vswitchd=vswitchd,
        ovsdb_server=finder.find("ovsdb-server", ["sbin/ovsdb-server", "bin/ovsdb-server"]),
        ovsdb_tool=finder.find("ovsdb-tool", ["bin/ovsdb-tool", "sbin/ovsdb-tool"]),
        ofctl=finder.find("ovs-ofctl", ["bin/ovs-ofctl", "sbin/ovs-ofctl"]),
        schema=finder.find("vswitch.ovsschema", ["share/openvswitch/vswitch.ovsschema"]),
        version=version,
        dpdk_version=dpdk_version,
        root=root,
    )


def is_root(path: Path) -> bool:
    """True for a directory with a whole system's files, which bring their own dynamic loader."""
    if not (path / "usr").is_dir() or path.resolve() == Path("/"):
        return False
    # The loader may be a link that leads somewhere else from out here.
    return any(os.path.lexists(found) for pattern in _LOADERS for found in path.glob(pattern))


def _places(given: Path | None, root: Path | None) -> list[Path]:
    if given is not None and root is None:
        return [given]
    above = root or Path("/")
    return [above / "usr", above / "usr/local"]


def _vswitchd_names(*, dpdk: bool, packaged: bool) -> list[str]:
    names = ["sbin/ovs-vswitchd", "bin/ovs-vswitchd"]
    if not packaged:
        return names
    with_dpdk = ["lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"]
    without = ["lib/openvswitch-switch/ovs-vswitchd", "lib/openvswitch-common/ovs-vswitchd"]
    return [*with_dpdk, *without, *names] if dpdk else [*without, *with_dpdk, *names]


def _command(root: Path | None, program: Path, visible: Sequence[Path]) -> tuple[str, ...]:
    if root is None:
        return (str(program),)
    return private_mounts.in_root(root, [Path("/") / program.relative_to(root)], tuple(dict.fromkeys(visible)))


@dataclass(frozen=True, slots=True)
class _Finder:
    prefix: str | None
    places: Sequence[Path]
    root: Path | None

    def find(self, what: str, names: Sequence[str]) -> Path:
        candidates = [place / name for name in names for place in self.places]
        for candidate in candidates:
            if candidate.is_file():
                return candidate
        looked = ", ".join(str(candidate) for candidate in candidates)
        if self.prefix is not None:
            remedy = (
                "unpack openvswitch-switch-dpdk with all that it depends on there, or run `nfvperf ovs add`"
                if self.root is not None
                else "give the --prefix that OVS was configured with, or a root with a whole system's files"
            )
            raise ConfigError(
                f"{self.prefix!r} holds no Open vSwitch: no {what}, looked for {looked}; {remedy}",
                key="dut.ovs.prefix",
            )
        raise TestbedError(
            f"Open vSwitch is not installed: no {what}, looked for {looked}; "
            f"{install_hint('ovs-vswitchd')}, or name a prefix by dut.ovs.prefix or --nfv-ovs"
        )


def _versions(vswitchd: Path, root: Path | None) -> tuple[str, str | None]:
    try:
        text = run([*_command(root, vswitchd, ()), "--version"])
    except TestbedError as error:
        said = error.evidence.get("stderr", "").strip()
        library = _LIBRARY.search(said)
        if library is None:
            raise TestbedError(
                f"{vswitchd} does not start: {said or error.message}", evidence=error.evidence
            ) from error
        raise ConfigError(
            f"{vswitchd} does not start: the library {library[1]} is missing"
            + (f" in {root}; unpack its package there" if root is not None else "; install its package"),
            key="dut.ovs.prefix",
        ) from error
    version = _VERSION.search(text)
    if version is None:
        raise TestbedError(f"{vswitchd} --version does not say an Open vSwitch version", evidence={"stdout": text})
    dpdk = _DPDK_VERSION.search(text)
    return version.group(1), dpdk.group(1) if dpdk else None


NAMED_VERSIONS = Point[Callable[[OvsSpec, Sequence[str], Sequence[Side] | None], OvsSpec]]("versions")
"""What looks versions up by what users call them.

From a testbed's OVS, the versions of ``--nfv-ovs``, and the sides of a run that compares: the OVS with their places.
"""


# Which of OVS's datapaths this machine can run, and what it lacks for the others.

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
