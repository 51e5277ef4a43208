"""Parametrising suites: the whole sweep in the thorough profiles, a chosen part in the quick one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import pytest

from pytest_nfvperf.model.traffic import Imix

NOT_QUICK = "nfv_not_quick"
"""Marker of parameters that the quick profile leaves out."""

QUICK_ONLY = "nfv_quick_only"
"""Marker of parameters that only the quick profile has."""

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


class Compared(tuple[Any, ...]):
    """Values that one test compares, the baseline first: each is a subject of its own."""

    __slots__ = ()


def compares(name: str, values: Iterable[Any], *, quick: Iterable[Any]) -> Callable[[F], F]:
    """Give a test all of ``values`` at once, in the quick profile those of ``quick``: it compares them.

    The first is the baseline. SLA rules select each of them by the label ``name``.

    Example::

        @compares("bridges", range(1, 10), quick=(1, 2, 4, 9))
        def test_chain(bridges, study, sla): ...

    Raises:
        ValueError: fewer than two values, or a quick value that is not among them.
    """
    full, short = Compared(values), Compared(quick)
    strangers = [value for value in short if value not in full]
    if strangers:
        raise ValueError(f"comparison of {name!r}: quick has {strangers[0]!r}, which is not among {list(full)}")
    if len(short) < 2:
        raise ValueError(f"comparison of {name!r}: two values or more can be compared, not {list(short)}")
    if full == short:
        return pytest.mark.parametrize(name, [pytest.param(full, id=_series(name, full))])
    params = [
        pytest.param(short, id=_series(name, short), marks=pytest.mark.nfv_quick_only),
        pytest.param(full, id=_series(name, full), marks=pytest.mark.nfv_not_quick),
    ]
    return pytest.mark.parametrize(name, params)


def _series(name: str, values: Compared) -> str:
    """``bridges_1_2_4_9``; a run of numbers by its ends, ``bridges_1_to_9``."""
    run = len(values) > 2 and all(isinstance(value, int) for value in values)
    if run and list(values) == list(range(values[0], values[0] + len(values))):
        return f"{name}_{values[0]}_to_{values[-1]}"
    return "_".join([name, *map(str, values)])


def _identify(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"imix-{value.name}" if isinstance(value, Imix) else str(value)
