"""Network namespaces of a run: their names, how they are made, and how they are removed."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from pyroute2 import netns

from pytest_nfvperf.adapters.net import netlink as rtnetlink
from pytest_nfvperf.adapters.net.netlink import KernelRefusedError
from pytest_nfvperf.adapters.net.threads import checked, enter_new, in_own_thread, libc, name_own_namespace
from pytest_nfvperf.adapters.process.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, run
from pytest_nfvperf.model.errors import TestbedError

_MOUNTS = Path("/proc/self/mountinfo")
_MNT_DETACH = 2  # sys/mount.h
_MS_REC, _MS_PRIVATE, _MS_SHARED = 0x4000, 1 << 18, 1 << 20  # linux/mount.h
_OPEN_TREE, _MOVE_MOUNT = 428, 429  # the same on every architecture (open_tree(2), move_mount(2), Linux 5.2)
_OPEN_TREE_CLONE, _AT_RECURSIVE, _AT_FDCWD, _FROM_EMPTY_PATH = 1, 0x8000, -100, 4

_SYSCTL = Path("/proc/sys/net")

_IPV4 = {"rp_filter": "0", "arp_ignore": "0", "arp_announce": "0", "arp_filter": "0", "proxy_arp": "0"}
"""The kernel's own defaults (Documentation/networking/ip-sysctl.rst)."""


@dataclass(frozen=True, slots=True)
class _Mount:
    """A line of /proc/self/mountinfo (proc_pid_mountinfo(5)).

    Attributes:
        root: ``net:[its inode]`` for a namespace.
        shared: other mount namespaces see what is mounted on it (mount_namespaces(7)).
    """

    number: int
    parent: int
    root: str
    at: str
    shared: bool


def remove_name(name: str) -> bool:
    """Remove a namespace's name, and the namespace unless somebody else holds it; False if it was gone.

    The first ``ip netns add`` on a machine mounts /run/netns over itself (ip-netns(8)). A namespace that had a name
    before is then mounted below, where no path leads: its file can neither be removed (EBUSY) nor unmounted (EINVAL).
    So the mounts above, with all that is mounted on them, are removed for a moment and put back.

    TestbedError if something other than /run/netns itself hides it.
    """
    path = NETNS_DIRECTORY / name
    if not path.exists() and not _mounts_at(path):
        return False
    try:
        netns.remove(name)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        with _uncovered(path):
            while _mounts_at(path):
                checked(libc().umount2(os.fsencode(path), _MNT_DETACH), path)
            path.unlink()
    return True


@contextmanager
def _uncovered(path: Path) -> Iterator[None]:
    """Let the path of a name lead to its lowest mount.

    This removes the mounts above its folder, and puts back a copy of the upper one with all that is mounted on it.
    """
    folder = path.parent
    hidden_by = [mount.number for mount in _mounts_at(folder)]
    below = {mount.parent for mount in _mounts_at(path)}
    covers = list(takewhile(lambda number: number not in below, _from_top(folder)))
    if not covers or not below:
        mounted = f"mounts at {folder}: {hidden_by or 'none'}, parents of those at {path}: {sorted(below) or 'none'}"
        raise TestbedError(f"{path} is busy, and no mount at {folder} hides it ({mounted}); see {_MOUNTS}")
    shared = next(mount.shared for mount in _mounts_at(folder) if mount.number == covers[0])
    target = os.fsencode(folder)
    _propagate(folder, _MS_PRIVATE | _MS_REC)  # otherwise the copy would lose what is mounted on it, too
    # libc has no functions for these two system calls on older systems.
    cloned = libc().syscall(ctypes.c_long(_OPEN_TREE), _AT_FDCWD, target, _OPEN_TREE_CLONE | _AT_RECURSIVE)
    copy = checked(cloned, folder)
    try:
        for _ in covers:
            checked(libc().umount2(target, _MNT_DETACH), folder)
        try:
            yield
        finally:
            number = ctypes.c_long(_MOVE_MOUNT)
            checked(libc().syscall(number, copy, b"", _AT_FDCWD, target, _FROM_EMPTY_PATH), folder)
            if shared:
                _propagate(folder, _MS_SHARED | _MS_REC)
    finally:
        os.close(copy)


def _from_top(folder: Path) -> Iterator[int]:
    """The mounts at a folder, from the top one down."""
    mounts = {mount.number: mount for mount in _mounts_at(folder)}
    parents = {mount.parent for mount in mounts.values()}
    number = next((number for number in mounts if number not in parents), None)
    while number in mounts:
        yield number
        number = mounts[number].parent


def _mounts_at(path: Path) -> list[_Mount]:
    lines = (line.split() for line in _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines())
    return [
        _Mount(int(line[0]), int(line[1]), line[3], line[4], any(word.startswith("shared:") for word in line[6:]))
        for line in lines
        if line[4] == str(path)
    ]


def _propagate(path: Path, flags: int) -> None:
    checked(libc().mount(None, os.fsencode(path), None, ctypes.c_ulong(flags), None), path)


@dataclass(frozen=True, slots=True)
class NamespacePlan:
    """A future namespace, named ``nfv-<tag>-<role>``.

    ``routing``: it forwards between its interfaces. ``ipv6``: it has IPv6 addresses; otherwise IPv6 is off.
    """

    role: str
    routing: bool = False
    ipv6: bool = False


class Home:
    """A datapath's namespace. By itself somebody else's: the run changes only what it has made there.

    ``journaled``: links in it must be journaled, because the run does not remove the namespace.
    """

    journaled = True

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path

    def close(self) -> None:
        """Remove it if the run owns it."""


class LiveNamespace(Home):
    """A namespace of the run under /run/netns (ip-netns(8)), with loopback up. ``close()`` removes it and its links."""

    journaled = False
    _journal: Journal
    _entry: Entry
    _inode: int | None

    def __init__(self, journal: Journal, role: str) -> None:
        """Make one, with IPv6 off; TestbedError if not root, or the kernel refused."""
        _make_all(journal, [self], [NamespacePlan(role)])

    @classmethod
    def several(cls, journal: Journal, plans: Sequence[NamespacePlan]) -> list[LiveNamespace]:
        namespaces = [cls.__new__(cls) for _ in plans]
        _make_all(journal, namespaces, plans)
        return namespaces

    def run(self, argv: list[str], *, deadline_s: float = 10.0) -> str:
        """Run a short command inside and return its standard output; TestbedError if it fails."""
        return run(["nsenter", f"--net={self.path}", *argv], deadline_s=deadline_s)

    def is_there(self) -> bool:
        """False after somebody removed it, or put another one in its place."""
        if self._inode is None:
            return False
        try:
            if self.path.stat().st_ino == self._inode:
                return True
            # Another mount of /run/netns may hide it; see ``remove_name``.
            return any(mount.root == f"net:[{self._inode}]" for mount in _mounts_at(self.path))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        LiveNamespace.close_all(self._journal, [self])

    @staticmethod
    def close_all(journal: Journal, namespaces: Sequence[LiveNamespace]) -> None:
        """Remove many. The kernel removes their contents a little later."""
        for namespace in namespaces:
            if namespace.is_there():
                remove_name(namespace.name)
        journal.forget_all([namespace._entry for namespace in namespaces])


def _make_all(journal: Journal, namespaces: Sequence[LiveNamespace], plans: Sequence[NamespacePlan]) -> None:
    entries = journal.note_all(Kind.NETNS, [journal.name(plan.role) for plan in plans])
    for namespace, entry in zip(namespaces, entries, strict=True):
        Home.__init__(namespace, entry.name, NETNS_DIRECTORY / entry.name)
        namespace._journal, namespace._entry, namespace._inode = journal, entry, None

    def make_each() -> None:
        # One thread for all, which also sets what must precede interfaces: a process for each would cost 5 ms.
        for namespace, plan in zip(namespaces, plans, strict=True):
            namespace.path.touch(mode=0o444, exist_ok=False)
            namespace._inode = namespace.path.stat().st_ino  # from here on it is ours to remove
            enter_new()
            name_own_namespace(namespace.path)
            namespace._inode = namespace.path.stat().st_ino
            _prepare(plan)

    try:
        NETNS_DIRECTORY.mkdir(mode=0o755, exist_ok=True)
        in_own_thread(make_each)
    except BaseException as error:
        for namespace in namespaces:
            namespace.close()
        if isinstance(error, (OSError, KernelRefusedError)):
            raise TestbedError(_why_not(namespaces, error)) from error
        raise


def _why_not(namespaces: Sequence[LiveNamespace], error: OSError | KernelRefusedError) -> str:
    if isinstance(error, FileExistsError):
        return f"cannot make network namespace {error.filename}: there is one of this name, which is left alone"
    failed = next((namespace.name for namespace in namespaces if not namespace.is_there()), namespaces[-1].name)
    code = error.code if isinstance(error, KernelRefusedError) else error.errno
    advice = "; this needs root" if code in {errno.EPERM, errno.EACCES} else ""
    if code == errno.EROFS:
        advice = "; a container needs /proc/sys to be writable (docker run --privileged)"
    limit = "; the kernel's limit is /proc/sys/user/max_net_namespaces" if code == errno.ENOSPC else ""
    return f"cannot make network namespace {failed}: {error}{advice}{limit}"


def _prepare(plan: NamespacePlan) -> None:
    """Set up the calling thread's namespace before it has an interface other than loopback.

    /proc/sys/net means the namespace of the thread that opens a file there.
    """
    has_ipv6 = (_SYSCTL / "ipv6").is_dir()
    if plan.ipv6 and not has_ipv6:
        raise OSError(
            errno.EAFNOSUPPORT, "it is to have IPv6 addresses, and this kernel has no IPv6 (ipv6.disable=1 at boot?)"
        )
    # A new namespace begins with the host's settings (net.core.devconf_inherit_init_net, 0 by default). Docker's
    # ip_forward=1 would turn all ends into routers, and systemd's rp_filter would drop frames from another direction.
    settings = {"ipv4/ip_forward": "1" if plan.routing else "0"}
    for which in ("all", "default"):
        settings |= {f"ipv4/conf/{which}/{name}": value for name, value in _IPV4.items()}
        if has_ipv6:
            # Off unless needed: the kernel's router solicitations and MLD reports would be foreign frames in a trial.
            settings[f"ipv6/conf/{which}/disable_ipv6"] = "0" if plan.ipv6 else "1"
        if plan.ipv6:
            settings |= {f"ipv6/conf/{which}/accept_dad": "0", f"ipv6/conf/{which}/accept_ra": "0"}
    if plan.ipv6 and plan.routing:
        settings["ipv6/conf/all/forwarding"] = "1"
    for name, value in settings.items():
        (_SYSCTL / name).write_text(value, encoding="utf-8")
    rtnetlink.send(rtnetlink.set_up(index=1, name="lo"))
