"""2 MiB hugepages: what there is, and reserving more. Standard library only (the set-up uses it)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_POOLS = Path("/sys/kernel/mm/hugepages")
_PAGE_KIB = 2048
_MIB_PER_PAGE = _PAGE_KIB // 1024


@dataclass(frozen=True, slots=True)
class Hugepages:
    """The kernel's pool of 2 MiB pages, in pages. ``supported`` is False where the kernel has none."""

    total: int = 0
    free: int = 0
    supported: bool = True

    @property
    def total_mib(self) -> int:
        """MiB reserved."""
        return self.total * _MIB_PER_PAGE

    @property
    def free_mib(self) -> int:
        """MiB reserved and unused."""
        return self.free * _MIB_PER_PAGE


@dataclass(frozen=True, slots=True)
class Change:
    """One change made, or to be made, on the machine: what, and how to do it by hand."""

    what: str
    command: tuple[str, ...]


def read_hugepages(pools: Path = _POOLS) -> Hugepages:
    """The pool now."""
    pool = pools / f"hugepages-{_PAGE_KIB}kB"
    try:
        # Surplus and reserved-by-mmap pages are not free to us.
        free = int((pool / "free_hugepages").read_text()) - int((pool / "resv_hugepages").read_text())
        return Hugepages(total=int((pool / "nr_hugepages").read_text()), free=max(0, free))
    except OSError:
        return Hugepages(supported=False)


def plan(mib: int, pools: Path = _POOLS) -> Change | None:
    """What reserving would change; None when that much is reserved already."""
    now = read_hugepages(pools)
    if now.total_mib >= mib:
        return None
    pages = -(-mib // _MIB_PER_PAGE)
    return Change(
        f"reserve {pages} hugepages of 2 MiB (vm.nr_hugepages: {now.total} -> {pages})",
        ("sysctl", "-w", f"vm.nr_hugepages={pages}"),
    )


def reserve(mib: int, pools: Path = _POOLS) -> Change | None:
    """Reserve at least ``mib`` MiB until the next boot; None when there was nothing to do.

    Raises:
        OSError: not root, or the kernel found less contiguous memory than asked; says how much.
    """
    change = plan(mib, pools)
    if change is None:
        return None
    pages = -(-mib // _MIB_PER_PAGE)
    pool = pools / f"hugepages-{_PAGE_KIB}kB" / "nr_hugepages"
    if not pool.exists():
        raise OSError("this kernel has no 2 MiB hugepages")
    pool.write_text(str(pages))
    got = read_hugepages(pools)
    if got.total < pages:
        raise OSError(f"asked for {pages} hugepages of 2 MiB, the kernel could give {got.total}; free memory or reboot")
    return change
