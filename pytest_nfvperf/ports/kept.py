"""What one run finds out about a machine, and later ones need not find out again."""

from __future__ import annotations

from typing import Protocol


class Kept(Protocol):
    """One value of plain JSON. A cache: it may be gone, and nothing depends on it."""

    def read(self) -> object:
        """What was kept last; None where nothing was, or where it cannot be read."""
        ...

    def write(self, value: object) -> None:
        """Keep this instead. What cannot be kept is forgotten."""
        ...
