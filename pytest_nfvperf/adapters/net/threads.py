"""Work inside a network namespace, by a thread that ends after it.

unshare(2) and setns(2) move only the calling *thread*. A forked child would do, too, but outlives a killed parent by
some milliseconds, and made namespaces after the reaper had been there (2 of 50 kills).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, deferred_signals
from pytest_nfvperf.model.errors import TestbedError

T = TypeVar("T")

PROC_NET = Path("/proc/thread-self/net")
"""A namespace's own /proc/net for a thread inside it; /proc/net itself would be that of the main thread."""

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_MS_BIND = 0x1000  # linux/mount.h


def in_own_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a new thread, which may enter and make namespaces, and return its result or raise its error."""
    # Signals wait: a thread cannot be interrupted, and would go on making things if nobody waited for it.
    with deferred_signals(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="netns") as thread:
        return thread.submit(work).result()


def inside(namespace: Path, work: Callable[[], T]) -> T:
    """Run ``work`` in a thread inside the namespace of this file; OSError if that cannot be entered."""

    def entered() -> T:
        enter(namespace)
        return work()

    return in_own_thread(entered)


def inside_netns(namespace: str, work: Callable[[], T]) -> T:
    """Run ``work`` in a thread inside the namespace of this name, and return its result or raise its error.

    TestbedError if the namespace cannot be entered.
    """
    path = NETNS_DIRECTORY / namespace

    def entered() -> T:
        try:
            enter(path)
        except FileNotFoundError as error:
            raise TestbedError(f"there is no network namespace {namespace!r} ({path})") from error
        except OSError as error:
            raise TestbedError(
                f"cannot enter network namespace {namespace!r}: {error.strerror}; this needs root"
            ) from error
        return work()

    return in_own_thread(entered)


def enter(namespace: Path) -> None:
    """Move the calling thread into a namespace. Only for threads that end after their work: see ``in_own_thread``."""
    with namespace.open("rb", buffering=0) as file:
        checked(libc().setns(file.fileno(), _CLONE_NEWNET), namespace)


def enter_new() -> None:
    """Move the calling thread into a new namespace without a name."""
    checked(libc().unshare(_CLONE_NEWNET), "unshare")


def name_own_namespace(path: Path) -> None:
    """Keep the calling thread's namespace alive as long as this file is mounted."""
    source, kind = b"/proc/thread-self/ns/net", b"none"
    checked(libc().mount(source, os.fsencode(path), kind, ctypes.c_ulong(_MS_BIND), None), path)


@contextmanager
def open_namespaces() -> Iterator[Callable[[Path], int]]:
    """Returns handles of namespaces by their files, and closes them at the end; OSError if there is no such file."""
    with ExitStack() as stack:

        @cache
        def handle(namespace: Path) -> int:
            return stack.enter_context(namespace.open("rb", buffering=0)).fileno()

        yield handle


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str | Path) -> int:
    """The result of a call of libc; OSError about ``what`` if it failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(what))
    return result


def namespace_id(namespace: str) -> int | None:
    """The inode of a namespace, which differs for a later one of the same name; None if there is none."""
    try:
        return (NETNS_DIRECTORY / namespace).stat().st_ino
    except FileNotFoundError:
        return None
