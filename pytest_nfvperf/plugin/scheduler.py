"""Deals tests to the workers of pytest-xdist: measuring ones only to workers that hold a testbed.

xdist's own schedulers deal the tests of runs that measure nothing. Ours is its LoadScopeScheduling, where a scope is a
group of tests that belong together, with another choice of who gets which scope, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import execnet
import pytest
from xdist.report import report_collection_diff
from xdist.scheduler import LoadScopeScheduling

from pytest_nfvperf.plugin.controller_channel import ControllerChannel
from pytest_nfvperf.plugin.work_groups import Group, measures, next_group, work_queue

_AHEAD = 2
"""Tests that a worker must have: it begins one only when it knows the next, or that there is none."""

_NOT_STARTED = (execnet.HostNotFound, execnet.RemoteError, EOFError, OSError)


class LateChoice:
    """xdist's own scheduler until a worker says that it collected tests that measure: then ours.

    It has the methods of ``xdist.scheduler.protocol.Scheduling``, of the one that was chosen.
    """

    def __init__(
        self, config: pytest.Config, standard: Any, channel: ControllerChannel, refuse: Callable[[str], None]
    ) -> None:
        self._config, self._channel, self._refuse = config, channel, refuse
        self.chosen: Any = standard

    @property
    def is_ours(self) -> bool:
        """False as long as nothing measures."""
        return isinstance(self.chosen, TestbedScheduling)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.chosen, name)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected its tests, and has reported which of them measure."""
        if self._channel.places and not self.is_ours:
            standard, self.chosen = self.chosen, TestbedScheduling(self._config, self._channel, self._refuse)
            self.chosen.numnodes = standard.numnodes
            for known in standard.nodes:
                self.chosen.add_node(known)
        self.chosen.add_node_collection(node, collection)

    def leave_out(self) -> bool:
        """One worker less will come: the others do not wait for what it would collect.

        Returns:
            False when none of them can run all that is left.
        """
        self.chosen.numnodes -= 1
        if self.chosen.collection_is_completed and self.chosen.nodes:
            self.chosen.schedule()
            return not self.is_ours or bool(self.chosen.go_on_without())
        return True


class TestbedScheduling(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
    """Deals the tests of a run that measures.

    Tests that measure nothing go first, to all workers at once, then functional ones to all that have a rig for them.
    When the last of them has ended, the measuring ones begin: nothing of this run is beside them.

    xdist's class has the state, and the bookkeeping of what is done::

        workqueue               group -> {test: done}            that no worker has
        assigned_work           worker -> group -> {test: done}  in the order in which the worker runs them
        registered_collections  worker -> its tests              empty for one that collected others than the first

    Args:
        config: of the controller.
        channel: knows which worker holds which testbed, and where each test belongs.
        refuse: ends the run by a mistake of the user's.
    """

    __test__ = False
    collection: list[str] | None  # None until the tests are dealt

    def __init__(self, config: pytest.Config, channel: ControllerChannel, refuse: Callable[[str], None]) -> None:
        super().__init__(config)
        self._channel, self._refuse = channel, refuse
        self._first: list[str] | None = None  # tests of the worker that collected first
        self._folders: dict[Any, str] = {}  # in which each worker is
        self._again: set[str] = set()  # groups that lost workers left
        self._lost: dict[str, dict[str, bool]] = {}  # by test that a lost worker ran, not settled yet: its group
        self._left_out = False

    @property
    def collection_is_completed(self) -> bool:
        return self.collection is not None or super().collection_is_completed

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected; one that collected other tests than the first gets none."""
        if self._first is None:
            self._first = list(collection)
        alike = sorted(collection) == sorted(self._first)
        self.registered_collections[node] = list(collection) if alike else []
        if not alike:
            name = node.gateway.id
            text = report_collection_diff(self._first, collection, "the first worker", name)
            text = text or f"{name} collected some tests twice"
            report = pytest.CollectReport(nodeid=name, outcome="failed", longrepr=text, result=[])
            self.config.hook.pytest_collectreport(report=report)

    def schedule(self) -> None:
        """Deal the tests when all have collected; again when a worker that replaces a lost one has."""
        if self.collection is None:
            self.collection = tests = self._first or []
            self.workqueue = work_queue(tests, self._channel.places)
            self._channel.say_adopted(len(tests))
            waiting = [*self._waiting()]
            if any(group.place is not None and group.place.functional for group in waiting):
                self._channel.say_room()
            orphan = next((group for group in waiting if not self._can_run(group)), None)
            if orphan is not None:
                self._refuse(self._channel.why_no_testbed(orphan.place.label if orphan.place is not None else ""))
        self._feed()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        if node in self.assigned_work:
            super().mark_test_complete(node, item_index, duration)

    def mark_test_pending(self, item: str) -> None:
        """Run the test that a lost worker ran once more, before the others of its group."""
        group = self._lost.pop(item)
        group[item] = False
        self._put_back(self._split_scope(item), group)
        self._feed()

    def mark_test_lost(self, item: str) -> None:
        """A test that a lost worker ran is not run again."""
        self._lost.pop(item)
        self._begin_measuring_when_quiet()

    def remove_node(self, node: Any) -> str | None:
        """A worker has ended or was lost: what it had is dealt again.

        Returns:
            The test that it ran; None when it ran none.
        """
        unfinished = self._unfinished(node)
        del self.assigned_work[node]
        if self.collection is None:  # what a lost worker collected does not count
            self.registered_collections.pop(node, None)
        if not unfinished:
            return None
        running = unfinished[0][1]
        lost = next(test for test, done in running.items() if not done)
        running[lost] = True  # until mark_test_pending says otherwise
        self._lost[lost] = running
        for name, group in reversed(unfinished):
            if not all(group.values()):
                self._put_back(name, group)
        self._begin_measuring_when_quiet()
        return lost

    def go_on_without(self) -> bool:
        """No worker comes for what was lost: who waits to measure goes on, and runs it later. False: nobody can."""
        self._left_out = True
        self._begin_measuring_when_quiet()
        return all(map(self._can_run, self._waiting()))

    def _put_back(self, name: str, group: dict[str, bool]) -> None:
        self._again.add(name)
        self.workqueue[name] = group
        self.workqueue.move_to_end(name, last=False)

    def _split_scope(self, nodeid: str) -> str:
        place = self._channel.places.get(nodeid)
        return nodeid if place is None else place.group

    def _waiting(self) -> Iterator[Group]:
        for name, tests in self.workqueue.items():
            left = [test for test, done in tests.items() if not done]
            yield Group(name, self._channel.places.get(name), left, name in self._again)

    def _unfinished(self, node: Any) -> list[tuple[str, dict[str, bool]]]:
        return [(name, tests) for name, tests in self.assigned_work[node].items() if not all(tests.values())]

    def _can_run(self, group: Group) -> bool:
        return any(self._may(node, group) for node in self.assigned_work)

    def _may(self, node: Any, group: Group) -> bool:
        """Whether a worker gets it: of a run that goes on only those that take its tests over, as long as one can."""
        if not self._can(node, group):
            return False
        adopters = {one for test in group.tests for one in self._channel.adopters(test) if self._can(one, group)}
        return not adopters or node in adopters

    def _can(self, node: Any, group: Group) -> bool:
        if node not in self.assigned_work or not self.registered_collections.get(node) or node.shutting_down:
            return False
        if group.place is None or self._channel.holds(node, group.place.label):
            return True
        return not group.measures and self._channel.has_room(node)

    def _reschedule(self, node: Any) -> None:  # noqa: ARG002 - xdist's; what one worker has done may matter to others
        self._feed()

    def _feed(self) -> None:
        """Give every worker enough to go on; one for which nothing is left ends after what it has."""
        for wanted in range(1, _AHEAD + 1):
            for node, groups in self.assigned_work.items():
                collected = self.registered_collections.get(node)
                if collected and not node.shutting_down and self._pending_of(groups) < wanted:
                    self._assign_work_unit(node)
        self._begin_measuring_when_quiet()

    def _assign_work_unit(self, node: Any) -> None:
        taken = {self._folders.get(other, "") for other in self.assigned_work if other is not node}
        folder = self._folders.get(node, "")
        group = next_group((group for group in self._waiting() if self._may(node, group)), folder, taken)
        if group is None:
            node.shutdown()
            return
        self._folders[node] = group.folder or folder
        self.workqueue.move_to_end(group.name, last=False)  # xdist's class assigns the first
        # A worker that has died: xdist is about to say so, and remove_node takes the group back.
        with suppress(OSError):
            self._channel.catch_up(node)
        with suppress(OSError):
            super()._assign_work_unit(node)

    def _begin_measuring_when_quiet(self) -> None:
        """Let measuring tests begin once all others have ended, and those that lost workers ran are settled, too."""
        # What a worker has behind a measuring test runs after it: only the first of each can be running now.
        running = [groups[0][0] for groups in map(self._unfinished, self.assigned_work) if groups]
        running += map(self._split_scope, self._lost)
        places = self._channel.places
        if self.collection is None or not all(measures(places.get(name)) for name in running):
            return
        if self._left_out or all(measures(places.get(name)) for name in self.workqueue):
            self._channel.let_measure(self.assigned_work)


class NotStarted:
    """What xdist asks of a worker that has ended, of one that never ran. ``why``: in a line."""

    def __init__(self, spec: Any, why: str) -> None:
        self.why = why
        self.gateway = SimpleNamespace(id=spec.id, spec=spec)
        self.workeroutput = {"exitstatus": 0, "shouldfail": False, "shouldstop": False}

    def shutdown(self) -> None:
        """It has."""


def outlive_failed_starts(manager: Any, say: Callable[[str], None]) -> None:
    """From now on a worker that does not start is reported, and counts as one that has ended.

    xdist would end the run by an internal error that names no worker. A worker on this machine was killed, so it is
    started once more. Another machine that did not answer would only take the time of those that do.

    Args:
        manager: xdist's ``NodeManager``, before it starts its first worker.
        say: writes a line to the terminal.
    """
    start = manager.setup_node

    def line(error: BaseException) -> str:
        return next(iter(str(error).splitlines()), type(error).__name__)

    def start_or_go_on(spec: Any, putevent: Callable[[tuple[str, dict[str, Any]]], None]) -> Any:
        try:
            return start(spec, putevent)
        except _NOT_STARTED as error:
            why = line(error)
        if spec.popen:
            say(f"{spec.id} died as it started ({why}): it is started once more")
            spec.id = None
            manager.group.allocate_id(spec)
            try:
                return start(spec, putevent)
            except _NOT_STARTED as error:
                why = line(error)
        say(f"no worker can be started on {spec} ({why}): it is left out")
        absent = NotStarted(spec, why)
        putevent(("workerfinished", {"node": absent}))
        return absent

    manager.setup_node = start_or_go_on
