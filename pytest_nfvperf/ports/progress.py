"""Live progress of a running search."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told of each trial; shows it on a terminal, or does nothing."""

    def begin(self, subject: str) -> None:
        """A test begins; ``subject`` names it."""
        ...

    def clear(self) -> None:
        """It ended: take what is shown away."""
        ...

    def trial_started(self, purpose: str, load_fps: int, duration_s: float, remaining_s: float | None) -> None:
        """A trial begins. ``remaining_s`` is an estimate for the whole search, None if unknown."""
        ...

    def soaking(self, line: str) -> None:
        """A soak goes on: how far it is, its rate, loss and sessions, in one line."""
        ...

    def trial_finished(self, loss_ratio: float | None, valid: bool) -> None:
        """It ended."""
        ...
