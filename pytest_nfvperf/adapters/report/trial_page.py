"""The trials of an outcome as a small HTML page of its own, for Allure."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.adapters.report.templating import environment, style
from pytest_nfvperf.model.evidence.records import TrialData


def trials_html(trials: Sequence[tuple[str, TrialData]]) -> str:
    """A page with one row a trial, invalid ones with their reasons."""
    return environment().get_template("trials.html").render(trials=list(trials), style=style())
