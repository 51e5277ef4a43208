"""A study under way: what is known of each subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_nfvperf.model.measure.offloading import OffloadShare
from pytest_nfvperf.ports.machine import Clock
from pytest_nfvperf.runs.figures import Figure, Subject
from pytest_nfvperf.runs.rig import LiveTopology


@dataclass(slots=True)
class Collected:
    """What is known of one subject. ``value``: of the label that subjects differ in.

    ``trials``: ids of all, warm-ups and disturbed ones too. ``shares``: where flows were, after each reading.
    """

    value: str
    labels: dict[str, str] = field(default_factory=dict)
    trials: list[str] = field(default_factory=list)
    shares: list[OffloadShare] = field(default_factory=list)
    cores: int = 0

    def about(self, labels: dict[str, str], live: LiveTopology) -> None:
        self.labels = labels
        self.cores = live.datapath_info.cores


@dataclass(slots=True)
class Work:
    """A comparison under way. ``figures``, ``collected``: of each subject."""

    per: str
    subjects: Sequence[Subject]
    figures: Sequence[Figure]
    clock: Clock
    collected: list[Collected] = field(init=False)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.collected = [Collected(subject.value) for subject in self.subjects]
        self.started = self.clock.monotonic()

    @property
    def units(self) -> Mapping[str, str]:
        """Base unit of each metric, the same for all."""
        return self.figures[0].units

    @property
    def values(self) -> list[str]:
        return [subject.value for subject in self.subjects]

    def elapsed_s(self) -> float:
        return self.clock.monotonic() - self.started
