"""Notes of several outcomes, each told once."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nfvperf.model.measure.outcome import Outcome


def notes_once(outcomes: Sequence[Outcome], per: str) -> list[tuple[str, str]]:
    """Each note once, with its subjects, "" for all. ``per``: the label that the subjects differ in."""
    about: dict[str, list[str]] = {}
    for outcome in outcomes:
        for note in dict.fromkeys(outcome.notes):
            about.setdefault(note, []).append(outcome.label[per])
    return [(note, "" if len(values) == len(outcomes) else ", ".join(values)) for note, values in about.items()]
