"""Signals that come while something long runs: noted, instead of ending the process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Signals(Protocol):
    """What came while they are taken.

    Attributes:
        stop: called by the first signal that asks to end, wherever the main thread is: ends what it waits for.
    """

    stop: Callable[[], None]

    @property
    def asked(self) -> str:
        """Name of the first signal that asked to end ("SIGTERM"), or ""."""
        ...


TakeSignals = Callable[[], AbstractContextManager[Signals]]
"""Takes them from the process until the end of the context."""
