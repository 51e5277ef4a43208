"""Parametrising suites: the whole sweep in the thorough profiles, a chosen part in the quick one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import pytest

from pytest_nfvperf.model.traffic import Imix

NOT_QUICK = "nfv_not_quick"
"""Marker of parameters that the quick profile leaves out."""

F = TypeVar("F", bound=Callable[..., Any])


def sweep(name: str, values: Iterable[Any], *, quick: Collection[Any]) -> Callable[[F], F]:
    """Parametrise a test over ``values``, of which the quick profile keeps those in ``quick``.

    Example::

        @sweep("frame_size", RFC2544_FRAME_SIZES, quick={64, 1518})
        def test_ndr_pdr(frame_size, phy2phy, search, sla): ...

    Raises:
        ValueError: ``quick`` names a value that is not swept, or keeps none.
    """
    all_values = list(values)
    strangers = [value for value in quick if value not in all_values]
    if strangers:
        raise ValueError(f"sweep of {name!r}: quick keeps {strangers[0]!r}, which is not among {all_values}")
    if not quick:
        raise ValueError(f"sweep of {name!r}: the quick profile must keep at least one value")
    left_out = pytest.mark.nfv_not_quick
    params = [
        pytest.param(value, id=_identify(value), marks=() if value in quick else left_out) for value in all_values
    ]
    return pytest.mark.parametrize(name, params)


def _identify(value: Any) -> str:
    return f"imix-{value.name}" if isinstance(value, Imix) else str(value)
