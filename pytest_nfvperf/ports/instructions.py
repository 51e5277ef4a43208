"""Counting the instructions that frames cost, where time is virtual: a second there is a count of instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pytest_nfvperf.model.traffic.trial import TrialResult, TrialSpec


@dataclass(frozen=True, slots=True)
class Burst:
    """Frames that were sent at once, and forwarded before the next were.

    Attributes:
        frames: of the burst.
        busy_ns: virtual time that was spent on them, in ns.
    """

    frames: int
    busy_ns: int


@runtime_checkable
class CountsInstructions(Protocol):
    """A generator whose clock is a count of instructions."""

    @property
    def instruction_ns(self) -> int:
        """Virtual time of one instruction, in ns."""
        ...

    def run_counted(
        self, spec: TrialSpec, forwarding_ns: Callable[[], int] | None
    ) -> tuple[TrialResult, tuple[Burst, ...]]:
        """Run a trial, and say what each burst of it cost.

        Args:
            spec: what to send; the load does not matter, the number of frames does.
            forwarding_ns: virtual time that the DUT's own thread has run so far, in ns. None: it has none, the kernel
                forwards as part of sending, and the time of sending is what counts.
        """
        ...


@runtime_checkable
class KnowsForwardingThread(Protocol):
    """A source of counters that knows the one thread which forwards."""

    def forwarding_ns(self) -> int | None:
        """How long it has run so far, in ns; None where no thread of the DUT forwards: the kernel does."""
        ...
