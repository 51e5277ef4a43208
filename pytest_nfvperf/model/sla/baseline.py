"""An earlier run that this one is judged against: ``forwarding_rate: ">= 97 % of baseline"``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_nfvperf.model.sla.verdict import Observation

FREE_LABELS = frozenset({"driver", "firmware"})
"""Labels in which a subject may differ from its baseline: a version is what a baseline is there to judge."""

NOT_GIVEN = "no baseline was given: --nfv-baseline DIR names the results of an earlier run"

Subject = frozenset[tuple[str, str]]


def subject_of(labels: Mapping[str, str]) -> Subject:
    """What must be equal for a subject and its baseline."""
    return frozenset((name, value) for name, value in labels.items() if name not in FREE_LABELS)


@dataclass(frozen=True)
class Baseline:
    """Figures of an earlier run.

    Attributes:
        name: what the user gave.
        when: of the run, for a person.
        observed: by subject.
        unlike: in what its machine differs from this one; empty for machines alike.
    """

    name: str
    when: str
    observed: Mapping[Subject, Sequence[Observation]] = field(default_factory=dict)
    unlike: tuple[str, ...] = ()

    def figures(self, labels: Mapping[str, str]) -> Sequence[Observation] | str:
        """What was observed on this subject then, or why nothing can be compared with it."""
        if self.unlike:
            return f"{self.name} was measured on another machine ({'; '.join(self.unlike)})"
        found = self.observed.get(subject_of(labels))
        return found if found is not None else f"{self.name} has no such test: {_nearest(labels, self.observed)}"


def _nearest(labels: Mapping[str, str], known: Mapping[Subject, object]) -> str:
    """In what the most similar subject differs, for a person who renamed a test or changed a profile."""
    own = subject_of(labels)
    if not known:
        return "it measured nothing"
    best = max(sorted(known, key=sorted), key=lambda subject: len(subject & own))
    names = sorted({name for name, _ in best ^ own})
    theirs, ours = dict(best), dict(own)
    differ = (f"{name} {theirs.get(name, 'absent')}, here {ours.get(name, 'absent')}" for name in names)
    return f"the most similar one has {'; '.join(differ)}"
