"""What others published, beside which a measurement is shown: curves of figures, and relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_nfvperf.adapters.report.subjects import differing, title
from pytest_nfvperf.model.sla.verdict import Judgement


@dataclass(frozen=True, slots=True)
class PublishedSeries:
    """One curve of somebody else's figures over frame size.

    Attributes:
        name: for the legend, such as "RHOSO 18, ConnectX-6".
        source: where it was published.
        metric: "ndr", "pdr" or "throughput", as a label; it is drawn beside our own of any metric.
        unit: "pps" or "bps" (layer 2, with FCS), **per direction**.
        points: ((frame size in bytes with FCS, value in the unit), ...).
        where: labels of the outcomes it belongs beside, as an SLA rule's; none: every sweep.
    """

    name: str
    source: str
    metric: str
    points: tuple[tuple[int, float], ...]
    unit: str = "pps"
    where: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.unit not in {"pps", "bps"}:
            raise ValueError(f"published series {self.name!r}: unit must be pps or bps, not {self.unit!r}")

    def belongs_to(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(name) == value for name, value in self.where)

    def frames_per_second(self) -> dict[int, float]:
        """By frame size, per direction."""
        return {size: value if self.unit == "pps" else value / (size * 8) for size, value in self.points}


NOT_MEASURED = "not measured in this run"

_AGREES = {Judgement.PASS: "the same here", Judgement.FAIL: "not so here", Judgement.INCONCLUSIVE: "not decided here"}


@dataclass(frozen=True, slots=True)
class PublishedRelation:
    """One relation of a published.yaml, and one subject of this run.

    Attributes:
        name: what was found, in the words of the file.
        source: where it was published.
        relation: ``tcp_throughput >= 100 % of {interface: veth, datapath: system}``.
        labels: of the subject; empty if none was measured.
        seen: what was found here, with its interval.
        judgement: whether it holds here, too; None if it was not measured.
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
        return "" if self.judgement is None else _AGREES[self.judgement]


def subjects_of(relations: Sequence[PublishedRelation]) -> list[str]:
    """The labels in which the subjects differ, for each relation; empty if nothing was measured."""
    measured = [dict(one.labels) for one in relations if one.labels]
    shown = differing(measured) - {"test"}
    return [title({name: value for name, value in one.labels if name in shown}) for one in relations]
