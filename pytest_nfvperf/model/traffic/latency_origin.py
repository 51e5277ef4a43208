"""From which send time an engine counts latency: a reader must know it to compare two engines."""

from __future__ import annotations

from collections.abc import Iterable

SCHEDULED = "from the scheduled send time"
_OTHERS = {"trex": "from the actual send time (TRex knows no other)"}


def latency_origin(engines: Iterable[str | None]) -> str:
    """In words, for figures of these engines, by their label; None is one that says nothing of itself."""
    said = [_OTHERS.get(engine or "", SCHEDULED) for engine in engines]
    return "; ".join(dict.fromkeys(said)) or SCHEDULED
