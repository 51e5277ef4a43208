"""An installation of OVS: its programs and versions, and which datapaths it can run here."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.host.hugepages import LEAST_MIB, RIG_MIB, read_hugepages
from pytest_nfvperf.adapters.net.netlink import has_family
from pytest_nfvperf.adapters.process import private_mounts
from pytest_nfvperf.adapters.process.process import completed, describe_exit, run
from pytest_nfvperf.adapters.process.programs import find, install_hint
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.measure.compare import Side
from pytest_nfvperf.model.testbed.ovs_settings import DATAPATHS, INSTALLED, OVS, OVS_DEFAULT
from pytest_nfvperf.model.testbed.testbed import DatapathInfo, Dut, OvsSpec, Testbed, ovs_for_dut
from pytest_nfvperf.ports.datapath import DatapathVersions, RunStep

_VERSIONS = Point[Callable[[OvsSpec, Sequence[str], Sequence[Side] | None], OvsSpec]]("versions")

MEMORY_MIB, MIN_MEMORY_MIB = RIG_MIB[0], LEAST_MIB[0]
_KERNEL_FAMILY = "ovs_datapath"
"""The netlink family by which vswitchd speaks to the kernel module (lib/dpif-netlink.c)."""

OVS_VERSION = re.compile(r"\(Open vSwitch\) (\S+)")
_DPDK_VERSION = re.compile(r"^DPDK (\S+)", re.MULTILINE)
_MISSING_LIBRARY = re.compile(r"error while loading shared libraries: ([^:]+):")
_LIBRARIES = ("libopenvswitch", "libofproto", "libovsdb", "libsflow", "libvtep")
_SONAME = re.compile(r"lib.+\.so\.\d+")
_BUILT_PREFIX = "/nfvperf-ovs"
"""Compiled into the programs, but unused: a private instance gets its directories as arguments."""
_BOOT_DEADLINE_S, _CONFIGURE_DEADLINE_S, _MAKE_DEADLINE_S = 180.0, 300.0, 1800.0
_ASK_DEADLINE_S = 20.0
_LOADERS = ("lib*/ld-linux*", "lib/*/ld-linux*", "usr/lib*/ld-linux*", "usr/lib/*/ld-linux*")


def named_versions(ovs: OvsSpec, options: Sequence[str] = (), sides: Sequence[Side] | None = None) -> OvsSpec:
    """The testbed's OVS with the prefixes of all versions that a user names.

    ``options``: words of ``--nfv-ovs``. ``sides``: of a comparison.
    """
    is_named = options or sides or ovs.prefix or ovs.versions
    return _VERSIONS.part("--nfv-ovs")(ovs, options, sides) if is_named else ovs


@dataclass(frozen=True, slots=True)
class OvsBinaries:
    """An installation of OVS. Paths are this machine's.

    Attributes:
        dpdk_version: None if vswitchd was built without DPDK.
        root: the root directory in which the programs run; None if they run without one.
    """

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
        numbers = re.findall(r"\d+", self.version)
        return int(numbers[0]), int(numbers[1])

    def command(self, program: Path, *visible: Path) -> tuple[str, ...]:
        """Return the command line of one of its programs. ``visible``: directories that it must see in a root."""
        return _command(self.root, program, visible)


def locate(prefix: str | None = None, *, dpdk: bool = True) -> OvsBinaries:
    """Find the binaries and the schema, and ask vswitchd for its versions.

    Args:
        prefix: of an installation (``/opt/ovs-3.3.4``: sbin/, bin/, share/openvswitch/), or a root with a whole
            system's files (usr/, and its own dynamic loader); None for the distribution's package.
        dpdk: prefer a vswitchd built with DPDK, where a distribution has both.

    Raises:
        ConfigError: there is no OVS under the prefix, or it lacks a library.
        TestbedError: no OVS is installed; names the package to install.
    """
    root = root_of(prefix)
    remedy = (
        "unpack openvswitch-switch-dpdk with all that it depends on there, or run `nfvperf ovs add`" if root else ""
    )
    find_named = partial(find_file, "Open vSwitch", "ovs-vswitchd", prefix, remedy=remedy)
    names = ["sbin/ovs-vswitchd", "bin/ovs-vswitchd"]
    if prefix is None or root is not None:
        with_dpdk = ["lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"]
        without = ["lib/openvswitch-switch/ovs-vswitchd", "lib/openvswitch-common/ovs-vswitchd"]
        names = [*with_dpdk, *without, *names] if dpdk else [*without, *with_dpdk, *names]
    vswitchd = find_named(names)
    said, version = ask_version(
        vswitchd, [*_command(root, vswitchd, ()), "--version"], "Open vSwitch", OVS_VERSION, root
    )
    of_dpdk = _DPDK_VERSION.search(said)
    return OvsBinaries(
        vswitchd=vswitchd,
        ovsdb_server=find_named(["sbin/ovsdb-server", "bin/ovsdb-server"]),
        ovsdb_tool=find_named(["bin/ovsdb-tool", "sbin/ovsdb-tool"]),
        ofctl=find_named(["bin/ovs-ofctl", "sbin/ovs-ofctl"]),
        schema=find_named(["share/openvswitch/vswitch.ovsschema"]),
        version=version,
        dpdk_version=of_dpdk[1] if of_dpdk else None,
        root=root,
    )


def facts_of_program(spec: OvsSpec, program: Path) -> dict[str, Any]:
    """Return the fields ``installation``, ``origin`` and ``build`` of a DatapathInfo that any program has."""
    named = next((version for version in spec.versions if version.prefix == spec.prefix), None)
    build = named.build if named is not None else ()
    if spec.prefix is None:
        build += _package(str(program))
    if named is not None and named.checksum:
        build += (("checksum", named.checksum),)
    origin = named.origin if named is not None else ""
    origin = origin or ("prefix" if spec.prefix is not None else INSTALLED)
    return {"installation": str(program), "origin": origin, "build": build}


@cache
def _package(program: str) -> tuple[tuple[str, str], ...]:
    """Return Debian's package of an installed program, and its version; empty if dpkg does not know the file."""
    try:
        owner, _, _ = run(["dpkg-query", "--search", str(Path(program).resolve())]).partition(": ")
        return ((owner, run(["dpkg-query", "--show", "--showformat=${Version}", owner])),)
    except TestbedError:  # no dpkg here, or it was installed by hand
        return ()


def is_root(path: Path) -> bool:
    """True for a directory with a whole system's files, including their own dynamic loader."""
    if not (path / "usr").is_dir() or path.resolve() == Path("/"):
        return False
    # The loader may be a link that leads somewhere else from out here.
    return any(os.path.lexists(found) for pattern in _LOADERS for found in path.glob(pattern))


def files_below(root: Path) -> list[Path]:
    return [Path(directory) / name for directory, _, names in os.walk(root) for name in names]


def _command(root: Path | None, program: Path, visible: Sequence[Path]) -> tuple[str, ...]:
    if root is None:
        return (str(program),)
    return private_mounts.in_root(root, [Path("/") / program.relative_to(root)], tuple(dict.fromkeys(visible)))


def root_of(prefix: str | None) -> Path | None:
    """The root directory that a prefix is; None for a prefix of an installation, and for the distribution's package."""
    return Path(prefix) if prefix is not None and is_root(Path(prefix)) else None


def find_file(of: str, program: str, prefix: str | None, names: Sequence[str], remedy: str = "") -> Path:
    """A file of an installation, by its possible paths below a prefix, or /usr and /usr/local.

    Args:
        of: what is installed.
        program: that a package is named for.
        prefix: as of ``locate``.
        names: the paths; the last has the name that messages give it.
        remedy: what to do about a prefix without it.

    Raises:
        ConfigError: the prefix or root lacks it.
        TestbedError: it is not installed; names the package to install.
    """
    root = root_of(prefix)
    above = root or Path("/")
    packaged = prefix is None or root is not None
    bases = [above / "usr", above / "usr/local"] if packaged else [Path(str(prefix))]
    candidates = [base / name for name in names for base in bases]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    looked = f"no {candidates[-1].name}, looked for {', '.join(map(str, candidates))}"
    if prefix is None:
        raise TestbedError(
            f"{of} is not installed: {looked}; {install_hint(program)}, or name a prefix by dut.ovs.prefix or --nfv-ovs"
        )
    advice = remedy or f"give the --prefix that {of} was configured with, or a root with a whole system's files"
    raise ConfigError(f"{prefix!r} holds no {of}: {looked}; {advice}", key="dut.ovs.prefix")


def ask_version(
    program: Path, argv: Sequence[str], what: str, pattern: re.Pattern[str], root: Path | None
) -> tuple[str, str]:
    """What a program says of itself, and its version of ``what``: the first group of a pattern.

    ``argv``: asks it. ``root``: the root directory in which it runs, if in one.

    Raises:
        ConfigError: it lacks a library.
        TestbedError: it does not start or end, or says no such version.
    """
    try:
        done = completed(argv, _ASK_DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TestbedError(f"{program} does not start: {error}") from error
    said = done.stdout + done.stderr
    if library := _MISSING_LIBRARY.search(said):
        where = f" in {root}; unpack its package there" if root is not None else "; install its package"
        raise ConfigError(f"{program} does not start: the library {library[1]} is missing{where}", key="dut.ovs.prefix")
    if (version := pattern.search(said)) is None:
        why = said.strip() or describe_exit(done.returncode)
        raise TestbedError(f"{program} does not say a version of {what}: {why}", evidence={"stderr": done.stderr})
    return said, version[1]


def lacks(testbed: Testbed, dut: Dut) -> str | None:
    """Return what this machine lacks for a datapath and how to provide it; None if nothing is missing."""
    kind = dut.kind or testbed.ovs.datapath
    if kind not in DATAPATHS:
        return f"{kind!r} is no datapath of Open vSwitch: write one of {', '.join(DATAPATHS)}"
    try:
        binaries = locate(ovs_for_dut(testbed.ovs, dut).prefix, dpdk=kind == "dpdk" or dut.userspace_tso)
    except NfvperfError as error:
        return str(error)
    if missing := _lacks_for_settings(kind, binaries, dut):
        return missing
    if kind == "system":
        return lacks_kernel_module()
    # The testbed's default falls back to the datapath without DPDK and says so. A datapath or a version that the
    # user names does not: figures of two datapaths would be mistaken for those of two versions.
    if kind == "dpdk" and (dut.kind is not None or dut.version is not None):
        memory, reason = dpdk_memory(binaries)
        return None if memory else reason
    return None


def _lacks_for_settings(kind: str, binaries: OvsBinaries, dut: Dut) -> str | None:
    userspace = kind != "system"
    if dut.userspace_tso and not userspace:
        return f"userspace TSO is a setting of the userspace datapath, not of {kind!r}: leave it out"
    if dut.userspace_tso and binaries.dpdk_version is None:
        return (
            f"{binaries.vswitchd} was built without DPDK, and so without userspace TSO; install openvswitch-switch-dpdk"
        )
    if dut.tuning == OVS_DEFAULT:
        return None
    if not userspace:
        return f"tuning ({dut.tuning}) is for the userspace datapath, not for {kind!r}: leave it out"
    return dut.tuning.unknown_to(binaries.major_minor)


def lacks_kernel_module() -> str | None:
    try:
        if has_family(_KERNEL_FAMILY):
            return None
    except OSError as error:
        return f"the kernel cannot be asked for its Open vSwitch datapath: {error}"
    return (
        f"kernel {os.uname().release} has no openvswitch module (Debian: linux-image-amd64, then modprobe "
        "openvswitch); without one, `make test-kernel` tests this datapath in a guest"
    )


def dpdk_memory(binaries: OvsBinaries) -> tuple[int, str]:
    """Return MiB of hugepages for OVS, in whole pages; or 0 and the reason why DPDK cannot run."""
    if binaries.dpdk_version is None:
        return 0, f"{binaries.vswitchd} was built without DPDK; install openvswitch-switch-dpdk"
    pages = read_hugepages()
    if lacking := pages.lacks("OVS", MIN_MEMORY_MIB):
        return 0, lacking
    ample = pages.rooms(MEMORY_MIB, MIN_MEMORY_MIB)
    return pages.taken_by(MEMORY_MIB if ample else MIN_MEMORY_MIB), ""


class OvsVersions(DatapathVersions):
    """Versions of Open vSwitch."""

    kind = OVS
    packages = (
        *("openvswitch-switch-dpdk", "openvswitch-switch", "openvswitch-common"),
        *("librte-meta-bus", "librte-meta-mempool", "librte-meta-net"),
    )
    # DPDK's bus, mempool and port drivers are plugins: without them OVS starts, and no frame passes.
    recorded = ("openvswitch-switch-dpdk", "librte-meta-net")
    sources = ("boot.sh", "vswitchd/ovs-vswitchd.c")
    tools = ("autoreconf", "automake", "libtoolize", "cc", "make", "pkg-config")

    def look_at(self, prefix: str | None) -> DatapathInfo:
        found = locate(prefix)
        return DatapathInfo(OVS, found.version, found.dpdk_version, "", str(found.vswitchd))

    def files(self, prefix: str) -> Sequence[Path]:
        """All of a root; of a prefix, which may be /usr, only those of OVS."""
        of = locate(prefix)
        if of.root is not None:
            return files_below(of.root)
        programs = [of.vswitchd, of.ovsdb_server, of.ovsdb_tool, of.ofctl, of.schema]
        return [*programs, *(path for name in _LIBRARIES for path in Path(prefix).glob(f"lib*/{name}*.so*"))]

    def complete_root(self, root: Path) -> None:
        # Debian 11's libraries of Open vSwitch get the names that programs ask for only when they are installed.
        for library in root.glob("usr/lib/openvswitch-*/lib*.so.*"):
            soname = _SONAME.match(library.name)
            if soname is not None and soname[0] != library.name and not (library.parent / soname[0]).is_symlink():
                (library.parent / soname[0]).symlink_to(library.name)

    def options(self, *, dpdk: bool) -> Sequence[str]:
        with_dpdk = ["--with-dpdk=shared"] if dpdk else []
        compiler = "ccache cc" if find("ccache") else "cc"
        return [f"--prefix={_BUILT_PREFIX}", *with_dpdk, f"CC={compiler}", "CFLAGS=-O2 -g"]

    def configure(self, run: RunStep, tree: Path, directory: Path, options: Sequence[str]) -> None:
        run("boot.sh", ["env", "-C", str(tree), "./boot.sh"], _BOOT_DEADLINE_S)
        argv = ["env", "-C", str(directory), str(tree / "configure"), *options]
        run("configure", argv, _CONFIGURE_DEADLINE_S)

    def make(self, run: RunStep, directory: Path, prefix: Path) -> None:
        make = ["make", "-C", str(directory)]
        run("make", [*make, "--silent", "-j", str(len(os.sched_getaffinity(0)))], _MAKE_DEADLINE_S)
        run("make install", [*make, "install", f"DESTDIR={prefix.parent}"], _MAKE_DEADLINE_S)
        (prefix.parent / _BUILT_PREFIX.lstrip("/")).rename(prefix)
