"""Finding an Open vSwitch: the distribution's package, a prefix it was built into, or a root of another release."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.process import private_mounts
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.compare.sides import Side
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import OvsSpec

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
