"""A worker of pytest-xdist reports which tests belong together, and what it measured. Every run imports this.

pytest-xdist carries tests and their reports. Everything else goes over a channel of our own, one for each worker. A
message is a tuple ``(word, content)`` of types that execnet carries::

    worker                                                controller (scheduler.py)
      PLACES    node id -> fields of Place                      which tests belong together
      TESTBED   (name, label)                                   the testbed that it holds
      ROOM      number of rigs                                  it holds none; its machine has room for so many
      ADOPTED   fields of AdoptedTests                          tests of an earlier run that it does not run again
      OBSERVED  labels and observations as text   <------->     what was measured, for relations that others judge
      SAY       line                                            for the terminal
                                                  <-------      MEASURE: tests that measure may begin

A message sent here arrives before anything that the worker sends to xdist afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nfvperf.model.display import storable
from pytest_nfvperf.plugin.labels import FUNCTIONAL, TESTBED_PARAMETER, is_measuring, item_labels, subject_labels

if TYPE_CHECKING:
    from pytest_nfvperf.model.sla.rules import Selected
    from pytest_nfvperf.session.run import NfvSession

CHANNEL, WANTED = "nfv_link", "nfv_wanted"
"""In a worker's input: its channel, and the label of the testbed that it shall take."""
TESTBED, ROOM, GROUPS, ADOPTED = "testbed", "room", "places", "adopted"
OBSERVED, SAY, MEASURE = "observed", "say", "measure"
_CHANNEL_KEY = pytest.StashKey["WorkerChannel | None"]()


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """Where a measuring test belongs.

    Attributes:
        group: node id of one of the group's tests. A group runs on one testbed, one test after the other.
        folder: of its suite. A worker stays in a folder while there are tests left in it.
        label: of the testbeds that it is for; "" for all.
        functional: all tests of the group are functional, and the machine can be shared.
    """

    group: str
    folder: str
    label: str = ""
    functional: bool = False


@dataclass(frozen=True, slots=True)
class AdoptedTests:
    """The tests that a resumed run adopts from the earlier one: node ids, in their order.

    Attributes:
        run_dir: of the run.
        tests: adopted tests, which are not measured again.
        ended: tests that ended earlier on this rig. If the SLA changed, some of them cannot be adopted.
        rejudged: adopted tests that the changed SLA judged again.
        other_rigs: evidence files of other rigs than this one, each with the difference.
    """

    run_dir: str
    tests: Sequence[str] = ()
    ended: Sequence[str] = ()
    rejudged: Sequence[str] = ()
    other_rigs: Mapping[str, str] = field(default_factory=dict)

    def lines(self, selected: int) -> Iterator[str]:
        """Text for the user. ``selected``: number of all tests of the run."""
        for file, why in self.other_rigs.items():
            yield f"what {file} has is measured again, since the rig is not the same: {why}"
        yield f"{len(self.tests)} of {selected} tests are taken over from {self.run_dir}"
        remeasured = len(self.ended) - len(self.tests)
        if self.rejudged or remeasured:
            yield (
                f"the SLA has changed: {len(self.rejudged)} of them judged again, {remeasured} others measured again "
                "for it"
            )


def merge_workers(workers: Sequence[AdoptedTests]) -> AdoptedTests:
    """What all workers adopt. Only an evidence file that fits no worker's rig is reported."""
    first = workers[0]

    def each_once(tests: Iterable[Sequence[str]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(test for of_one in tests for test in of_one))

    return AdoptedTests(
        first.run_dir,
        each_once(one.tests for one in workers),
        each_once(one.ended for one in workers),
        each_once(one.rejudged for one in workers),
        {file: why for file, why in first.other_rigs.items() if all(file in one.other_rigs for one in workers)},
    )


def refuse_not_utf8(names: Iterable[str]) -> None:
    """Raise pytest.UsageError for a name that no channel to a worker takes: execnet would raise inside xdist."""
    for name in names:
        if storable(name) != name:
            raise pytest.UsageError(
                f"{storable(name)} is not UTF-8, and pytest-xdist cannot send it to a worker: rename the directory or "
                "file, or leave -n out"
            )


def channel_of(config: pytest.Config) -> WorkerChannel | None:
    """The channel of this worker; None in other processes, or if the controller lacks this plugin."""
    if _CHANNEL_KEY not in config.stash:
        workerinput = getattr(config, "workerinput", {})
        config.stash[_CHANNEL_KEY] = (
            WorkerChannel(workerinput[CHANNEL], workerinput.get(WANTED, "")) if CHANNEL in workerinput else None
        )
    return config.stash[_CHANNEL_KEY]


class WorkerChannel:
    """A worker's end. ``wanted``: label of the testbeds of which the worker shall take one."""

    def __init__(self, channel: Any, wanted: str) -> None:
        self.wanted = wanted
        self._channel = channel
        self._may_measure = threading.Event()
        self._observed: SimpleQueue[str] = SimpleQueue()
        channel.setcallback(self._receive)

    def send(self, word: str, content: Any) -> None:
        """Send the controller one of the messages that the head of this file lists."""
        self._channel.send((word, content))

    def observed_elsewhere(self) -> Iterator[str]:
        """What other workers reported since the last call."""
        while True:
            try:
                yield self._observed.get_nowait()
            except Empty:
                return

    def wait_for_quiet(self) -> None:
        """Wait for the controller's word that no other test runs during a measurement."""
        self._may_measure.wait()

    def _receive(self, message: tuple[str, Any]) -> None:
        """Handle one message. This runs in execnet's thread, so it only stores."""
        word, content = message
        if word == MEASURE:
            self._may_measure.set()
        elif word == OBSERVED:
            self._observed.put(content)


SLA_FIXTURE = "sla"
"""A test without this fixture is not judged by an SLA."""


def report_groups(config: pytest.Config, items: Sequence[pytest.Item], session: NfvSession) -> None:
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
    group_infos = groups_by_test([item for item in items if is_measuring(item)], session)
    channel.send(GROUPS, {test: astuple(info) for test, info in group_infos.items()})


def groups_by_test(items: Sequence[pytest.Item], session: NfvSession) -> dict[str, GroupInfo]:
    """The group of each test. Tests that an SLA relation or a mark xdist_group joins form a group."""
    from pytest_nfvperf.model.sla.rules import Groups, join_related  # noqa: PLC0415 - only where something is measured

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
        item.nodeid: GroupInfo(
            items[groups.of(number)].nodeid, selected[number].folder, labels[number], groups.of(number) not in measuring
        )
        for number, item in enumerate(items)
    }


def selected_test(item: pytest.Item, session: NfvSession, testbed_labels: Mapping[str, str]) -> Selected:
    from pytest_nfvperf.model.sla.rules import Selected  # noqa: PLC0415 - as above

    if _is_functional(item, session) and SLA_FIXTURE not in getattr(item, "fixturenames", ()):
        return Selected(str(item.path.parent), (), ())  # no rule judges it, although one may select its labels
    subjects = tuple({**testbed_labels, **labels} for labels in subject_labels(item, session.profile.name))
    return Selected(str(item.path.parent), subjects, session.slas.rules_for(item.path))


def wait_for_turn(item: pytest.Item, session: NfvSession) -> None:
    """Before a measuring test wait until all other tests have ended. Functional tests share the machine."""
    session.functional = _is_functional(item, session)
    channel = channel_of(item.config)
    if channel is not None and is_measuring(item) and not session.functional:
        channel.wait_for_quiet()


def _is_functional(item: pytest.Item, session: NfvSession) -> bool:
    return item.get_closest_marker(FUNCTIONAL) is not None and session.can_share
