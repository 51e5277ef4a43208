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
from pytest_nfvperf.adapters.host.packages import KERNEL_TESTS, SetupError, install, plan_packages, read_distribution

DEFAULT_HUGEPAGES_MIB = 2048
_MOST_OF_MEMORY = 0.5


def setup_plan(
    hugepages_mib: int | None = None, *, packages: bool = True, kernel_tests: bool = False
) -> tuple[Change, ...]:
    """What ``apply`` would change; empty when the machine is ready.

    Args:
        hugepages_mib: MiB to reserve; by default 2 GiB, or half the memory of a small machine.
        packages: look at packages, too.
        kernel_tests: also at those that only the tests of the kernel datapath need.

    Raises:
        SetupError: the distribution is not known.
    """
    changes = [plan_packages(_names(kernel_tests=kernel_tests))] if packages else []
    changes.append(plan(_wanted_mib(hugepages_mib)))
    return tuple(change for change in changes if change is not None)


def apply(hugepages_mib: int | None = None, *, packages: bool = True, kernel_tests: bool = False) -> tuple[str, ...]:
    """Make the changes; returns what was done, empty when nothing was.

    Raises:
        SetupError: not root, or a change failed; says what to do.
    """
    if not setup_plan(hugepages_mib, packages=packages, kernel_tests=kernel_tests):
        return ()
    if os.geteuid() != 0:
        raise SetupError("installing packages and reserving hugepages needs root: run it with sudo")
    done = list(install(_names(kernel_tests=kernel_tests))) if packages else []
    try:
        change = reserve(_wanted_mib(hugepages_mib))
    except OSError as error:
        # Not fatal: without hugepages the datapath runs without DPDK, and says so.
        done.append(f"hugepages: {error}")
        return tuple(done)
    return (*done, change.what) if change is not None else tuple(done)


def _names(*, kernel_tests: bool) -> list[str]:
    return [*read_distribution().packages, *(KERNEL_TESTS if kernel_tests else ())]


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
        changes = setup_plan(options.hugepages, packages=packages, kernel_tests=options.kernel_tests)
        if not changes:
            print("nothing to change: packages and hugepages are as needed")
            return 0
        print(_announcement(changes, packages=packages))
        if options.plan:
            return 0
        for line in apply(options.hugepages, packages=packages, kernel_tests=options.kernel_tests):
            print(f"done: {line}")
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


def _announcement(changes: Sequence[Change], *, packages: bool) -> str:
    lines = ["about to change on this machine:"]
    lines += [f"  - {change.what}\n      by hand: {' '.join(change.command)}" for change in changes]
    if packages and not read_distribution().tried:
        lines.append(f"  ({read_distribution().name}: package names are known, the set-up is untried there)")
    return "\n".join(lines)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m pytest_nfvperf.adapters.host.setup")
    parser.add_argument("--plan", action="store_true", help="only say what would be changed")
    parser.add_argument("--no-packages", action="store_true", help="leave packages alone")
    parser.add_argument("--kernel-tests", action="store_true", help="also what `make test-kernel` needs: QEMU")
    parser.add_argument("--hugepages", type=int, metavar="MIB", help="MiB of 2 MiB hugepages to reserve")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
