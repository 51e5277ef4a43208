"""A simulated DUT that does not deliver each frame once, in order, to its port and unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.traffic.trial import DirectionCounts, TrialSpec


@dataclass
class Misdelivers(FakeGenerator):
    """``wrong``: shares of the frames received that are duplicated, corrupted, out_of_order, or misdirected.

    Misdirected ones come back to their sender instead. None: the engine in whose place this is cannot count them.
    """

    wrong: Mapping[str, float | None] = field(default_factory=dict)

    def simulated(self, spec: TrialSpec) -> TrialResult:
        result = super().simulated(spec)
        classes = tuple(replace(each, counts=tuple(map(self._delivered, each.counts))) for each in result.classes)
        return replace(result, counts=tuple(map(self._delivered, result.counts)), classes=classes)

    def _delivered(self, counts: DirectionCounts) -> DirectionCounts:
        shares = dict.fromkeys(("misdirected", "duplicated", "out_of_order", "corrupted"), 0.0) | dict(self.wrong)
        wrong = {kind: None if share is None else round(counts.received * share) for kind, share in shares.items()}
        back = wrong.pop("misdirected")
        elsewhere = None if back is None else ((counts.direction.tx, back),) if back else ()
        return replace(counts, received=counts.received - (back or 0), elsewhere=elsewhere, **wrong)  # type: ignore[arg-type]
