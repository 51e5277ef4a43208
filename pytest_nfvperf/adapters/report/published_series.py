"""Published figures that a measurement is shown beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
        """True when the series is to be shown beside outcomes with these labels."""
        return all(labels.get(name) == value for name, value in self.where)

    def frames_per_second(self) -> dict[int, float]:
        """Frames/s per direction by frame size."""
        return {size: value if self.unit == "pps" else value / (size * 8) for size, value in self.points}
