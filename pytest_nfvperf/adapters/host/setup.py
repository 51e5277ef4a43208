"""Make this machine ready: packages and hugepages. ``python3 -m pytest_nfvperf.adapters.host.setup``.

Says what it is about to change, changes it, and the second time finds nothing to do. Standard
library only, for a system Python before any pip install.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pytest_nfvperf.adapters.host.hugepages import Change, plan, reserve
from pytest_nfvperf.adapters.host.packages import SETUP_USES, SetupError, install, plan_packages, read_distribution
from pytest_nfvperf.adapters.process.programs import Use

DEFAULT_HUGEPAGES_MIB = 4096
_MOST_OF_MEMORY = 0.5


def setup_plan(
    hugepages_mib: int | None = None, *, packages: bool = True, also: Sequence[Use] = ()
) -> tuple[Change, ...]:
    """What ``apply`` would change; empty when the machine is ready.

    Args:
        hugepages_mib: MiB to reserve; by default 4 GiB, or half the memory of a small machine.
        packages: look at packages, too.
        also: uses beside those of `make setup` whose packages are looked at.

    Raises:
        SetupError: the distribution is not known.
    """
    changes = [plan_packages(_names(also))] if packages else []
    changes.append(plan(_wanted_mib(hugepages_mib)))
    return tuple(change for change in changes if change is not None)


def apply(hugepages_mib: int | None = None, *, packages: bool = True, also: Sequence[Use] = ()) -> tuple[str, ...]:
    """Make the changes; returns what was done, empty when nothing was.

    Raises:
        SetupError: not root, or a change failed; says what to do.
    """
    if not setup_plan(hugepages_mib, packages=packages, also=also):
        return ()
    if os.geteuid() != 0:
        raise SetupError("installing packages and reserving hugepages needs root: run it with sudo")
    done = list(install(_names(also))) if packages else []
    try:
        change = reserve(_wanted_mib(hugepages_mib))
    except OSError as error:
        # Not fatal: without hugepages the datapath runs without DPDK, and says so.
        done.append(f"hugepages: {error}")
        return tuple(done)
    return (*done, change.what) if change is not None else tuple(done)


def _names(also: Sequence[Use]) -> list[str]:
    return list(read_distribution().packages(*SETUP_USES, *also))


def _wanted_mib(hugepages_mib: int | None) -> int:
    if hugepages_mib is not None:
        return hugepages_mib
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1 << 20)
    return min(DEFAULT_HUGEPAGES_MIB, int(pages * _MOST_OF_MEMORY))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options = _parse(argv)
    packages = not options.no_packages
    try:
        changes = setup_plan(options.hugepages, packages=packages, also=options.also)
        if not changes:
            print("nothing to change: packages and hugepages are as needed")
            return 0
        print(_announcement(changes, packages=packages))
        if options.plan:
            return 0
        for line in apply(options.hugepages, packages=packages, also=options.also):
            print(f"done: {line}")
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


def _announcement(changes: Sequence[Change], *, packages: bool) -> str:
    lines = ["about to change on this machine:"]
    lines += [f"  - {change.what}\n      by hand: {' '.join(change.command)}" for change in changes]
    if packages and not read_distribution().tried:
        lines.append(f"  ({read_distribution().name}: package names are known, but nobody tried the set-up there)")
    return "\n".join(lines)


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
