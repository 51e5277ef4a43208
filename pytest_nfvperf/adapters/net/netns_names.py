"""Takes a namespace's name away from /run/netns, though another mount hides it there.

The first ``ip netns add`` on a machine mounts /run/netns over itself (ip-netns(8)). A namespace that had a name before
is then mounted below, where no path leads: its file cannot be removed (EBUSY), and cannot be unmounted either
(EINVAL). So the mounts above are taken off for a moment, with what is mounted on them, and put back.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from pyroute2 import netns

from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.model.errors import TestbedError

_MOUNTS = Path("/proc/self/mountinfo")
_MNT_DETACH = 2  # sys/mount.h
_MS_REC, _MS_PRIVATE, _MS_SHARED = 0x4000, 1 << 18, 1 << 20  # linux/mount.h
_OPEN_TREE, _MOVE_MOUNT = 428, 429  # the same on every architecture (open_tree(2), move_mount(2), Linux 5.2)
_OPEN_TREE_CLONE, _AT_RECURSIVE, _AT_FDCWD, _FROM_EMPTY_PATH = 1, 0x8000, -100, 4


@dataclass(frozen=True, slots=True)
class _Mount:
    """A line of /proc/self/mountinfo (proc_pid_mountinfo(5)). ``root``: of a namespace ``net:[its inode]``.

    ``shared``: what is mounted on it is seen in other mount namespaces (mount_namespaces(7)).
    """

    number: int
    parent: int
    root: str
    at: str
    shared: bool


def remove_name(name: str) -> bool:
    """Remove a namespace's name, and the namespace unless somebody else holds it; False when it was gone.

    TestbedError when something else than /run/netns itself hides it.
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
                _unmount(path)
            path.unlink()
    return True


def is_named(name: str, inode: int) -> bool:
    """True while this very namespace has the name, hidden or not."""
    return any(mount.root == f"net:[{inode}]" for mount in _mounts_at(NETNS_DIRECTORY / name))


@contextmanager
def _uncovered(path: Path) -> Iterator[None]:
    """Within this context the lowest mount of a name is what its path leads to.

    The mounts above its folder are taken off, and a copy of the upper one, with all that is mounted on it, is put back.
    """
    folder = path.parent
    hidden_by = [mount.number for mount in _mounts_at(folder)]
    below = {mount.parent for mount in _mounts_at(path)}
    covers = list(takewhile(lambda number: number not in below, _from_the_top(folder)))
    if not covers or not below:
        mounted = f"mounts at {folder}: {hidden_by or 'none'}, parents of those at {path}: {sorted(below) or 'none'}"
        raise TestbedError(f"{path} is busy, and no mount at {folder} hides it ({mounted}); see {_MOUNTS}")
    shared = next(mount.shared for mount in _mounts_at(folder) if mount.number == covers[0])
    _propagate(folder, _MS_PRIVATE | _MS_REC)  # else what is mounted on it would go from the copy, too
    copy = _checked(_call(_OPEN_TREE, _AT_FDCWD, os.fsencode(folder), _OPEN_TREE_CLONE | _AT_RECURSIVE), folder)
    try:
        for _ in covers:
            _unmount(folder)
        try:
            yield
        finally:
            target = os.fsencode(folder)
            _checked(_call(_MOVE_MOUNT, copy, b"", _AT_FDCWD, target, _FROM_EMPTY_PATH), folder)
            if shared:
                _propagate(folder, _MS_SHARED | _MS_REC)
    finally:
        os.close(copy)


def _from_the_top(folder: Path) -> Iterator[int]:
    """The mounts at a folder, each the parent of the one before."""
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


def _unmount(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.umount2(os.fsencode(path), _MNT_DETACH), path)


def _propagate(path: Path, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.mount(None, os.fsencode(path), None, ctypes.c_ulong(flags), None), path)


def _call(number: int, *arguments: int | bytes) -> int:
    """A system call for which older libraries have no function."""
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    return result


def _checked(result: int, path: Path) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    return result
