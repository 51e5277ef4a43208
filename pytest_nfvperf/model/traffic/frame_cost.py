"""What it costs the generator to put a frame into a ring, which tells how far the DUT's CPU is just now.

The ring's cache lines come from the core that wrote them last. Seen at 4 Mpps and more: 24 to 31 ns a frame while the
two CPUs share an L3 cache, 44 to 50 while they do not, and nothing between. The cost also depends on the load, since
a fuller burst is cheaper by the frame, and on the frames. So it is compared with what the same frames cost at a
similar load.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

FAR_COST = 1.5
"""A frame that costs so many times the near cost went to a CPU that is far."""

FEWEST_COSTS = 10
"""Windows that a near cost is found from."""

_NEAR_SHARE = 0.1
"""The near cost is this quantile: a few windows near are enough to know it."""

_STEPS_A_DOUBLING = 4


class NearCosts:
    """The near cost by traffic and load, as far as one generator has seen it.

    It only ever falls: what was taken for near while the CPUs were far is corrected by the first near trial.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, int], float] = {}

    def learn(self, traffic: Hashable, load_fps: float, costs: Sequence[float]) -> float:
        """The near cost at this load, by the windows of a trial and all before it.

        Args:
            traffic: what was sent.
            load_fps: frames/s per direction.
            costs: of each window in which frames were sent and both cores were at full speed, ns a frame.

        Returns:
            ns a frame; 0 where too little was seen.
        """
        step = math.floor(math.log2(load_fps) * _STEPS_A_DOUBLING)
        if len(costs) >= FEWEST_COSTS:
            found = sorted(costs)[int(_NEAR_SHARE * len(costs))]
            key = (traffic, step)
            self._known[key] = min(found, self._known.get(key, found))
        # A frame of a higher load is no dearer, so what a lower one cost is an upper bound.
        at_most = [self._known[traffic, lower] for lower in (step, step - 1) if (traffic, lower) in self._known]
        return min(at_most, default=0.0)
