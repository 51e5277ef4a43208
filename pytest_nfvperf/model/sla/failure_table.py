"""The text of an SLA failure: what was required, what was seen, and where to look.

Plain columns, at most 120 wide, because it is read in terminals, CI logs and Allure alike. Sentences fit a terminal of
80 columns, which would break them in the middle of a word.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from pytest_nfvperf.model.display import MISSING, format_against, format_margin
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict

WIDTH = 120
_SENTENCE_WIDTH = 80
_NO_BREAK = "\N{NO-BREAK SPACE}"
_HEADINGS = ("verdict", "requirement", "observed", "limit", "margin", "evidence")
_WIDEST = (12, 44, 22, 22, 21, 30)
_LEAST_REQUIREMENT, _LEAST_EVIDENCE = 20, 12
_ORDER = (Judgement.FAIL, Judgement.INCONCLUSIVE, Judgement.PASS)
_SHOWN_IDS = 2


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
        ledger: where frames were lost, as ready text; None when nothing was lost or it is not known.
        subject: what was measured, for the first line.
        fallback: which flows were not in hardware where they should have been, as ready text.
        profile: where the CPUs' time went, as ready text; None where nobody looked.
    """
    ordered = sorted(verdicts, key=lambda verdict: _ORDER.index(verdict.judgement))
    rows = [_HEADINGS, *(_row(verdict) for verdict in ordered)]
    widths = [min(max(len(row[i]) for row in rows), _WIDEST[i]) for i in range(len(_HEADINGS))]
    room = WIDTH - 2 * (len(widths) - 1)
    too_wide = sum(widths[:-1]) + min(widths[-1], _LEAST_EVIDENCE) - room
    widths[1] = max(_LEAST_REQUIREMENT, widths[1] - max(0, too_wide))
    widths[-1] = min(widths[-1], room - sum(widths[:-1]))
    lines = [
        _headline(ordered, subject),
        "",
        _line(_HEADINGS, widths),
        _line(["-" * width for width in widths], widths),
    ]
    for verdict, row in zip(ordered, rows[1:], strict=True):
        lines += [_line(row, widths), *_notes(verdict)]
    if ledger:
        lines += ["", "Where frames were lost:", textwrap.indent(ledger.rstrip(), "  ")]
    if fallback:
        lines += ["", "Hardware offload fell back to software:", textwrap.indent(fallback, "  ")]
    if profile:
        lines += ["", "Where the CPUs' time went:", textwrap.indent(profile.rstrip(), "  ")]
    return "\n".join(lines)


def _headline(verdicts: Sequence[Verdict], subject: str) -> str:
    counts = [(judgement, sum(v.judgement is judgement for v in verdicts)) for judgement in _ORDER]
    shown = ", ".join(f"{count} {judgement}" for judgement, count in counts if count)
    return textwrap.shorten(f"SLA of {subject}: {shown}" if subject else f"SLA: {shown}", WIDTH, placeholder=" ...")


def _row(verdict: Verdict) -> tuple[str, ...]:
    unit = verdict.unit
    return (
        str(verdict.judgement),
        verdict.requirement,
        format_against(verdict.observed, verdict.limit, unit),
        format_against(verdict.limit, verdict.observed, unit),
        format_margin(verdict.margin, verdict.times_limit),
        _ids(verdict.evidence),
    )


def _ids(evidence: Sequence[str]) -> str:
    if not evidence:
        return MISSING
    shown = ", ".join(evidence[-_SHOWN_IDS:])
    return f"{shown} +{len(evidence) - _SHOWN_IDS}" if len(evidence) > _SHOWN_IDS else shown


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(_fit(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else (text[: max(0, width - 3)] + "...")[:width]


def _notes(verdict: Verdict) -> list[str]:
    """What the columns cannot hold; a pass needs no explanation beyond its confidence."""
    notes = [] if verdict.judgement is Judgement.PASS else [f"reason: {verdict.reason}"]
    notes += [f"rests on: {verdict.confidence}"] if verdict.confidence else []
    notes += [] if verdict.judgement is Judgement.PASS else [f"rule: {verdict.rule}"]
    return [line for note in notes for line in _wrapped(note)]


def _wrapped(note: str) -> list[str]:
    """Indented lines; none begins with a per cent sign."""
    joined = note.replace(" %", f"{_NO_BREAK}%")
    lines = textwrap.wrap(
        joined,
        _SENTENCE_WIDTH,
        initial_indent="    ",
        subsequent_indent="      ",
        break_on_hyphens=False,  # of paths and names
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]
