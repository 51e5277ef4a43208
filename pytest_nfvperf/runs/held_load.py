"""The load that a generator holds, from a trial in which it fell behind. Pure."""

from __future__ import annotations

from pytest_nfvperf.model.traffic.trial import TrialResult

HELD_AGAIN = 0.98
"""Of what it offered when it was asked for more: it is to hold that for a whole search."""

LOWER = 0.9
"""Of a load that it did not hold, where nobody knows what it offered undisturbed."""


def load_to_hold(result: TrialResult) -> float:
    """The next load to try, frames/s per direction.

    It is near what the generator offered in undisturbed windows. What the machine took from it says nothing of the
    load: seen in ten warm-ups at 8.4 Mpps, the generator offered 7.45 to 7.66 Mpps in those windows, and 6.9 to 7.4
    over all, and each search ended at what it had offered.
    """
    load, alone = result.spec.load_fps, result.undisturbed
    if alone is not None and alone.enough:
        return load * (1 - alone.skipped_ratio) * HELD_AGAIN
    # An overloaded tester may have offered far less than it was asked for: there it begins to be usable.
    return min(load * LOWER, result.offered_fps or load)
