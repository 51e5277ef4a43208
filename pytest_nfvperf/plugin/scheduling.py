"""Deals tests to the workers of pytest-xdist: measuring ones only to workers that hold a testbed.

Tests that measure nothing go first, to all workers at once, then functional ones to all that have a rig for them. When
the last of them has ended, the measuring ones begin: nothing of this run is beside them. xdist's own schedulers deal
the tests of runs that measure nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from xdist.report import report_collection_diff
from xdist.workermanage import parse_tx_spec_config

from pytest_nfvperf.plugin.dealing import Group, Waiting, groups_of
from pytest_nfvperf.plugin.hub import Hub

_AHEAD = 2
"""Tests that a worker must have: it begins one only when it knows the next, or that there is none."""


@dataclass(slots=True)
class _Worker:
    """``groups``: what it has still to run, the running test first. ``numbers``: of tests, as it collected them."""

    node: Any
    collected: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    folder: str = ""

    @property
    def tests(self) -> list[str]:
        return [test for group in self.groups for test in group.tests]

    def done(self, test: str) -> None:
        for group in self.groups:
            if test in group.tests:
                group.tests.remove(test)
        self.groups = [group for group in self.groups if group.tests]


class LateChoice:
    """xdist's own scheduler until a worker says that it collected tests that measure: then ours.

    It has the methods of ``xdist.scheduler.protocol.Scheduling``, of the one that was chosen.
    """

    def __init__(self, config: pytest.Config, standard: Any, hub: Hub, refuse: Callable[[str], None]) -> None:
        self._config, self._hub, self._refuse = config, hub, refuse
        self.chosen: Any = standard

    @property
    def is_ours(self) -> bool:
        """False as long as nothing measures."""
        return isinstance(self.chosen, TestbedScheduling)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.chosen, name)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected its tests, and has told which of them measure."""
        if self._hub.places and not self.is_ours:
            standard, self.chosen = self.chosen, TestbedScheduling(self._config, self._hub, self._refuse)
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


class TestbedScheduling:
    """Deals the tests of a run that measures.

    Args:
        config: of the controller.
        hub: knows which worker holds which testbed, and where each test belongs.
        refuse: ends the run by a mistake of the user's.

    Attributes:
        numnodes: how many workers are to collect, before the first test is dealt; xdist's schedulers call it so.
    """

    __test__ = False

    def __init__(self, config: pytest.Config, hub: Hub, refuse: Callable[[str], None]) -> None:
        self._config, self._hub, self._refuse = config, hub, refuse
        self.numnodes = len(parse_tx_spec_config(config))
        self._workers: dict[Any, _Worker] = {}
        self._collection: list[str] | None = None
        self._waiting: Waiting | None = None
        self._lost: dict[str, Group] = {}
        self._left_out = False

    @property
    def nodes(self) -> list[Any]:
        """Workers that are there."""
        return list(self._workers)

    @property
    def collection_is_completed(self) -> bool:
        """True once as many workers have collected as were started; what a lost one collected does not count."""
        return self._waiting is not None or sum(one.collected for one in self._workers.values()) >= self.numnodes

    @property
    def tests_finished(self) -> bool:
        """True when no worker has more to do than the test that it runs."""
        if not self.collection_is_completed or self._waiting:
            return False
        return all(len(worker.tests) < _AHEAD for worker in self._workers.values())

    @property
    def has_pending(self) -> bool:
        """True while there are tests to run."""
        return bool(self._waiting) or any(worker.tests for worker in self._workers.values())

    def add_node(self, node: Any) -> None:
        """A worker has started."""
        self._workers[node] = _Worker(node)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """A worker has collected; one that collected other tests than the first gets none."""
        self._workers[node].collected = True
        if self._collection is None:
            self._collection = list(collection)
        elif sorted(collection) != sorted(self._collection):
            self._tell_difference(node, collection)
            return
        self._workers[node].numbers = {test: number for number, test in enumerate(collection)}

    def _tell_difference(self, node: Any, collection: Sequence[str]) -> None:
        name = node.gateway.id
        text = report_collection_diff(self._collection, collection, "the first worker", name)
        text = text or f"{name} collected some tests twice"
        report = pytest.CollectReport(nodeid=name, outcome="failed", longrepr=text, result=[])
        self._config.hook.pytest_collectreport(report=report)

    def schedule(self) -> None:
        """Deal the tests when all have collected; again when a worker that replaces a lost one has."""
        if self._waiting is None:
            self._waiting = Waiting(groups_of(self._collection or [], self._hub.places))
            self._hub.tell_taken(len(self._collection or []))
            if not all(group.plain or group.measures for group in self._waiting):
                self._hub.tell_room()
            orphan = next((group for group in self._waiting if not any(map(self._may(group), self._workers))), None)
            if orphan is not None:
                self._refuse(self._hub.why_no_testbed(orphan.place.label))
        self._feed()

    def _may(self, group: Group) -> Callable[[Any], bool]:
        """Which worker can run it; of a run that goes on only those that take its tests over, as long as one does."""
        takers = {node for test in group.tests for node in self._hub.takers(test) if self._can(node, group)}
        return lambda node: self._can(node, group) and (not takers or node in takers)

    def _can(self, node: Any, group: Group) -> bool:
        worker = self._workers.get(node)
        if worker is None or not worker.numbers or node.shutting_down:
            return False
        if group.plain or self._hub.holds(node, group.place.label):
            return True
        return not group.measures and self._hub.has_room(node)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:  # noqa: ARG002 - xdist's
        """A test has ended."""
        if self._collection is not None and node in self._workers:
            worker = self._workers[node]
            worker.done(next(test for test, number in worker.numbers.items() if number == item_index))
            self._feed()

    def mark_test_pending(self, item: str) -> None:
        """Run the test that a lost worker ran once more, before the others of its group."""
        group = self._lost.pop(item)
        group.tests.insert(0, item)
        if self._waiting is not None:
            self._waiting.put_back(group)
        self._feed()

    def mark_test_lost(self, item: str) -> None:
        """A test that a lost worker ran is not run again."""
        self._lost.pop(item)
        self._quiet()

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Take tests back: xdist calls it only for schedulers that ask for it."""
        raise NotImplementedError

    def remove_node(self, node: Any) -> str | None:
        """A worker has ended or was lost: what it had is dealt again.

        Returns:
            The test that it ran; None when it ran none.
        """
        worker = self._workers.pop(node)
        if not worker.groups or self._waiting is None:
            return None
        first = worker.groups[0]
        lost = first.tests.pop(0)
        self._lost[lost] = first
        for group in reversed(worker.groups):
            if group.tests:
                self._waiting.put_back(group)
        self._quiet()
        return lost

    def _feed(self) -> None:
        """Give every worker enough to go on; one for which nothing is left ends after what it has."""
        for wanted in range(1, _AHEAD + 1):
            for worker in self._workers.values():
                if worker.numbers and not worker.node.shutting_down and len(worker.tests) < wanted:
                    self._deal(worker)
        self._quiet()

    def _deal(self, worker: _Worker) -> None:
        taken = {other.folder for other in self._workers.values() if other is not worker}
        waiting = self._waiting
        group = waiting.take(worker.folder, taken, lambda one: self._may(one)(worker.node)) if waiting else None
        if group is None:
            worker.node.shutdown()
            return
        worker.folder = group.place.folder or worker.folder
        worker.groups.append(group)
        try:
            self._hub.catch_up(worker.node)
            worker.node.send_runtest_some([worker.numbers[test] for test in group.tests])
        except OSError:
            return  # it has died: xdist is about to say so, and remove_node takes the group back

    def _quiet(self) -> None:
        """Let measuring tests begin once all others have ended, and those that lost workers ran are settled, too."""
        # What a worker has behind a measuring test runs after it: only the first of each can be running now.
        running = [worker.groups[0] for worker in self._workers.values() if worker.groups] + [*self._lost.values()]
        if self._waiting is None or not all(group.measures for group in running):
            return
        if self._waiting.all_measure or self._left_out:
            self._hub.let_measure(self._workers)

    def go_on_without(self) -> bool:
        """No worker comes for what was lost: who waits to measure goes on, and runs it later. False: nobody can."""
        self._left_out = True
        self._quiet()
        return all(any(map(self._may(group), self._workers)) for group in self._waiting or ())
