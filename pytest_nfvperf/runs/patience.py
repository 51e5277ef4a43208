"""How long a run waits for its machine to come to rest: in vain on a host that shares its cores all the time.

Searches repeat inconclusive trials; all trials wait for the near band of CPU distance. Each has a patience.
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
    """Time that a wait may take.

    ``allowed_s`` halves after each wait that spent all of it, down to LEAST_S: a host that shares its cores goes on
    doing so. It is whole again after one that did not.
    """

    allowed_s: float = PATIENCE_S

    def learn(self, left_s: float) -> None:
        self.allowed_s = PATIENCE_S if left_s > 0 else max(LEAST_S, self.allowed_s / 2)
