"""What identifies a test in SLAs and reports, read off the collected item."""

from __future__ import annotations

import itertools

import pytest

from pytest_nfvperf.plugin.parametrizing import Compared

TOPOLOGY_FIXTURES = frozenset({"phy2phy", "pvp", "pvvp"})
"""Fixtures that deploy the topology of their own name."""

BASE_FIXTURE = "nfv_session"
"""Every fixture of ours that touches the testbed depends on this one."""

MARKER = "nfv"

TESTBED_PARAMETER = "testbed"
"""Parameter, and label, of tests that run once for each label of the testbeds that were given."""


def is_measuring(item: pytest.Item) -> bool:
    """True for a test that uses the testbed."""
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


def _parameters(item: pytest.Item) -> dict[str, object]:
    """The parameters that the author of the test gave it.

    Other plugins parametrize tests, too, by names of their own that begin with an underscore: ``pytest-repeat`` by
    ``__pytest_repeat_step_number``, ``pytest-flakefinder`` by ``__flakefinder_test_it``. Which of several runs of a
    test it was says nothing of what was measured: an SLA, a baseline and a history know no such label.
    """
    callspec = getattr(item, "callspec", None)
    return {name: value for name, value in callspec.params.items() if not name.startswith("_")} if callspec else {}
