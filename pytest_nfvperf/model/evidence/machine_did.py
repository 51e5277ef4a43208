"""What the machine did to a run, in one line: where its CPUs were, and how much of the trials it left undisturbed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_nfvperf.model.display import format_count, format_ns
from pytest_nfvperf.model.evidence.records import TrialData
from pytest_nfvperf.model.traffic.cpu_placement import BandsSeen, bands_seen
from pytest_nfvperf.model.traffic.undisturbed import Disturbance, Undisturbed, disturbances
from pytest_nfvperf.model.traffic.windows import State

QUIET_SHARE = 0.9
"""Of the trials that must be near, and of the windows that must be undisturbed, on a quiet rig."""

MOST_NAMED = 2
"""Disturbances that are named."""


@dataclass(frozen=True, slots=True)
class MachineDid:
    """What the machine did to the trials of a run.

    Attributes:
        bands: in which bands of CPU distance they were; None where nobody looked.
        windows: undisturbed windows of all trials.
        of: all their windows; 0 where the generator has none.
        mostly: what took most time of the disturbances that the evidence lists, first; those between two states,
            which have no cause of their own, are left out.
    """

    bands: BandsSeen | None
    windows: int
    of: int
    mostly: tuple[State, ...]

    @property
    def quiet(self) -> bool:
        """True when next to nothing kept the DUT from what it can do."""
        near = self.bands is None or self.bands.near_trials >= QUIET_SHARE * self.bands.trials
        return near and self.windows >= QUIET_SHARE * self.of

    @property
    def headline(self) -> str:
        """What that means for the figures."""
        if self.quiet:
            return "The rig was quiet"
        return "The rig was disturbed, so rates are at least those shown, unless marked ≤"

    @property
    def details(self) -> str:
        """Trials by band, the share of undisturbed windows, and what disturbed longest."""
        return "; ".join(filter(None, (self._bands_text(), self._windows_text())))

    def __str__(self) -> str:
        return f"{self.headline}: {self.details}"

    def _bands_text(self) -> str:
        if self.bands is None:
            return ""
        seen = self.bands
        near, far = (f" ({format_ns(ns)})" if ns is not None else "" for ns in (seen.near_ns, seen.far_ns))
        others = [f"far{far} in {seen.far_trials}"] if seen.far_trials else []
        others += [f"moved in {seen.moved_trials}"] if seen.moved_trials else []
        first = f"CPUs of generator and DUT near{near} in {seen.near_trials} of {seen.trials} trials"
        return ", ".join([first, *others])

    def _windows_text(self) -> str:
        if not self.of:
            return ""
        share = f"{100 * self.windows / self.of:.0f} % of {format_count(self.of, 'windows')} undisturbed"
        return f"{share}, the others mostly: {', '.join(self.mostly)}" if self.mostly else share


def machine_did(trials: Iterable[TrialData]) -> MachineDid | None:
    """What the machine did to these trials; None where nobody looked at it, as of a lab's or a simulated run."""
    seen = list(trials)
    bands = bands_seen(trial.result.placement for trial in seen if trial.result.placement is not None)
    found = [windows for trial in seen if (windows := _windows(trial)) is not None]
    if bands is None and not found:
        return None
    times: defaultdict[State, float] = defaultdict(float)
    for one in (each for trial in seen for each in _disturbances(trial) if each.state is not State.CHANGED):
        times[one.state] += one.length_s
    mostly = tuple(sorted(times, key=lambda state: -times[state])[:MOST_NAMED])
    return MachineDid(bands, sum(one.windows for one in found), sum(one.of for one in found), mostly)


def _windows(trial: TrialData) -> Undisturbed | None:
    """Saturating trials have the windows themselves."""
    return trial.undisturbed or trial.result.undisturbed


def _disturbances(trial: TrialData) -> tuple[Disturbance, ...]:
    result = trial.result
    if trial.disturbances or result.windows is None:
        return trial.disturbances
    return disturbances(result.windows, result.due_s, result.lost)
