"""Finding an Open vSwitch: the distribution's package, or any prefix it was built into."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.model.errors import ConfigError, TestbedError

_VERSION = re.compile(r"\(Open vSwitch\) (\S+)")
_DPDK_VERSION = re.compile(r"^DPDK (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OvsBinaries:
    """One installation of OVS. ``dpdk_version`` is None when vswitchd was built without DPDK."""

    prefix: str | None
    vswitchd: Path
    ovsdb_server: Path
    ovsdb_tool: Path
    ofctl: Path
    schema: Path
    version: str
    dpdk_version: str | None

    @property
    def major_minor(self) -> tuple[int, int]:
        """Such as (3, 1), for what differs between versions."""
        numbers = re.findall(r"\d+", self.version)
        return int(numbers[0]), int(numbers[1])


def locate(prefix: str | None = None, *, dpdk: bool = True) -> OvsBinaries:
    """Find the binaries and the schema, and ask vswitchd for its versions.

    Args:
        prefix: root of an installation (``/opt/ovs-3.3.4``: sbin/, bin/, share/openvswitch/);
            None for the distribution's package.
        dpdk: prefer a vswitchd built with DPDK, where the distribution has both.

    Raises:
        ConfigError: no OVS under the prefix: what was looked for, and where.
        TestbedError: no OVS installed: the package to install.
    """
    roots = [Path(prefix)] if prefix is not None else [Path("/usr"), Path("/usr/local")]
    vswitchd_names = ["sbin/ovs-vswitchd", "bin/ovs-vswitchd"]
    if prefix is None:
        packaged = ["lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", "lib/openvswitch-switch/ovs-vswitchd"]
        vswitchd_names = (packaged if dpdk else packaged[::-1]) + vswitchd_names
    finder = _Finder(prefix, roots)
    vswitchd = finder.find("ovs-vswitchd", vswitchd_names)
    version, dpdk_version = _versions(vswitchd)
    return OvsBinaries(
        prefix=prefix,
        vswitchd=vswitchd,
        ovsdb_server=finder.find("ovsdb-server", ["sbin/ovsdb-server", "bin/ovsdb-server"]),
        ovsdb_tool=finder.find("ovsdb-tool", ["bin/ovsdb-tool", "sbin/ovsdb-tool"]),
        ofctl=finder.find("ovs-ofctl", ["bin/ovs-ofctl", "sbin/ovs-ofctl"]),
        schema=finder.find("vswitch.ovsschema", ["share/openvswitch/vswitch.ovsschema"]),
        version=version,
        dpdk_version=dpdk_version,
    )


@dataclass(frozen=True, slots=True)
class _Finder:
    prefix: str | None
    roots: Sequence[Path]

    def find(self, what: str, names: Sequence[str]) -> Path:
        candidates = [root / name for name in names for root in self.roots]
        for candidate in candidates:
            if candidate.is_file():
                return candidate
        looked = ", ".join(str(candidate) for candidate in candidates)
        if self.prefix is not None:
            raise ConfigError(
                f"{self.prefix!r} holds no Open vSwitch: no {what}, looked for {looked}; "
                "give the --prefix that OVS was configured with",
                key="dut.ovs.prefix",
            )
        raise TestbedError(
            f"Open vSwitch is not installed: no {what}, looked for {looked}; "
            f"{install_hint('ovs-vswitchd')}, or name a prefix by dut.ovs.prefix or --nfv-ovs"
        )


def _versions(vswitchd: Path) -> tuple[str, str | None]:
    text = run([vswitchd, "--version"])
    version = _VERSION.search(text)
    if version is None:
        raise TestbedError(f"{vswitchd} --version does not say an Open vSwitch version", evidence={"stdout": text})
    dpdk = _DPDK_VERSION.search(text)
    return version.group(1), dpdk.group(1) if dpdk else None
