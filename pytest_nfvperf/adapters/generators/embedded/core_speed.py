"""How fast a core is that nobody shares: by all looks of this engine, and by what earlier runs saw on the machine.

Where somebody uses the other hardware thread for the whole of a run, its own looks show nothing faster than a shared
core, which then passes for an undisturbed one. What an earlier run saw since the machine was started tells better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pytest_nfvperf.model.traffic.windows import FULL_SPEED, full_speed
from pytest_nfvperf.ports.machine import Kept

FEWEST_LOOKS = 200
"""That a run must have taken for what it saw to be kept: among so many, some see a core alone, if it ever is."""


class CoreSpeed:
    """Cycles that the speed probe takes on a core of its own.

    Args:
        kept: what earlier runs saw on this machine since its start; None where nothing is kept.
    """

    def __init__(self, kept: Kept | None = None) -> None:
        self._looks: Counter[int] = Counter()
        self._kept = kept
        known = None if kept is None else kept.read()
        self._known = known if isinstance(known, int) and known > 0 else 0

    def add(self, looks: Iterable[int]) -> None:
        """What the probe took, each time."""
        self._looks.update(looks)

    @property
    def cycles(self) -> int:
        """The fewest, but for freaks; 0 where nobody has looked yet.

        An earlier run's where this one has seen nothing but shared cores; between runs alone a core varies by 1 %.
        """
        own = full_speed(self._looks)
        return self._known if self._known and (not own or own > FULL_SPEED * self._known) else own

    def keep(self) -> None:
        """For later runs, if enough was looked at."""
        if self._kept is not None and self._looks.total() >= FEWEST_LOOKS and self.cycles != self._known:
            self._kept.write(self.cycles)
