"""Hugepages of every size: count them, find room for a process, reserve more. Standard library only, for the set-up.

DPDK takes whole pages: on a host with pages of 1 GiB, a process that needs 256 MiB takes one of them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

_POOLS = Path("/sys/kernel/mm/hugepages")
_POOL = re.compile(r"hugepages-(\d+)kB", re.ASCII)
LEAST_MIB = (256, 256)
"""What OVS-DPDK and the generator need at least, each by itself."""
RIG_MIB = (512, 256, 128, 128)
"""What OVS, the generator and two VNFs take if there is enough."""
ENOUGH_MIB = (1024, 1024)
"""What we advise if there is too little for DPDK: room to spare, and a page for each on a host of 1 GiB pages."""
_NO_POOLS = "this kernel has no hugepages (CONFIG_HUGETLBFS)"


@dataclass(frozen=True, slots=True)
class Pool:
    """The kernel's pages of one size. ``total`` and ``free`` are in pages."""

    page_mib: int
    total: int = 0
    free: int = 0

    @property
    def size(self) -> str:
        return _size(self.page_mib)

    @property
    def directory(self) -> str:
        return f"hugepages-{self.page_mib * 1024}kB"

    @property
    def file(self) -> Path:
        return _POOLS / self.directory / "nr_hugepages"

    def pages(self, mib: int) -> int:
        return -(-mib // self.page_mib)

    def reserving(self, pages: int) -> str:
        """The command by which root reserves this many pages in all."""
        return f"echo {pages} > {self.file} ({_size(pages * self.page_mib)} in pages of {self.size})"


@dataclass(frozen=True, slots=True)
class Hugepages:
    """The kernel's pools, smallest pages first; none if it has no hugepages."""

    pools: tuple[Pool, ...] = ()

    @property
    def total_mib(self) -> int:
        return sum(pool.total * pool.page_mib for pool in self.pools)

    @property
    def free_mib(self) -> int:
        return sum(pool.free * pool.page_mib for pool in self.pools)

    def __str__(self) -> str:
        """``4096 of 8192 MiB free in pages of 1 GiB``."""
        return f"{self.free_mib} of {self.total_mib} MiB free{self.in_pages}"

    @property
    def in_pages(self) -> str:
        """``" in pages of 1 GiB"``: the sizes that exist; "" if there is none."""
        sizes = [pool.size for pool in self.pools if pool.total]
        return f" in pages of {' and '.join(sizes)}" if sizes else ""

    def idle(self) -> Hugepages:
        """All pages, as if nobody used any."""
        return Hugepages(tuple(replace(pool, free=pool.total) for pool in self.pools))

    def taken_by(self, mib: int) -> int:
        """MiB, in whole pages, that a process takes if it needs this much; 0: no room."""
        pool = self._pool_for(mib)
        return 0 if pool is None else pool.pages(mib) * pool.page_mib

    def lacks(self, program: str, mib: int) -> str | None:
        """Why a program of DPDK that needs this much has no room, and what to do; None if it has."""
        if self.taken_by(mib):
            return None
        return (
            f"{self.free_mib} MiB of free hugepages{self.in_pages}, {program} needs {mib} and the generator as much: "
            f"{self.advice(*ENOUGH_MIB)}"
        )

    def pages_for(self, mib: int) -> int:
        """Pages that such a process takes; 0: no room."""
        pool = self._pool_for(mib)
        return 0 if pool is None else pool.pages(mib)

    def rooms(self, *mib: int) -> int:
        """How many groups of processes have room, if the processes of a group need this much each."""
        rooms, left = 0, self
        while True:
            for needed in mib:
                pool = left._pool_for(needed)
                if pool is None:
                    return rooms
                used = replace(pool, free=pool.free - pool.pages(needed))
                left = Hugepages(tuple(used if one is pool else one for one in left.pools))
            rooms += 1

    def _pool_for(self, mib: int) -> Pool | None:
        # DPDK prefers small pages for sizes that are no whole number of large ones, as all of ours are.
        return next((pool for pool in self.pools if pool.free >= pool.pages(mib)), None)

    @property
    def growing(self) -> Pool | None:
        """The pool to enlarge: the smallest that has pages already."""
        return next((pool for pool in self.pools if pool.total), self.pools[0] if self.pools else None)

    def advice(self, *mib: int) -> str:
        """How to reserve enough for processes that need this much each, besides what is in use."""
        pool = self.growing
        if pool is None:
            return _NO_POOLS
        return pool.reserving(pool.total - pool.free + sum(pool.pages(each) for each in mib))


@dataclass(frozen=True, slots=True)
class HostChange:
    """One change of the machine, made or planned, and how to do it by hand."""

    what: str
    command: tuple[str, ...]


def read_hugepages(pools: Path = _POOLS) -> Hugepages:
    try:
        names = [entry.name for entry in pools.iterdir()]
    except OSError:
        return Hugepages()
    found: list[Pool] = []
    for kib in sorted(int(match[1]) for match in map(_POOL.fullmatch, names) if match):
        if kib < 1024:  # arm64 has pages of 64 KiB, too, which DPDK does not use
            continue
        directory = pools / Pool(kib // 1024).directory
        with suppress(OSError, ValueError):
            total, free, promised = (
                int((directory / f"{name}_hugepages").read_text(encoding="ascii")) for name in ("nr", "free", "resv")
            )
            # Pages that an mmap has reserved are not free to us.
            found.append(Pool(kib // 1024, total, max(0, free - promised)))
    return Hugepages(tuple(found))


def plan(mib: int, pools: Path = _POOLS) -> HostChange | None:
    """What reserving would change; None if that much is reserved already, in pages of any size."""
    now = read_hugepages(pools)
    pool = now.growing
    if pool is None:
        return HostChange(
            f"reserve {mib} MiB of hugepages: {_NO_POOLS}", ("boot", "a", "kernel", "that", "has", "them")
        )
    if now.total_mib >= mib:
        return None
    pages = _wanted_pages(now, pool, mib)
    file = pool.file
    return HostChange(
        f"reserve {pages} hugepages of {pool.size} ({file}: {pool.total} -> {pages})",
        ("echo", str(pages), ">", str(file)),
    )


def _wanted_pages(now: Hugepages, pool: Pool, mib: int) -> int:
    return pool.total + pool.pages(mib - now.total_mib)


def reserve(mib: int, pools: Path = _POOLS) -> HostChange | None:
    """Reserve at least ``mib`` MiB until the next boot; None if there was nothing to do.

    OSError if not root, or if the kernel found too little contiguous memory; says how much.
    """
    before = read_hugepages(pools)
    pool = before.growing
    if pool is None:
        raise OSError(_NO_POOLS)
    change = plan(mib, pools)
    if change is None:
        return None
    pages = _wanted_pages(before, pool, mib)
    (pools / pool.directory / "nr_hugepages").write_text(str(pages))
    got = next((now.total for now in read_hugepages(pools).pools if now.page_mib == pool.page_mib), 0)
    if got < pages:
        raise OSError(f"asked for {pages} hugepages of {pool.size}, the kernel could give {got}; free memory or reboot")
    return change


def _size(mib: int) -> str:
    return f"{mib // 1024} GiB" if mib and mib % 1024 == 0 else f"{mib} MiB"
