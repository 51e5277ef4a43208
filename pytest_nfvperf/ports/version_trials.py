"""What a bisection needs from the world: a measurement of a version, and a place to keep what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pytest_nfvperf.model.bisect.bisection import Ask, BisectionState
from pytest_nfvperf.model.bisect.seen import Event


class VersionTrials(Protocol):
    """Measures versions."""

    def measure(self, ask: Ask) -> Event:
        """Do what is asked.

        Returns:
            Compared or Ran; or Unusable for a version that neither builds nor starts.

        Raises:
            TestbedError: the testbed is broken: that says nothing of any version.
            ConfigError: the tests or their options cannot be used.
        """


class Seen(Protocol):
    """All that was seen, also by a process that is gone."""

    @property
    def events(self) -> Sequence[Event]:
        """In order."""

    def append(self, event: Event) -> None:
        """Keep one more; it is safe when this returns."""


class Account(Protocol):
    """Told how a bisection goes on."""

    def begins(self, ask: Ask) -> None:
        """This is going to be measured."""

    def saw(self, event: Event, now: BisectionState) -> None:
        """This was seen and kept, and the bisection stands so."""
