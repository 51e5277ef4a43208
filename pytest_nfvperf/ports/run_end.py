"""How a run ends when a signal asks it to."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class RunEnd(Protocol):
    """Of one process: told of signals that others took, and asked what may still take time."""

    def ask_soak(self, name: str) -> None:
        """A running soak took the signal of this name, and ends; the run shall end after it."""
        ...

    def patience(self) -> AbstractContextManager[None]:
        """Around what may take long to close: in a run that was asked to stop it is broken off after a moment."""
        ...

    def undisturbed(self) -> AbstractContextManager[None]:
        """Around what must come to its end, because nobody else would do it."""
        ...
