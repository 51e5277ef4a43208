"""Look at the world from inside a network namespace that is known by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pytest_nfvperf.adapters.net.threads import enter, in_own_thread
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY
from pytest_nfvperf.model.errors import TestbedError

T = TypeVar("T")

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
