"""What a worker of pytest-xdist does for its run: it tells where tests belong, and shares what it measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_nfvperf.model.sla.rules import Groups, Selected, join_related
from pytest_nfvperf.plugin.labels import FUNCTIONAL, TESTBED_PARAMETER, is_measuring, item_labels, subject_labels
from pytest_nfvperf.plugin.work_groups import Place
from pytest_nfvperf.plugin.worker_channel import WorkerChannel, channel_of, refuse_not_utf8
from pytest_nfvperf.session.run import NfvSession

JUDGE = "sla"
"""Fixture of tests that an SLA judges."""


def refuse_unsendable(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Raise pytest.UsageError in a worker whose tests have names that xdist cannot send."""
    if hasattr(config, "workerinput"):
        refuse_not_utf8(item.nodeid for item in items)


def tell_places(config: pytest.Config, items: Sequence[pytest.Item], session: NfvSession) -> None:
    """Tell the controller, before xdist tells it what was collected, which tests belong together."""
    channel = channel_of(config)
    if channel is None:
        return
    config.option.loadgroup = False  # else xdist puts the group into the test's id; our scheduler knows it without
    measuring = [item for item in items if is_measuring(item)]
    channel.report_places(places_of(measuring, session))


def places_of(items: Sequence[pytest.Item], session: NfvSession) -> dict[str, Place]:
    """Where each test belongs: what a relation of its SLA compares it with, or its mark xdist_group, is its group."""
    own = session.backend.labels()
    groups = Groups(len(items))
    selected = [selected_test(item, session, own) for item in items]
    join_related(selected, groups)
    labels = [item_labels(item, session.profile.name).get(TESTBED_PARAMETER, "") for item in items]
    _join_marked(items, labels, groups)
    measuring = {groups.of(number) for number, item in enumerate(items) if not _is_functional(item, session)}
    return {
        item.nodeid: Place(
            items[groups.of(number)].nodeid, selected[number].folder, labels[number], groups.of(number) not in measuring
        )
        for number, item in enumerate(items)
    }


def selected_test(item: pytest.Item, session: NfvSession, own: Mapping[str, str]) -> Selected:
    """What is known of a test before it runs; ``own``: the testbed's labels."""
    if _is_functional(item, session) and JUDGE not in getattr(item, "fixturenames", ()):
        return Selected(str(item.path.parent), (), ())  # no rule judges it, although one may select its labels
    subjects = tuple({**own, **labels} for labels in subject_labels(item, session.profile.name))
    return Selected(str(item.path.parent), subjects, session.slas.rules_for(item.path))


def _join_marked(items: Sequence[pytest.Item], labels: Sequence[str], groups: Groups) -> None:
    """The mark of xdist that says which tests belong together, on testbeds of one label."""
    first: dict[tuple[str, str], int] = {}
    for number, item in enumerate(items):
        for mark in item.iter_markers("xdist_group"):
            name = str(mark.args[0] if mark.args else mark.kwargs.get("name", "default"))
            groups.join(first.setdefault((name, labels[number]), number), number)


def take_turn(item: pytest.Item, session: NfvSession) -> None:
    """Before a test: a functional one shares the machine; one that measures lets those end that measure nothing."""
    session.machine.functional = _is_functional(item, session)
    channel = channel_of(item.config)
    if channel is not None and is_measuring(item) and not session.machine.functional:
        channel.wait_for_quiet()


def _is_functional(item: pytest.Item, session: NfvSession) -> bool:
    """As its mark says, where the machine can be shared."""
    return item.get_closest_marker(FUNCTIONAL) is not None and session.machine.can_share


def run_dir_of_worker(config: pytest.Config, run_dir: Path) -> Path | None:
    """The run's directory, made now, in a worker; None in a process that has no siblings."""
    if not hasattr(config, "workerinput"):
        return None
    run_dir.mkdir(parents=True, exist_ok=True)
    return run_dir


def share(session: NfvSession, channel: WorkerChannel) -> None:
    """Tell the others what this worker measures, and judge relations by what they measured."""
    session.measured.tell = channel.report_observed
    session.measured.heard = channel.observed_elsewhere
