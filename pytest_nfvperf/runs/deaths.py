"""A process that died explains more than one that no longer answers: look for a death behind every broken testbed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.ports.machine import Clock

# A killed process is gone from /proc thread by thread, and gives back its hugepages, before its status can be had.
_GRACE_S = 0.5
_STEP_S = 0.02


def death_behind(error: TestbedError, check_alive: Callable[[], None], clock: Clock) -> TestbedError:
    """The death that ``check_alive`` finds within half a second, with what was seen of it; else the error itself."""
    end = clock.monotonic() + _GRACE_S
    while clock.monotonic() < end:
        try:
            check_alive()
        except TestbedError as death:
            if death.message in error.message:
                return error
            found = TestbedError(
                f"{death.message}; seen first as: {error.message}", evidence={**error.evidence, **death.evidence}
            )
            found.__cause__ = error
            return found
        clock.sleep(_STEP_S)
    return error


def add_evidence(error: TestbedError, logs: Mapping[str, str]) -> None:
    """Add logs to what an error shows, but for those that it has already."""
    for name, text in logs.items():
        error.evidence.setdefault(name, text)
