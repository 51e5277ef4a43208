"""Which trial's ledger explains a result: the lossy one that bounds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.evidence.records import STEPS, LedgerData
from pytest_nfvperf.model.ledger.ledger import ledger_text, weakness
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.runs.trials import Trial


def bounding(outcomes: Sequence[Outcome], trials: Mapping[str, Trial]) -> Trial | None:
    """The lossy valid trial of the lowest load that has a ledger; None where there is none."""
    own = [trials[key] for outcome in outcomes for key in outcome.trials if key in trials]
    lossy = [trial for trial in own if trial.result.valid and trial.result.own_lost > 0 and trial.ledger]
    return min(lossy, key=lambda trial: weakness(trial.result.spec), default=None)


def bounding_text(outcomes: Sequence[Outcome], trials: Mapping[str, Trial]) -> str | None:
    """Where frames went in that trial, as text; None where there is none."""
    worst = bounding(outcomes, trials)
    if worst is None or worst.ledger is None:
        return None
    return f"{worst.id}, {format_fps(worst.result.spec.load_fps)} per direction\n{ledger_text(worst.ledger)}"


def whole_ledgers(outcomes: Sequence[Outcome], trials: Mapping[str, Trial]) -> Iterator[LedgerData]:
    """Ledgers of trials that bound a result, and whose own records are short."""
    found = {trial.id: trial for outcome in outcomes if (trial := bounding([outcome], trials)) is not None}
    for trial in found.values():
        if trial.result.spec.purpose in STEPS and trial.ledger is not None:
            yield LedgerData(trial.id, trial.ledger)
