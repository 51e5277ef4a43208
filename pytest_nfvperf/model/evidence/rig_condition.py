"""The condition of the rig during a run, in one line: where its CPUs were, and how many windows were undisturbed."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum

from pytest_nfvperf.model.display import format_count, format_ns
from pytest_nfvperf.model.disturbance.cpu_distance import CpuDistance, ObservedBands, observed_bands
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.windows import WindowState, disturbances
from pytest_nfvperf.model.evidence.records import TrialData

QUIET_SHARE = 0.9
"""On a quiet rig at least this share of trials ran on near CPUs, and of windows was undisturbed."""

MOST_NAMED = 2
"""Kinds of disturbances that are named."""


class Grade(StrEnum):
    """How far a run on this rig can be trusted, whether it passed or failed. Reports show it beside the verdict."""

    QUIET = "quiet"
    DISTURBED = "disturbed"
    UNTRUSTED = "too disturbed to trust"


class RigCondition:
    """What the machine did to the trials of a run, collected trial by trial. It keeps no trial.

    Attributes:
        windows: undisturbed windows of all trials.
        of: all their windows; 0 where the generator has none.
    """

    def __init__(self) -> None:
        self.windows = self.of = 0
        self._distances: list[CpuDistance] = []
        self._looked = False
        self._times: defaultdict[WindowState, float] = defaultdict(float)

    def add(self, trial: TrialData) -> None:
        result = trial.result
        if result.spec.gap_s is not None:
            return  # the event disturbed it, too
        if result.placement is not None:
            self._distances.append(result.placement)
        selected = trial.undisturbed or result.judgement.undisturbed  # saturating trials have the windows themselves
        if selected is not None:
            self._looked = True
            self.windows, self.of = self.windows + selected.windows, self.of + selected.of
        listed = trial.disturbances
        if not listed and result.windows is not None:
            listed = disturbances(result.windows, result.due_s, result.lost)
        for disturbance in listed:
            if disturbance.state is not WindowState.CHANGED:
                self._times[disturbance.state] += disturbance.length_s

    @property
    def did(self) -> RigCondition | None:
        """The same; None where nobody looked at the machine, as in a lab's or a simulated run."""
        return self if self._looked or self.bands is not None else None

    @property
    def bands(self) -> ObservedBands | None:
        """In which bands of CPU distance the trials ran; None where nobody looked."""
        return observed_bands(self._distances)

    @property
    def mostly(self) -> list[WindowState]:
        """What disturbed windows for the longest time, the longest first.

        Changes between two states have no cause of their own and are left out.
        """
        return sorted(self._times, key=lambda state: -self._times[state])[:MOST_NAMED]

    @property
    def grade(self) -> Grade:
        bands = self.bands
        near = bands is None or bands.near_trials >= QUIET_SHARE * bands.trials
        if near and self.windows >= QUIET_SHARE * self.of:
            return Grade.QUIET
        # Figures of a run need the share of undisturbed windows that a single trial needs to be judged.
        return Grade.UNTRUSTED if self.windows < POLICY.undisturbed_to_judge * self.of else Grade.DISTURBED

    @property
    def quiet(self) -> bool:
        return self.grade is Grade.QUIET

    @property
    def headline(self) -> str:
        if self.grade is Grade.QUIET:
            return "The rig was quiet"
        if self.grade is Grade.UNTRUSTED:
            return "The rig was too disturbed to trust, so measure again on a quieter machine"
        return "The rig was disturbed, so rates are at least those shown, unless marked ≤"

    @property
    def details(self) -> str:
        texts = []
        if (seen := self.bands) is not None:
            near, far = (f" ({format_ns(ns)})" if ns is not None else "" for ns in (seen.near_ns, seen.far_ns))
            bands = [f"CPUs of generator and DUT near{near} in {seen.near_trials} of {seen.trials} trials"]
            bands += [f"far{far} in {seen.far_trials}"] if seen.far_trials else []
            bands += [f"moved in {seen.moved_trials}"] if seen.moved_trials else []
            texts.append(", ".join(bands))
        if self.of:
            share = f"{100 * self.windows / self.of:.0f} % of {format_count(self.of, 'windows')} undisturbed"
            texts.append(f"{share}, the others mostly: {', '.join(self.mostly)}" if self.mostly else share)
        return "; ".join(texts)

    def __str__(self) -> str:
        return f"{self.headline}: {self.details}"
