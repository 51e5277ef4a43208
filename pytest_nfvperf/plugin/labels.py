"""Parametrises suites, and reads the labels of a collected test, which identify it in SLAs and reports.

The thorough profiles run a whole sweep, quick a chosen part of it, and smoke one case of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import pytest

from pytest_nfvperf.model.arguments import Name, checked, shown_value
from pytest_nfvperf.model.errors import ArgumentError

MARKER = "nfv"
NOT_QUICK, QUICK_ONLY, SMOKE_ONLY = "nfv_not_quick", "nfv_quick_only", "nfv_smoke_only"
VIRTUAL_TIME, SMOKE_TEST, FUNCTIONAL = "nfv_virtual_time", "nfv_smoke", "nfv_functional"
NEEDS_MARKER = "nfv_needs"
MARKERS = {
    f"{MARKER}(**labels)": "labels that SLA selectors and reports know the test by",
    NOT_QUICK: "left out by --nfv-profile quick and smoke",
    QUICK_ONLY: "left out by every profile but quick and smoke",
    SMOKE_ONLY: "left out by every profile but smoke",
    VIRTUAL_TIME: "counts instructions; left out of runs by the clock",
    SMOKE_TEST: "what --nfv-profile smoke runs of its suite, with its first case",
    FUNCTIONAL: "judges no rate and no time; with -n several run at once",
    f"{NEEDS_MARKER}(*names, rxq, cabled)": "what the testbed must have; left out where it lacks that",
}
"""What ``pytest --markers`` says of each. Without a test marked SMOKE_TEST the smoke profile runs a suite's first."""
TESTBED_PARAMETER = "testbed"
"""Parameter, and label, of tests that run once for each label of the given testbeds."""
BASE_FIXTURE = "nfv_session"
"""Each of our fixtures that touches the testbed depends on this one."""
TOPOLOGY_FIXTURES = frozenset({"phy2phy", "pvp", "pvvp"})
"""Fixtures that deploy the topology of their own name."""
_MOST_IN_SMOKE = 3
"""Values that the smoke profile compares: a slope over them has an interval from three on."""
F = TypeVar("F", bound=Callable[..., Any])


@checked()
def sweep(name: Name, values: Iterable[Any], *, quick: Collection[Any] | None = None) -> Callable[[F], F]:
    """Parametrise a test over ``values``, of which the quick profile keeps those in ``quick``.

    Without ``quick`` it keeps all.

    Example::

        @sweep("frame_size", RFC2544_FRAME_SIZES, quick={64, 1518})
        def test_ndr_pdr(frame_size, phy2phy, search, sla): ...

    Raises:
        ValueError: ``quick`` names a value that is not swept, or keeps none; ``values`` is no list.
    """
    all_values = list(values)
    short = _quick_part(f"sweep of {name!r}", all_values, quick)
    params = [
        pytest.param(value, id=_identify(value), marks=() if value in short else pytest.mark.nfv_not_quick)
        for value in all_values
    ]
    return pytest.mark.parametrize(name, params)


@checked()
def chosen(
    names: Name, cases: Iterable[tuple[Any, ...]], *, quick: Collection[tuple[Any, ...]] | None = None
) -> Callable[[F], F]:
    """Parametrise a test over cases of several parameters, of which the quick profile keeps those in ``quick``.

    Without ``quick`` it keeps all.

    Example::

        @chosen("link, streams", product(("patch", "veth"), (1, 2, 4)), quick={("patch", 1), ("veth", 4)})
        def test_tcp(link, streams, ...): ...

    Raises:
        ValueError: ``quick`` names a case that is not among the others, or none.
    """
    listed: list[Any] = list(cases)
    wanted = names.count(",") + 1
    for case in listed:
        if not isinstance(case, (tuple, list)) or len(case) != wanted:
            raise ArgumentError(f"cases of {names!r}: {shown_value(case)} is no tuple of {wanted} values")
    short = _quick_part(f"cases of {names!r}", listed, quick)
    words = [name.strip() for name in names.split(",")]
    params = [
        pytest.param(
            *case,
            # A number, "on" and "off" need the name of the parameter to be understood.
            id="-".join(
                f"{word}_{_identify(value)}" if isinstance(value, int) else _identify(value)
                for word, value in zip(words, case, strict=True)
            ),
            marks=() if case in short else pytest.mark.nfv_not_quick,
        )
        for case in listed
    ]
    return pytest.mark.parametrize(words, params)


class Compared(tuple[Any, ...]):
    """Values that one test compares, the baseline first. Each is a subject."""

    __slots__ = ()


@checked()
def compares(name: Name, values: Iterable[Any], *, quick: Iterable[Any] | None = None) -> Callable[[F], F]:
    """Give a test all of ``values`` at once, for it to compare; the quick profile gives it those of ``quick``.

    The smoke profile gives it three of those at most. The first is the baseline. SLA rules select each of
    them by the label ``name``.

    Example::

        @compares("bridges", range(1, 10), quick=(1, 2, 4, 9))
        def test_chain(bridges, study, sla): ...

    Raises:
        ValueError: fewer than two values, or a quick value that is not among them.
    """
    full = Compared(values)
    short = Compared(_quick_part(f"comparison of {name!r}", full, quick))
    if len(short) < 2:
        raise ArgumentError(f"comparison of {name!r}: two values or more can be compared, not {list(short)}")
    cases: list[tuple[Compared, tuple[pytest.MarkDecorator, ...]]] = []
    if len(short) > _MOST_IN_SMOKE:  # first: smoke takes the first case of a test
        ends_and_middle = Compared((short[0], short[len(short) // 2], short[-1]))
        cases.append((ends_and_middle, (pytest.mark.nfv_smoke_only,)))
    if full == short:
        cases.append((full, ()))
    else:
        cases += [(short, (pytest.mark.nfv_quick_only,)), (full, (pytest.mark.nfv_not_quick,))]
    return pytest.mark.parametrize(
        name, [pytest.param(each, id=_series(name, each), marks=marks) for each, marks in cases]
    )


def _quick_part(what: str, values: Sequence[Any], quick: Iterable[Any] | None) -> list[Any]:
    """What the quick profile keeps: all, or those of ``quick``; ArgumentError for none, and for other values."""
    chosen = list(values if quick is None else quick)
    strangers = [value for value in chosen if value not in values]
    if strangers:
        raise ArgumentError(f"{what}: quick keeps {strangers[0]!r}, which is not among {shown_value(list(values))}")
    if not chosen:
        raise ArgumentError(f"{what}: the quick profile must keep at least one value")
    return chosen


def _series(name: str, values: Compared) -> str:
    """``bridges_1_2_4_9``; consecutive numbers by their ends, ``bridges_1_to_9``."""
    run = len(values) > 2 and all(isinstance(value, int) for value in values)
    if run and list(values) == list(range(values[0], values[0] + len(values))):
        return f"{name}_{values[0]}_to_{values[-1]}"
    return "_".join([name, *map(str, values)])


def _identify(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    from pytest_nfvperf.model.traffic.traffic import Imix  # noqa: PLC0415 - every pytest run imports this module

    return f"imix-{value.name}" if isinstance(value, Imix) else str(value)


def is_measuring(item: pytest.Item) -> bool:
    return BASE_FIXTURE in getattr(item, "fixturenames", ())


def item_labels(item: pytest.Item, profile: str) -> dict[str, str]:
    """Labels known before the test runs.

    In rising precedence: suite (the folder), test, profile; the fixture that names a topology;
    the test's parameters (not those of other plugins, whose names begin with ``_``); the keywords of its ``nfv``
    markers. A parameter that the test compares (``compares``) is a label of each subject, not of the test.
    """
    labels = {
        "suite": item.path.parent.name,
        "test": getattr(item, "originalname", None) or item.name,
        "profile": profile,
        "direction": "bidirectional",
        "flows": "1",
    }
    topology = TOPOLOGY_FIXTURES.intersection(getattr(item, "fixturenames", ()))
    if len(topology) == 1:
        labels["topology"] = next(iter(topology))
    for name, value in _parameters(item).items():
        if not isinstance(value, Compared):
            labels[name] = as_label(value)
    for marker in item.iter_markers(MARKER):
        labels.update({name: as_label(value) for name, value in marker.kwargs.items()})
    return labels


def subject_labels(item: pytest.Item, profile: str) -> list[dict[str, str]]:
    """Labels of each subject that the test will measure: one, or as many as it compares."""
    labels = item_labels(item, profile)
    compared = {name: value for name, value in _parameters(item).items() if isinstance(value, Compared)}
    choices = ([(name, as_label(each)) for each in values] for name, values in compared.items())
    return [{**labels, **dict(chosen)} for chosen in itertools.product(*choices)]


def as_label(value: object) -> str:
    """A parameter as a label: ``on`` and ``off`` for True and False, else its text."""
    from pytest_nfvperf.model.sla.rules import ON_OR_OFF  # noqa: PLC0415 - every pytest run imports this module

    return ON_OR_OFF[value] if isinstance(value, bool) else str(value)


def set_labels(item: pytest.Item) -> set[str]:
    """Names of the labels that the author of a test set, by its parameters and its ``nfv`` markers."""
    return {*_parameters(item), *(name for marker in item.iter_markers(MARKER) for name in marker.kwargs)}


def _parameters(item: pytest.Item) -> dict[str, object]:
    """The parameters that the author of the test gave it.

    Other plugins parametrize tests, too, by names that begin with an underscore: ``pytest-repeat`` by
    ``__pytest_repeat_step_number``, ``pytest-flakefinder`` by ``__flakefinder_test_it``. They only number the runs of a
    test, so SLAs, baselines and histories know no such label.
    """
    callspec = getattr(item, "callspec", None)
    return {name: value for name, value in callspec.params.items() if not name.startswith("_")} if callspec else {}
