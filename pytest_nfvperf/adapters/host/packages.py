"""Which packages are needed on which distribution, and installing them quietly.

Standard library only: the set-up runs before anything is installed by pip.

Debian starts and enables services as it installs them. Ours must not: a system OVS would take
hugepages and CPUs. So ``policy-rc.d`` forbids starting while apt runs (and what stood there before is
put back), and units that the installation newly enabled are disabled again; those that were
enabled before are left alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.host.hugepages import Change

_NEEDED = {
    "openvswitch-switch-dpdk": "Open vSwitch with DPDK, the device under test",
    "dpdk": "DPDK's tools, and the libraries' configuration",
    "dpdk-dev": "dpdk-testpmd: VNFs on large machines, tests and the bench",
    "libdpdk-dev": "to build the embedded generator",
    "libjansson-dev": "to build the embedded generator",
    "librte-meta-bus": "DPDK's bus drivers; without vdev no virtual port is found",
    "librte-meta-mempool": "DPDK's mempool drivers; without ring no packet passes",
    "librte-meta-net": "DPDK's port drivers: virtio-user, af_packet, NICs",
    "iperf3": "TCP and UDP streams between namespaces; its service stays disabled, as Debian ships it",
    "frr": "BGP on the DUT's side (FRR); its service stays disabled",
    "bird2": "the BGP neighbour (BIRD 2); its service stays disabled",
    "ovn-central": "OVN's databases and northd, for a private OVN; its service stays disabled",
    "ovn-host": "OVN's controller, for a private OVN; its service stays disabled",
    "gcc": "to build the embedded generator",
    "libc6-dev": "to build the embedded generator",
    "pkgconf": "to build the embedded generator",
    "meson": "to build the embedded generator",
    "ninja-build": "to build the embedded generator",
}

KERNEL_TESTS = {
    "qemu-system-x86": "the guest that `make test-kernel` boots, and VNFs of kind qemu",
    "kmod": "to find the modules that the guest's kernel needs",
    "cpio": "to pack the guest's first file system",
    "zstd": "to unpack kernels and modules that are packed by it (Debian 13, Ubuntu)",
}
"""Beside those of a run, for guests: the project's own tests of the kernel datapath, and VNFs of kind qemu."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution that the names are known for. ``tried``: the set-up was run there by us."""

    name: str
    id: str
    version: str
    tried: bool
    packages: Mapping[str, str]


DISTRIBUTIONS = (
    Distribution("Debian 12", "debian", "12", True, _NEEDED),
    Distribution("Debian 13", "debian", "13", False, _NEEDED),
    Distribution("Ubuntu 24.04 (with universe)", "ubuntu", "24.04", False, _NEEDED),
)

_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_MARK = "# nfvperf's, while it installs"
_POLICY_TEXT = f"#!/bin/sh\n{_POLICY_MARK}: no service is started\nexit 101\n"
_SYSTEMD_UNITS = Path("/etc/systemd/system")
_RC_DIRECTORIES = Path("/etc")


class SetupError(Exception):
    """The set-up cannot go on; says why and what to do by hand."""


def read_distribution(os_release: Path = Path("/etc/os-release")) -> Distribution:
    """The distribution that runs here.

    Raises:
        SetupError: its package names are not known; lists what has to be installed.
    """
    fields = dict(line.split("=", 1) for line in os_release.read_text(encoding="utf-8").splitlines() if "=" in line)
    found = (fields.get("ID", "").strip('"'), fields.get("VERSION_ID", "").strip('"'))
    for distribution in DISTRIBUTIONS:
        if (distribution.id, distribution.version) == found:
            return distribution
    known = ", ".join(distribution.name for distribution in DISTRIBUTIONS)
    raise SetupError(
        f"package names for {' '.join(found).strip() or 'this system'} are not known (known: {known}); install what "
        f"corresponds to {', '.join(_NEEDED)}, then run again with --no-packages"
    )


def missing(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the packages that dpkg does not have installed."""
    listed = subprocess.run(
        ["/usr/bin/dpkg-query", "-W", "-f", "${Package}\t${db:Status-Abbrev}\n", *names],
        capture_output=True,
        text=True,
        check=False,  # it fails when one is unknown, and lists the others all the same
    )
    rows = (line.split("\t") for line in listed.stdout.splitlines())
    installed = {row[0] for row in rows if len(row) > 1 and row[1].startswith("ii")}
    return tuple(name for name in names if name not in installed)


def plan_packages(names: Sequence[str]) -> Change | None:
    """What installing would change; None when all are there."""
    absent = missing(names)
    if not absent:
        return None
    return Change(f"install {', '.join(absent)} (services neither started nor enabled)", _install_command(absent))


def _install_command(names: Sequence[str]) -> tuple[str, ...]:
    return ("apt-get", "install", "-y", "--no-install-recommends", *names)


def install(names: Sequence[str]) -> tuple[str, ...]:
    """Install what is missing; returns what was done, empty when nothing was.

    Raises:
        SetupError: apt failed, with its own words above.
    """
    absent = missing(names)
    if not absent:
        return ()
    before = enabled_services()
    with services_held():
        _apt("apt-get", "update")
        _apt(*_install_command(absent))
    disabled = _disable(enabled_services() - before)
    done = [f"installed {', '.join(absent)}"]
    return (*done, f"left disabled: {', '.join(disabled)}") if disabled else tuple(done)


def _apt(*command: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode != 0:
        raise SetupError(f"{' '.join(command)} failed with status {done.returncode}; see its output above")


@contextmanager
def services_held(policy: Path = _POLICY) -> Iterator[None]:
    """Forbid that packages start services; what stood in policy-rc.d before is put back, also after a kill."""
    saved = policy.with_name(f"{policy.name}.nfvperf-saved")
    _restore(policy, saved)
    if policy.exists() or policy.is_symlink():
        policy.rename(saved)
    try:
        policy.write_text(_POLICY_TEXT, encoding="ascii")
        policy.chmod(0o755)
        yield
    finally:
        _restore(policy, saved)


def _restore(policy: Path, saved: Path) -> None:
    """Undo ``services_held``, whether it ended or was killed."""
    if policy.is_file() and _POLICY_MARK in policy.read_text(encoding="utf-8", errors="replace"):
        policy.unlink()
    if saved.exists() or saved.is_symlink():
        saved.rename(policy)


def enabled_services(units: Path = _SYSTEMD_UNITS, etc: Path = _RC_DIRECTORIES) -> frozenset[str]:
    """What starts at boot: unit names ("openvswitch-switch.service") and init scripts ("openvswitch-switch")."""
    wanted = {link.name for pattern in ("*.wants/*", "*.requires/*") for link in units.glob(pattern)}
    scripts = {link.name[3:] for link in etc.glob("rc[2-5].d/S[0-9][0-9]*")}
    return frozenset(wanted | scripts)


def _disable(services: frozenset[str]) -> tuple[str, ...]:
    units = sorted(service for service in services if "." in service)
    scripts = sorted(service for service in services if "." not in service)
    if units:
        # Works without a running systemd, too: it only removes links.
        _quietly("systemctl", "disable", "--quiet", *units)
    for script in scripts:
        if script in enabled_services():
            _quietly("update-rc.d", script, "disable")
    return (*units, *scripts)


def _quietly(*command: str) -> None:
    if shutil.which(command[0]) is None:
        raise SetupError(f"cannot disable {' '.join(command[1:])}: no {command[0]}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(f"{' '.join(command)} failed with status {done.returncode}: {done.stderr.strip()}")
