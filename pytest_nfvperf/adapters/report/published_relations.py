"""Relations that somebody published, beside the same relation as it was measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nfvperf.adapters.report.subjects import differing, title
from pytest_nfvperf.model.sla.verdict import Judgement

NOT_MEASURED = "not measured in this run"

_AGREES = {
    Judgement.PASS: "the same here",
    Judgement.FAIL: "not so here",
    Judgement.INCONCLUSIVE: "not decided here",
}


@dataclass(frozen=True, slots=True)
class PublishedRelation:
    """One relation of a published.yaml, and one subject of this run.

    Attributes:
        suite: that it stands beside.
        name: what was found, in the words of the file.
        source: where it was published.
        relation: ``tcp_throughput >= 100 % of {interface: veth, datapath: system}``.
        labels: of the subject; empty where none was measured.
        seen: what was found here, with its interval.
        judgement: whether it holds here, too; None where it was not measured.
    """

    suite: str
    name: str
    source: str
    relation: str
    labels: tuple[tuple[str, str], ...] = ()
    seen: str = NOT_MEASURED
    judgement: Judgement | None = None

    @property
    def agrees(self) -> str:
        """In words; empty where it was not measured."""
        return "" if self.judgement is None else _AGREES[self.judgement]


def subjects_of(relations: Sequence[PublishedRelation]) -> list[str]:
    """What each is about: the labels in which the subjects differ; empty where nothing was measured."""
    measured = [dict(one.labels) for one in relations if one.labels]
    shown = differing(measured) - {"test"}
    return [title({name: value for name, value in one.labels if name in shown}) for one in relations]
