"""How long the searches of a run repeat trials that said nothing: waiting pays where the machine comes to rest."""

from __future__ import annotations

from dataclasses import dataclass

PATIENCE_S = 20.0
"""How long a search may spend on trials that were too disturbed to say whose a loss was, or were invalid, in all."""

LEAST_S = 5.0
"""What a search has left of it where the searches before it waited in vain."""


@dataclass(slots=True)
class Patience:
    """Of a run.

    Attributes:
        allowed_s: for the next search. Half as much after each one that has spent all of its own, LEAST_S at least: a
            host that shares its cores goes on doing so. Whole again after one that has not.
    """

    allowed_s: float = PATIENCE_S

    def learn(self, left_s: float) -> None:
        """A search is over; ``left_s``: what it has not spent, s."""
        self.allowed_s = PATIENCE_S if left_s > 0 else max(LEAST_S, self.allowed_s / 2)
