"""What was measured on a subject as text, on its way from one worker of a run to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from pydantic import TypeAdapter

from pytest_nfvperf.model.sla.verdict import Observation

_Measured = tuple[dict[str, str], tuple[Observation, ...]]


@cache
def _adapter() -> TypeAdapter[_Measured]:
    return TypeAdapter(_Measured)


def to_text(labels: Mapping[str, str], observed: Sequence[Observation]) -> str:
    """JSON."""
    return _adapter().dump_json((dict(labels), tuple(observed))).decode()


def from_text(text: str) -> _Measured:
    """Labels of the subject, and what was observed on it."""
    return _adapter().validate_json(text)
