"""Results of tests that a feature shows beside the evidence, for a tool of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, TestConclusion
from pytest_nfvperf.ports.evidence import Sink


class OtherResults(Protocol):
    """One such tool. Whatever of it fails is told at the end of the run, and changes nothing else."""

    def sink(self, run_dir: Path) -> Sink:
        """Takes the records of this process."""
        ...

    def interrupted(self, became: TestConclusion) -> None:
        """The running test does not end, because the run does."""
        ...

    def concluded(self, run: RunEvidence, conclusion: RunConclusion) -> None:
        """The run has ended: tests that no process could show are still to be shown."""
        ...


OTHER_RESULTS = Point[Callable[[pytest.Config, str], OtherResults]]("results")
"""By the option of pytest, whose value they are made with."""


def other_results(config: pytest.Config) -> Iterator[OtherResults]:
    """Those that the user asks for; others are not imported."""
    for option in OTHER_RESULTS.names():
        if value := config.getoption(option, None):
            yield OTHER_RESULTS.part(option)(config, value)
