"""A worker of pytest-xdist reports which tests belong together, and what it measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple

import pytest

from pytest_nfvperf.model.sla.rules import Groups, Selected, join_related
from pytest_nfvperf.plugin.labels import FUNCTIONAL, TESTBED_PARAMETER, is_measuring, item_labels, subject_labels
from pytest_nfvperf.plugin.worker_channel import PLACES, Place, channel_of, refuse_not_utf8
from pytest_nfvperf.session.run import NfvSession

SLA_FIXTURE = "sla"
"""A test without this fixture is not judged by an SLA."""


def report_places(config: pytest.Config, items: Sequence[pytest.Item], session: NfvSession) -> None:
    """In a worker, report which tests belong together, before xdist reports the collected tests.

    Raises:
        pytest.UsageError: xdist cannot send the name of a test.
    """
    if hasattr(config, "workerinput"):
        refuse_not_utf8(item.nodeid for item in items)
    channel = channel_of(config)
    if channel is None:
        return
    config.option.loadgroup = False  # else xdist puts the group into the test's id, which our scheduler does not need
    places = places_by_test([item for item in items if is_measuring(item)], session)
    channel.send(PLACES, {test: astuple(place) for test, place in places.items()})


def places_by_test(items: Sequence[pytest.Item], session: NfvSession) -> dict[str, Place]:
    """The place of each test. Tests that an SLA relation or a mark xdist_group joins form a group."""
    testbed_labels = session.backend.labels()
    groups = Groups(len(items))
    selected = [selected_test(item, session, testbed_labels) for item in items]
    join_related(selected, groups)
    labels = [item_labels(item, session.profile.name).get(TESTBED_PARAMETER, "") for item in items]
    # Join tests with the same mark xdist_group, for each testbed label.
    first: dict[tuple[str, str], int] = {}
    for number, item in enumerate(items):
        for mark in item.iter_markers("xdist_group"):
            name = str(mark.args[0] if mark.args else mark.kwargs.get("name", "default"))
            groups.join(first.setdefault((name, labels[number]), number), number)
    # One test that measures makes its whole group measure.
    measuring = {groups.of(number) for number, item in enumerate(items) if not _is_functional(item, session)}
    return {
        item.nodeid: Place(
            items[groups.of(number)].nodeid, selected[number].folder, labels[number], groups.of(number) not in measuring
        )
        for number, item in enumerate(items)
    }


def selected_test(item: pytest.Item, session: NfvSession, testbed_labels: Mapping[str, str]) -> Selected:
    if _is_functional(item, session) and SLA_FIXTURE not in getattr(item, "fixturenames", ()):
        return Selected(str(item.path.parent), (), ())  # no rule judges it, although one may select its labels
    subjects = tuple({**testbed_labels, **labels} for labels in subject_labels(item, session.profile.name))
    return Selected(str(item.path.parent), subjects, session.slas.rules_for(item.path))


def wait_for_turn(item: pytest.Item, session: NfvSession) -> None:
    """Before a measuring test wait until all other tests have ended. Functional tests share the machine."""
    session.machine.functional = _is_functional(item, session)
    channel = channel_of(item.config)
    if channel is not None and is_measuring(item) and not session.machine.functional:
        channel.wait_for_quiet()


def _is_functional(item: pytest.Item, session: NfvSession) -> bool:
    return item.get_closest_marker(FUNCTIONAL) is not None and session.machine.can_share
