"""How long a run waits for its machine to come to rest: in vain on a host that shares its cores all the time.

Searches repeat trials that said nothing; all trials wait for the near band of CPU distance. Each has a patience.
"""

from __future__ import annotations

from dataclasses import dataclass

PATIENCE_S = 20.0
"""How long a search may spend on trials that were too disturbed to say whose a loss was, or were invalid, in all; and
how long the near band is waited for."""

LEAST_S = 5.0
"""What is left of it where those before waited in vain."""


@dataclass(slots=True)
class Patience:
    """Of a run.

    Attributes:
        allowed_s: for the next one. Half as much after each that has spent all of its own, LEAST_S at least: a host
            that shares its cores goes on doing so. Whole again after one that has not.
    """

    allowed_s: float = PATIENCE_S

    def learn(self, left_s: float) -> None:
        """One is over; ``left_s``: what it has not spent, s."""
        self.allowed_s = PATIENCE_S if left_s > 0 else max(LEAST_S, self.allowed_s / 2)
