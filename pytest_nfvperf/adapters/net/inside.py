"""Look at the world from inside a named network namespace, without a process of its own.

setns(2) moves the calling thread alone: the work is done by a thread that ends with it, so no other
thread of ours ever finds itself in the namespace.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.model.errors import TestbedError

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000  # linux/sched.h
PROC_NET = Path("/proc/thread-self/net")
"""Inside: the namespace's own /proc/net, which would otherwise be that of the main thread."""


def inside(namespace: str, look: Callable[[], T]) -> T:
    """What ``look`` returns when called inside the namespace.

    Raises:
        TestbedError: there is no namespace of this name, or we may not enter it.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(_enter_and_look, namespace, look).result()


def namespace_id(namespace: str) -> int | None:
    """A number that tells the namespace from one of the same name made later; None when there is none."""
    try:
        return (NETNS_DIRECTORY / namespace).stat().st_ino
    except FileNotFoundError:
        return None


def _enter_and_look(namespace: str, look: Callable[[], T]) -> T:
    path = NETNS_DIRECTORY / namespace
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise TestbedError(f"there is no network namespace {namespace!r} ({path})") from error
    try:
        if libc.setns(handle, _CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise TestbedError(f"cannot enter network namespace {namespace!r}: {reason}; this needs root")
    finally:
        os.close(handle)
    return look()
