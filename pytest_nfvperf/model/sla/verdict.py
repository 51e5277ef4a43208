"""Verdicts on figures, and the baseline that they may be judged against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile

from pytest_nfvperf.model.display import cell_lines, format_against, format_margin, table_widths, wrapped
from pytest_nfvperf.model.figure import Figure

NOT_GIVEN = "no baseline was given: --nfv-baseline DIR names the results of an earlier run"
NOT_MEASURED = "was not measured by this test"
FREE_LABELS = frozenset({"driver", "firmware"})
"""Labels in which a subject may differ from its baseline: a baseline is there to judge another version."""

Subject = frozenset[tuple[str, str]]

WIDTH = 78
"""Columns of a failure's text: a terminal has 80, and pytest indents a warning by two."""

_HEADINGS = ("verdict", "requirement", "observed", "limit", "margin")
_GAP, _NO_BREAK = "  ", "\N{NO-BREAK SPACE}"
_NARROWED_IN_TURN = (1, 4, 2, 3)

_SHOWN_IDS = 2


class Judgement(StrEnum):
    """Three-valued. A missing number never passes; INCONCLUSIVE fails acceptance."""

    PASS = "PASS"  # noqa: S105
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


_WORST_FIRST = (Judgement.FAIL, Judgement.INCONCLUSIVE, Judgement.PASS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one requirement.

    Attributes:
        observed: None if it was not measured.
        margin: (observed - limit) / |limit|, positive is better; None if it cannot be computed, or ``observed`` is a
            bound that does not decide.
        subject: labels of what was judged, if a test has several subjects.
    """

    judgement: Judgement
    requirement: str
    metric: str
    limit: float | None
    unit: str
    observed: float | None
    margin: float | None
    reason: str
    rule: str
    confidence: str = ""
    evidence: tuple[str, ...] = ()
    subject: tuple[tuple[str, str], ...] = ()

    @property
    def times_limit(self) -> float | None:
        return self.observed / self.limit if self.limit and self.observed is not None else None

    def is_about(self, labels: tuple[tuple[str, str], ...]) -> bool:
        """False for a verdict on another subject of the same test."""
        return not self.subject or set(labels) <= set(self.subject)


def worst(verdicts: Sequence[Verdict]) -> Judgement:
    """FAIL, then INCONCLUSIVE, then PASS. Without verdicts it is INCONCLUSIVE, never a pass."""
    judgements = {verdict.judgement for verdict in verdicts}
    return next((each for each in _WORST_FIRST if each in judgements), Judgement.INCONCLUSIVE)


# Baseline: an earlier run that this one is judged against, as in ``forwarding_rate: ">= 97 % of baseline"``.


def subject_of(labels: Mapping[str, str]) -> Subject:
    """What a subject and its baseline must have in common."""
    return frozenset((name, value) for name, value in labels.items() if name not in FREE_LABELS)


@dataclass(frozen=True)
class Baseline:
    """Figures of an earlier run.

    Attributes:
        name: what the user gave.
        when: of the run, for a person.
        unlike: how its machine differs from this one; empty for equal machines.
    """

    name: str
    when: str
    observed: Mapping[Subject, Sequence[Figure]] = field(default_factory=dict)
    unlike: tuple[str, ...] = ()

    def figures(self, labels: Mapping[str, str]) -> Sequence[Figure] | str:
        """What was observed on this subject then, or why nothing can be compared with it."""
        if self.unlike:
            return f"{self.name} was measured on another machine ({'; '.join(self.unlike)})"
        found = self.observed.get(subject_of(labels))
        return found if found is not None else f"{self.name} has no such test: {_suggestion(labels, self.observed)}"


def _suggestion(labels: Mapping[str, str], known: Mapping[Subject, object]) -> str:
    """How the most similar subject differs, for a person who renamed a test or changed a profile."""
    own = subject_of(labels)
    if not known:
        return "it measured nothing"
    best = max(sorted(known, key=sorted), key=lambda subject: len(subject & own))
    names = sorted({name for name, _ in best ^ own})
    theirs, ours = dict(best), dict(own)
    differ = (f"{name} {theirs.get(name, 'absent')}, here {ours.get(name, 'absent')}" for name in names)
    return f"the most similar one has {'; '.join(differ)}"


# The text of an SLA failure, for terminals, CI logs and Allure: plain columns whose cells fold between words.


def failure_table(
    verdicts: Sequence[Verdict],
    ledger: str | None = None,
    *,
    subject: str = "",
    fallback: str = "",
    profile: str | None = None,
) -> str:
    """All verdicts on one subject as a table, the worst first, each with its reason.

    Args:
        verdicts: what was judged.
        ledger: where frames were lost, as text; None if nothing was lost or it is not known.
        subject: what was measured, for the first line.
        fallback: flows that should have been in hardware and were not, as text.
        profile: where the CPUs' time went, as text; None if nobody looked.
    """
    ordered = sorted(verdicts, key=lambda verdict: _WORST_FIRST.index(verdict.judgement))
    rows = [_HEADINGS, *(_row(verdict) for verdict in ordered)]
    room = WIDTH - len(_GAP) * (len(_HEADINGS) - 1)
    widths = table_widths(list(zip(*rows, strict=True)), _NARROWED_IN_TURN, room)
    lines = [
        *wrapped(_headline(ordered, subject), WIDTH, _GAP),
        "",
        *_row_lines(_HEADINGS, widths),
        *_row_lines(["-" * width for width in widths], widths),
    ]
    for verdict, row in zip(ordered, rows[1:], strict=True):
        lines += [*_row_lines(row, widths), *_notes(verdict)]
    below = {"Where frames were lost:": ledger, "Hardware offload:": fallback, "Where the CPUs' time went:": profile}
    for title, text in below.items():
        # A row with a flow stays one line, as OVS writes it: people search for it.
        lines += ["", title, *(f"{_GAP}{line}".rstrip() for line in text.rstrip().splitlines())] if text else []
    return "\n".join(lines)


def headline_of(text: str) -> str:
    """The first line of a failure's text; that of a table as one line where it was folded."""
    lines = text.strip().splitlines()
    folded = takewhile(str.strip, lines) if lines[0].startswith("SLA") else lines[:1]
    return " ".join(line.strip() for line in folded)


def _headline(verdicts: Sequence[Verdict], subject: str) -> str:
    counts = [(judgement, sum(v.judgement is judgement for v in verdicts)) for judgement in _WORST_FIRST]
    shown = ", ".join(f"{count}{_NO_BREAK}{judgement}" for judgement, count in counts if count)
    return f"SLA of {subject}: {shown}" if subject else f"SLA: {shown}"


def _row(verdict: Verdict) -> tuple[str, ...]:
    return (
        str(verdict.judgement),
        verdict.requirement,
        format_against(verdict.observed, verdict.limit, verdict.unit),
        format_against(verdict.limit, verdict.observed, verdict.unit),
        format_margin(verdict.margin, verdict.times_limit),
    )


def _row_lines(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        _GAP.join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()
        for parts in cell_lines(cells, widths)
    ]


def _notes(verdict: Verdict) -> list[str]:
    """What the columns cannot hold, in indented lines. A pass needs no reason, and no rule."""
    passed = verdict.judgement is Judgement.PASS
    notes = [] if passed else [f"reason: {verdict.reason}"]
    notes += [f"rests on: {verdict.confidence}"] if verdict.confidence else []
    notes += [f"evidence: {_shown_ids(verdict.evidence)}"] if verdict.evidence else []
    notes += [] if passed else [f"rule: {verdict.rule}"]
    indent = 2 * _GAP
    return [f"{indent}{line}" for note in notes for line in wrapped(note, WIDTH - len(indent), _GAP)]


def _shown_ids(ids: Sequence[str]) -> str:
    more = len(ids) - _SHOWN_IDS
    return ", ".join(ids[-_SHOWN_IDS:]) + (f", and {more} before" if more > 0 else "")
