"""Make this machine ready: packages and hugepages. ``python3 -m pytest_nfvperf.adapters.host.setup``.

It says what it is about to change, and changes it; the second time it finds nothing to do. Standard library only, for a
system Python before any pip install.

Debian starts and enables services as it installs them. Ours must not start: a system OVS would take hugepages and CPUs.
So ``policy-rc.d`` forbids starting while apt runs (the former file is put back afterwards), and units that the
installation newly enabled are disabled again; those that were enabled before are left alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_nfvperf.adapters.host.hugepages import HostChange, plan, reserve
from pytest_nfvperf.adapters.process.process import completed
from pytest_nfvperf.adapters.process.programs import (
    DEBIAN_12,
    DEBIAN_13,
    OS_RELEASE,
    UBUNTU_24_04,
    Use,
    not_installed,
    packages,
    system,
)

SETUP_USES = (Use.RUN, Use.TESTS)
"""What `make setup` installs for."""


DISTRIBUTIONS = {
    DEBIAN_12: ("Debian 12", True),
    DEBIAN_13: ("Debian 13", True),
    UBUNTU_24_04: ("Ubuntu 24.04 (with universe)", False),
}
"""By its id in programs.py: each one's name, and whether we ran the set-up and the tests there (.ci/fresh)."""

_INSTALL = ("apt-get", "install", "-y", "--no-install-recommends")
_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_MARK = "# nfvperf's, while it installs"
_POLICY_TEXT = f"#!/bin/sh\n{_POLICY_MARK}: no service is started\nexit 101\n"
_SYSTEMD_UNITS = Path("/etc/systemd/system")
_RC_DIRECTORIES = Path("/etc")
DEFAULT_HUGEPAGES_MIB = 4096
_MOST_OF_MEMORY = 0.5


class SetupError(Exception):
    """The set-up cannot continue; says why, and what to do by hand."""


def read_distribution(os_release: Path = OS_RELEASE) -> tuple[str, bool]:
    """As in DISTRIBUTIONS, of this machine; SetupError, with what to install, if its package names are not known."""
    here = system(os_release)
    if here in DISTRIBUTIONS:
        return DISTRIBUTIONS[here]
    names = ", ".join(name for name, _ in DISTRIBUTIONS.values())
    raise SetupError(
        f"package names for {here or 'this system'} are not known (known: {names}); install what "
        f"corresponds to {', '.join(packages(SETUP_USES, DEBIAN_12))}, then run again with --no-packages"
    )


def missing(names: Sequence[str]) -> tuple[str, ...]:
    query = ["/usr/bin/dpkg-query", "-W", "-f", "${Package}\t${db:Status-Abbrev}\n"]
    listed = completed([*query, *names], 60.0)  # it fails if one is unknown, and still lists the others
    rows = (line.split("\t") for line in listed.stdout.splitlines())
    installed = {row[0] for row in rows if len(row) > 1 and row[1].startswith("ii")}
    return tuple(name for name in names if name not in installed)


def plan_packages(names: Sequence[str]) -> HostChange | None:
    absent = missing(names)
    if not absent:
        return None
    what = f"install {', '.join(absent)} (services neither started nor enabled)"
    return HostChange(what, (*_INSTALL, *absent))


def install(names: Sequence[str]) -> tuple[str, ...]:
    """Install what is missing; returns what was done, empty if nothing was. SetupError if apt failed."""
    absent = missing(names)
    if not absent:
        return ()
    before = enabled_services()
    with services_held():
        _apt("apt-get", "update")
        _apt(*_INSTALL, *absent)
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
    """Keep packages from starting services; afterwards, also after a kill, restore policy-rc.d."""
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
    if policy.is_file() and _POLICY_MARK in policy.read_text(encoding="utf-8", errors="replace"):
        policy.unlink()
    if saved.exists() or saved.is_symlink():
        saved.rename(policy)


def enabled_services(units: Path = _SYSTEMD_UNITS, etc: Path = _RC_DIRECTORIES) -> frozenset[str]:
    """Units ("openvswitch-switch.service") and init scripts ("openvswitch-switch") that start at boot."""
    wanted = {link.name for link in _unit_links(units)}
    scripts = {link.name[3:] for link in etc.glob("rc[2-5].d/S[0-9][0-9]*")}
    return frozenset(wanted | scripts)


def _unit_links(units: Path) -> list[Path]:
    return [link for pattern in ("*.wants/*", "*.requires/*") for link in units.glob(pattern)]


def unlink_units(names: Sequence[str], units: Path = _SYSTEMD_UNITS) -> None:
    """Do what ``systemctl disable`` does, without systemd: installed later, it would start them."""
    for link in _unit_links(units):
        if link.name in names:
            link.unlink()


def _disable(services: frozenset[str]) -> tuple[str, ...]:
    units = sorted(service for service in services if "." in service)
    scripts = sorted(service for service in services if "." not in service)
    if units and shutil.which("systemctl") is None:
        unlink_units(units)
    elif units:
        # Works without a running systemd, too: it only removes links.
        _quietly("systemctl", "disable", "--quiet", *units)
    for script in scripts:
        if script in enabled_services():
            _quietly("update-rc.d", script, "disable")
    return (*units, *scripts)


def _quietly(*command: str) -> None:
    if shutil.which(command[0]) is None:
        raise SetupError(f"cannot disable {' '.join(command[1:])}: {not_installed(command[0])}")
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        raise SetupError(f"{' '.join(command)} failed with status {done.returncode}: {done.stderr.strip()}")


def setup_plan(
    hugepages_mib: int | None = None, *, packages: bool = True, also: Sequence[Use] = ()
) -> tuple[HostChange, ...]:
    """What ``apply`` would change; empty if the machine is ready.

    Args:
        hugepages_mib: MiB to reserve; by default 4 GiB, or half the memory of a small machine.
        packages: install packages, too.
        also: further uses whose packages are needed, besides those of `make setup`.

    Raises:
        SetupError: the distribution is not known.
    """
    changes = [plan_packages(_names(also))] if packages else []
    changes.append(plan(_wanted_mib(hugepages_mib)))
    return tuple(change for change in changes if change is not None)


def apply(hugepages_mib: int | None = None, *, packages: bool = True, also: Sequence[Use] = ()) -> tuple[str, ...]:
    """Make the changes; returns what was done, empty if nothing was. SetupError if not root, or a change failed."""
    if not setup_plan(hugepages_mib, packages=packages, also=also):
        return ()
    if os.geteuid() != 0:
        raise SetupError("installing packages and reserving hugepages needs root: run it with sudo")
    done = list(install(_names(also))) if packages else []
    try:
        change = reserve(_wanted_mib(hugepages_mib))
        done += [change.what] if change is not None else []
    except OSError as error:
        # Not fatal: without hugepages the datapath runs without DPDK, and says so.
        done.append(f"hugepages: {error}")
    return tuple(done)


def _names(also: Sequence[Use]) -> list[str]:
    read_distribution()
    return list(packages((*SETUP_USES, *also), system()))


def _wanted_mib(hugepages_mib: int | None) -> int:
    if hugepages_mib is not None:
        return hugepages_mib
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1 << 20)
    return min(DEFAULT_HUGEPAGES_MIB, int(pages * _MOST_OF_MEMORY))


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse(argv)
    packages = not options.no_packages
    try:
        changes = setup_plan(options.hugepages, packages=packages, also=options.also)
        if not changes:
            print("nothing to change: packages and hugepages are as needed")
            return 0
        print("about to change on this machine:")
        for change in changes:
            print(f"  - {change.what}\n      by hand: {' '.join(change.command)}")
        name, tried = read_distribution() if packages else ("", True)
        if not tried:
            print(f"  ({name}: package names are known, but nobody tried the set-up there)")
        if options.plan:
            return 0
        for line in apply(options.hugepages, packages=packages, also=options.also):
            print(f"done: {line}")
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m pytest_nfvperf.adapters.host.setup")
    parser.add_argument("--plan", action="store_true", help="only say what would be changed")
    parser.add_argument("--no-packages", action="store_true", help="leave packages alone")
    parser.set_defaults(also=[])
    for option, use, what in (
        ("--kernel-tests", Use.KERNEL, "what `make test-kernel` needs: QEMU"),
        ("--fresh-roots", Use.FRESH, "what .ci/fresh needs: mmdebstrap"),
    ):
        parser.add_argument(option, action="append_const", dest="also", const=use, help=f"also {what}")
    parser.add_argument("--hugepages", type=int, metavar="MIB", help="MiB of hugepages to reserve")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
