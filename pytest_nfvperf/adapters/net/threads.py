"""Work inside a network namespace, by a thread that ends after it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, held
from pytest_nfvperf.model.errors import TestbedError

# Work in another network namespace, by a thread that ends after it.
#
# unshare(2) and setns(2) move the calling *thread* alone. A forked child would do as well, but outlives a
# killed parent by some milliseconds, and made namespaces after the reaper had been there (2 of 50 kills).

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_MS_BIND = 0x1000  # linux/mount.h


def in_own_thread(work: Callable[[], T]) -> T:
    """Run it in a new thread, which may enter and make namespaces, and return its result or raise its error."""
    # Held: a thread cannot be interrupted, and one that nobody waits for would go on making things.
    with held(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="netns") as thread:
        return thread.submit(work).result()


def inside(namespace: Path, work: Callable[[], T]) -> T:
    """Run it in a thread that is in this namespace, by its file; OSError when it cannot be entered."""

    def entered() -> T:
        enter(namespace)
        return work()

    return in_own_thread(entered)


def enter(namespace: Path) -> None:
    """Move the calling thread into a namespace. Only for threads that end after their work: see ``in_own_thread``."""
    handle = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc().setns(handle, _CLONE_NEWNET) != 0:
            raise _error(str(namespace))
    finally:
        os.close(handle)


def enter_new() -> None:
    """Move the calling thread into a namespace that is made for it and has no name."""
    if _libc().unshare(_CLONE_NEWNET) != 0:
        raise _error("unshare")


def name_own(path: Path) -> None:
    """Let the namespace that the calling thread is in live as long as this file is mounted."""
    if _libc().mount(b"/proc/thread-self/ns/net", os.fsencode(path), b"none", ctypes.c_ulong(_MS_BIND), None) != 0:
        raise _error(str(path))


class Handles:
    """Open files of namespaces, one each."""

    def __init__(self) -> None:
        self._open: dict[Path, int] = {}

    def of(self, namespace: Path) -> int:
        """The handle of a namespace; OSError when there is no such file."""
        if namespace not in self._open:
            self._open[namespace] = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        return self._open[namespace]

    def close(self) -> None:
        for handle in self._open.values():
            os.close(handle)
        self._open.clear()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _error(what: str) -> OSError:
    return OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


# Look at the world from inside a network namespace that is known by its name.


PROC_NET = Path("/proc/thread-self/net")
"""Inside: the namespace's own /proc/net, which would otherwise be that of the main thread."""


def inside_named(namespace: str, look: Callable[[], T]) -> T:
    """What ``look`` returns when called inside the namespace; TestbedError when it cannot be entered."""

    def entered() -> T:
        path = NETNS_DIRECTORY / namespace
        try:
            enter(path)
        except FileNotFoundError as error:
            raise TestbedError(f"there is no network namespace {namespace!r} ({path})") from error
        except OSError as error:
            raise TestbedError(
                f"cannot enter network namespace {namespace!r}: {error.strerror}; this needs root"
            ) from error
        return look()

    return in_own_thread(entered)


def namespace_id(namespace: str) -> int | None:
    """A number that tells the namespace from one of the same name made later; None when there is none."""
    try:
        return (NETNS_DIRECTORY / namespace).stat().st_ino
    except FileNotFoundError:
        return None
