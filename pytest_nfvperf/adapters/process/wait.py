"""Waiting for an observed state with a deadline: never a bare sleep as readiness."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from pytest_nfvperf.model.errors import DeadlineError

T = TypeVar("T")


def wait_until(
    probe: Callable[[], T | None],
    awaited: str,
    deadline_s: float,
    *,
    interval_s: float = 0.01,
    last_seen: Callable[[], str] | None = None,
) -> T:
    """Probe until it gives something true, and return that.

    Args:
        probe: looks at the world; falsy (None, False, empty) means not yet. It may raise to end the wait.
        awaited: what is waited for, as a person says it: "ovsdb-server's socket".
        deadline_s: seconds until it is given up.
        interval_s: seconds between probes.
        last_seen: what to say was seen instead; without it the probe's last value is shown.

    Raises:
        DeadlineError: what was awaited, for how long, and what was last seen.
    """
    end = time.monotonic() + deadline_s
    while True:
        seen = probe()
        if seen:
            return seen
        if time.monotonic() >= end:
            shown = last_seen() if last_seen is not None else repr(seen)
            raise DeadlineError(f"waited {deadline_s:g} s for {awaited}; last seen: {shown}")
        time.sleep(interval_s)
