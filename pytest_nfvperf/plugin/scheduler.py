"""The controller of pytest-xdist: its hooks, and how it distributes tests to workers that hold a testbed.

The plugin registers the hooks in runs with workers, which share the controller's run directory.

xdist's own schedulers distribute the tests of runs that measure nothing. Ours is its LoadScopeScheduling with groups of
tests that belong together as scopes, and with another choice of which worker gets which scope, and when.

The controller has a channel to each worker, whose messages are in worker.py. What arrives is stored here::

    places       node id -> Place               of the first worker that reports them: all collect the same tests
    _workers     xdist's node -> _Worker        wanted, testbed, room; how many of ``_observed`` it was sent
    _observed    [(node, text), ...]            what was measured, in the order of arrival; catch_up() passes it on
    _adopted     node -> AdoptedTests
    _adopters    test -> nodes                  workers that adopt its earlier result
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import execnet
import pytest
from xdist.report import report_collection_diff
from xdist.scheduler import LoadScopeScheduling

from pytest_nfvperf.plugin import run_end
from pytest_nfvperf.plugin.output import say
from pytest_nfvperf.plugin.run_state import MISTAKE, OPTIONS_KEY, REMOTE_WORKER, RUN_DIR, RUN_DIR_KEY, run_directory
from pytest_nfvperf.plugin.worker import (
    ADOPTED,
    CHANNEL,
    GROUPS,
    MEASURE,
    OBSERVED,
    ROOM,
    SAY,
    TESTBED,
    WANTED,
    AdoptedTests,
    GroupInfo,
    merge_workers,
    refuse_not_utf8,
)

LOST = "nfv_lost"
"""Attribute of a test's report: its worker died, and the test is repeated."""
_AHEAD = 2
"""Tests that a worker must have: it begins one only when it knows the next one, or that there is none."""
_NOT_STARTED = (execnet.HostNotFound, execnet.RemoteError, EOFError, OSError)


@dataclass(slots=True)
class _Worker:
    """What the controller knows of a worker.

    Attributes:
        wanted: label of the testbed that it shall take.
        testbed: name and label of the testbed that it holds.
        room: for how many rigs its machine has memory, if it holds no testbed.
        sent: how many of the observations it was sent.
        may_measure: it was sent MEASURE.
        gone: it has ended, or died.
    """

    channel: Any
    wanted: str
    testbed: tuple[str, str] | None = None
    room: int = 0
    sent: int = 0
    may_measure: bool = False
    gone: bool = False


class ControllerChannel:
    """The channels of one run.

    Args:
        say: writes a line to the terminal.
        labels: of the testbeds; one, "", where they have none.
    """

    def __init__(self, say: Callable[[str], None], labels: tuple[str, ...]) -> None:
        self.group_infos: dict[str, GroupInfo] = {}
        self._say, self._labels = say, labels
        self._workers: dict[Any, _Worker] = {}
        self._observed: list[tuple[Any, str]] = []
        self._adopted: dict[Any, AdoptedTests] = {}
        self._adopters: dict[str, set[Any]] = {}

    def open(self, node: Any) -> None:
        """Make the channel of a worker that is about to start. It shall take the testbed label with fewest workers."""
        live = Counter(worker.wanted for worker in self._workers.values() if not worker.gone)
        wanted = min(self._labels, key=lambda label: live[label])
        channel = node.gateway.newchannel()
        self._workers[node] = _Worker(channel, wanted)
        node.workerinput[CHANNEL] = channel
        node.workerinput[WANTED] = wanted
        channel.setcallback(partial(self._receive, node))

    def close(self, node: Any) -> None:
        """Note that a worker ended. Only the name is known of one that died as it started."""
        for started, worker in self._workers.items():
            if started.gateway.id == node.gateway.id:
                worker.gone = True

    def holds(self, node: Any, label: str) -> bool:
        """Whether a worker holds a testbed of this label ("": of any)."""
        worker = self._workers.get(node)
        return worker is not None and worker.testbed is not None and label in {"", worker.testbed[1]}

    def has_room(self, node: Any) -> bool:
        """Whether a worker without a testbed may run functional tests on a rig of its own."""
        others, rigs = self._without_testbed()
        return self._workers.get(node) in others[: max(0, rigs - 1)]  # one rig is that of the worker with the testbed

    def _without_testbed(self) -> tuple[list[_Worker], int]:
        """The running workers without a testbed, and for how many rigs the machine has room."""
        others = [worker for worker in self._workers.values() if worker.room and not worker.gone]
        # The first report counts, which is the largest: later rigs of this run take room themselves.
        return others, max((worker.room for worker in self._workers.values()), default=0)

    def say_room(self) -> None:
        others, rigs = self._without_testbed()
        if len(others) >= rigs > 0:
            self._say(
                f"functional tests run on {rigs} of {len(others) + 1} workers at once: the free hugepages have room "
                f"for {rigs} private OVS with a generator each (nfvperf doctor says how to get more)"
            )

    def adopters(self, test: str) -> Collection[Any]:
        """Workers that adopt the earlier result of a test: it was measured on their testbed."""
        return self._adopters.get(test, ())

    def say_adopted(self, selected: int) -> None:
        """Report what the workers adopt. ``selected``: number of all tests."""
        for line in merge_workers([*self._adopted.values()]).lines(selected) if self._adopted else ():
            self._say(line)

    def why_no_testbed(self, label: str) -> str:
        kind = f" with label '{label}'" if label else ""
        return (
            f"no worker holds a testbed{kind}: {len(self._workers)} workers were started; "
            "give each label a worker of its own (-n), and a testbed that no other run uses"
        )

    def catch_up(self, node: Any) -> None:
        """Send a worker what others measured, before it gets tests. OSError when the worker has died."""
        worker = self._workers.get(node)
        if worker is None:
            return
        for sender, text in self._observed[worker.sent :]:
            if sender is not node:
                worker.channel.send((OBSERVED, text))
        worker.sent = len(self._observed)

    def let_measure(self, nodes: Iterable[Any]) -> None:
        """Send each worker once that its measuring tests may begin."""
        for node in nodes:
            worker = self._workers.get(node)
            if worker is not None and not worker.may_measure:
                worker.may_measure = True
                with suppress(OSError):  # the worker has died: xdist is about to report it
                    worker.channel.send((MEASURE, None))

    def _receive(self, node: Any, message: tuple[str, Any]) -> None:
        """Handle one message. This runs in execnet's thread, so it only stores."""
        word, content = message
        if word == TESTBED:
            self._workers[node].testbed = None if content is None else (content[0], content[1])
        elif word == ROOM:
            self._workers[node].room = content
        elif word == GROUPS:
            self.group_infos = self.group_infos or {test: GroupInfo(*info) for test, info in content.items()}
        elif word == OBSERVED:
            self._observed.append((node, content))
        elif word == SAY:
            self._say(f"{node.gateway.id}: {content}")
        elif word == ADOPTED:
            self._adopted[node] = adopted = AdoptedTests(**content)
            for test in adopted.tests:
                self._adopters.setdefault(test, set()).add(node)


@dataclass(frozen=True, slots=True)
class Group:
    """Tests of one group that still have to run, in their order.

    Attributes:
        name: of the group. A test that needs no testbed is a group by itself.
        info: None for such a test.
        tests: those that are left.
        again: a lost worker left them.
    """

    name: str
    info: GroupInfo | None
    tests: Sequence[str]
    again: bool = False

    @property
    def measures(self) -> bool:
        return measures(self.info)

    @property
    def folder(self) -> str:
        return self.info.folder if self.info is not None else ""


def measures(info: GroupInfo | None) -> bool:
    """Whether tests of this group must have the machine to themselves."""
    return info is not None and not info.functional


def work_queue(tests: Sequence[str], group_infos: dict[str, GroupInfo]) -> OrderedDict[str, dict[str, bool]]:
    """Tests by group, each not done yet, as xdist's LoadScopeScheduling stores them.

    Tests that need no testbed come first, then functional groups, then those that measure. Apart from that the order
    is that of the first test of each group.
    """
    units: dict[str, dict[str, bool]] = {}
    for test in tests:
        group = group_infos[test].group if test in group_infos else test
        units.setdefault(group, {})[test] = False
    order = sorted(units, key=lambda group: (measures(group_infos.get(group)), group in group_infos))
    return OrderedDict((group, units[group]) for group in order)


def next_group(groups: Iterable[Group], folder: str, folders_in_use: Collection[str]) -> Group | None:
    """The group that a worker gets next; None when nothing is left for it.

    Groups of lost workers and groups that measure nothing come first. Then a worker stays in its own folder, then goes
    to a folder without a worker, then helps in the folder with most tests left.

    Args:
        groups: groups that wait, and that the worker can run.
        folder: in which the worker is; "" for none.
        folders_in_use: folders in which other workers are.
    """
    measuring: list[Group] = []
    for group in groups:
        if group.again or not group.measures:
            return group
        measuring.append(group)
    own = next((group for group in measuring if group.folder == folder), None)
    preferred = own or next((group for group in measuring if group.folder not in folders_in_use), None)
    if preferred is not None or not measuring:
        return preferred
    left = Counter[str]()
    for group in measuring:
        left[group.folder] += len(group.tests)
    longest = left.most_common(1)[0][0]
    # The worker of that folder goes through it from the front, so help from the end.
    return next(group for group in reversed(measuring) if group.folder == longest)


class DeferredScheduler:
    """xdist's own scheduler until a worker reports tests that measure, then ours.

    It has the methods of ``xdist.scheduler.protocol.Scheduling``, which the chosen scheduler implements.
    """

    def __init__(
        self, config: pytest.Config, standard: Any, channel: ControllerChannel, refuse: Callable[[str], None]
    ) -> None:
        self._config, self._channel, self._refuse = config, channel, refuse
        self.chosen: Any = standard

    @property
    def is_ours(self) -> bool:
        return isinstance(self.chosen, TestbedScheduling)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.chosen, name)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Note the tests of a worker, which has reported by now which of them measure."""
        if self._channel.group_infos and not self.is_ours:
            standard, self.chosen = self.chosen, TestbedScheduling(self._config, self._channel, self._refuse)
            self.chosen.numnodes = standard.numnodes
            for known in standard.nodes:
                self.chosen.add_node(known)
        self.chosen.add_node_collection(node, collection)


class TestbedScheduling(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
    """Distributes the tests of a run that measures.

    Tests that measure nothing run first, on all workers at once, then functional tests on all workers with a rig for
    them. Measuring tests begin when the last of them has ended, so that nothing else of this run runs meanwhile.

    xdist's class has the state, and keeps track of what is done::

        workqueue               group -> {test: done}            groups that no worker has
        assigned_work           worker -> group -> {test: done}  in the order in which the worker runs them
        registered_collections  worker -> its tests              empty for one whose tests differ from the first one's

    ``refuse`` ends the run by a mistake of the user's.
    """

    __test__ = False
    collection: list[str] | None  # None until the tests are distributed

    def __init__(self, config: pytest.Config, channel: ControllerChannel, refuse: Callable[[str], None]) -> None:
        super().__init__(config)
        self._channel, self._refuse = channel, refuse
        self._first: list[str] | None = None  # tests of the worker that collected first
        self._folders: dict[Any, str] = {}  # in which each worker is
        self._again: set[str] = set()  # groups that lost workers left
        self._lost: dict[str, dict[str, bool]] = {}  # by test that a lost worker ran, not settled yet: its group

    @property
    def collection_is_completed(self) -> bool:
        return self.collection is not None or super().collection_is_completed

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Note the tests of a worker. One whose tests differ from the first worker's gets none."""
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
        """Distribute the tests when all workers have collected, and again when a replacement has."""
        if self.collection is None:
            self.collection = tests = self._first or []
            self.workqueue = work_queue(tests, self._channel.group_infos)
            self._channel.say_adopted(len(tests))
            waiting = [*self._waiting()]
            if any(group.info is not None and group.info.functional for group in waiting):
                self._channel.say_room()
            orphan = next(
                (group for group in waiting if not any(self._may_get(node, group) for node in self.assigned_work)), None
            )
            if orphan is not None:
                self._refuse(self._channel.why_no_testbed(orphan.info.label if orphan.info is not None else ""))
        self._feed()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        if node in self.assigned_work:
            super().mark_test_complete(node, item_index, duration)

    def mark_test_pending(self, item: str) -> None:
        """Repeat the test of a lost worker, before the others of its group."""
        group = self._lost.pop(item)
        group[item] = False
        self._put_back(self._split_scope(item), group)
        self._feed()

    def mark_test_lost(self, item: str) -> None:
        """Do not repeat the test of a lost worker."""
        self._lost.pop(item)
        self._begin_measuring_when_quiet()

    def remove_node(self, node: Any) -> str | None:
        """Distribute again what a worker had that has ended or was lost. Returns the test that it ran, if any."""
        unfinished = self._unfinished(node)
        del self.assigned_work[node]
        if self.collection is None:  # the collection of a lost worker does not count
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

    def _put_back(self, name: str, group: dict[str, bool]) -> None:
        self._again.add(name)
        self.workqueue[name] = group
        self.workqueue.move_to_end(name, last=False)

    def _split_scope(self, nodeid: str) -> str:
        info = self._channel.group_infos.get(nodeid)
        return nodeid if info is None else info.group

    def _waiting(self) -> Iterator[Group]:
        for name, tests in self.workqueue.items():
            left = [test for test, done in tests.items() if not done]
            yield Group(name, self._channel.group_infos.get(name), left, name in self._again)

    def _unfinished(self, node: Any) -> list[tuple[str, dict[str, bool]]]:
        return [(name, tests) for name, tests in self.assigned_work[node].items() if not all(tests.values())]

    def _may_get(self, node: Any, group: Group) -> bool:
        """Whether a worker may get a group. Workers that adopt its earlier results come first, while one can run it."""
        if not self._could_run(node, group):
            return False
        adopters = {one for test in group.tests for one in self._channel.adopters(test) if self._could_run(one, group)}
        return not adopters or node in adopters

    def _could_run(self, node: Any, group: Group) -> bool:
        if node not in self.assigned_work or not self.registered_collections.get(node) or node.shutting_down:
            return False
        if group.info is None or self._channel.holds(node, group.info.label):
            return True
        return not group.measures and self._channel.has_room(node)

    def _reschedule(self, node: Any) -> None:  # noqa: ARG002 - xdist's signature; what one has done may matter to others
        self._feed()

    def _feed(self) -> None:
        """Give every worker its next tests. A worker for which nothing is left ends after those it has."""
        for wanted in range(1, _AHEAD + 1):
            for node, groups in self.assigned_work.items():
                collected = self.registered_collections.get(node)
                if collected and not node.shutting_down and self._pending_of(groups) < wanted:
                    self._assign_work_unit(node)
        self._begin_measuring_when_quiet()

    def _assign_work_unit(self, node: Any) -> None:
        folders_in_use = {self._folders.get(other, "") for other in self.assigned_work if other is not node}
        folder = self._folders.get(node, "")
        group = next_group((group for group in self._waiting() if self._may_get(node, group)), folder, folders_in_use)
        if group is None:
            node.shutdown()
            return
        self._folders[node] = group.folder or folder
        self.workqueue.move_to_end(group.name, last=False)  # xdist's class assigns the first
        # The worker may have died: then xdist is about to call remove_node, which takes the group back.
        with suppress(OSError):
            self._channel.catch_up(node)
        with suppress(OSError):
            super()._assign_work_unit(node)

    def _begin_measuring_when_quiet(self) -> None:
        """Let measuring tests begin once all others have ended, including those that lost workers ran."""
        # A worker runs its groups in order: only the first unfinished one of each can be running now.
        running = [groups[0][0] for groups in map(self._unfinished, self.assigned_work) if groups]
        running += map(self._split_scope, self._lost)
        group_infos = self._channel.group_infos
        if self.collection is None or not all(measures(group_infos.get(name)) for name in running):
            return
        if all(measures(group_infos.get(name)) for name in self.workqueue):
            self._channel.let_measure(self.assigned_work)


def tolerate_failed_starts(manager: Any, say: Callable[[str], None]) -> None:
    """From now on start a worker once more that was killed as it started.

    xdist would end the run by an internal error that names no worker.

    ``manager``: xdist's ``NodeManager``, before it starts its first worker.
    """
    start = manager.setup_node

    def start_twice(spec: Any, putevent: Callable[[tuple[str, dict[str, Any]]], None]) -> Any:
        try:
            return start(spec, putevent)
        except _NOT_STARTED as error:
            say(f"{spec.id} died as it started ({_first_line(error)}): it is started once more")
        spec.id = None
        manager.group.allocate_id(spec)
        try:
            return start(spec, putevent)
        except _NOT_STARTED as error:
            from pytest_nfvperf.model.evidence.conclusion import RunResult  # noqa: PLC0415 - only to end the run

            reason = f"A worker cannot be started ({_first_line(error)})"
            pytest.exit(reason, returncode=RunResult.BROKEN.exit_status)

    manager.setup_node = start_twice


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


class XdistHooks:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._nodes: list[Any] = []
        self._channel: ControllerChannel | None = None
        self._lost: dict[str, str] = {}

    @pytest.hookimpl
    def pytest_xdist_setupnodes(self, config: pytest.Config) -> None:
        """Prepare for worker starts that fail."""
        refuse_not_utf8([*config.args, str(config.rootpath), *map(str, config.invocation_params.args)])
        dsession = config.pluginmanager.get_plugin("dsession")
        if dsession is None or config.getoption("dist") == "each":
            return  # every worker runs every test: nothing is distributed
        say_line, options = partial(say, config), config.stash[OPTIONS_KEY]
        self._channel = ControllerChannel(say_line, options.labels)
        tolerate_failed_starts(dsession.nodemanager, say_line)

    @pytest.hookimpl
    def pytest_testnodeready(self, node: Any) -> None:
        self._nodes.append(node)

    @pytest.hookimpl
    def pytest_runtest_logstart(self) -> None:
        # The directory exists once a test measures. Then signals to the controller are passed on to the workers.
        run_dir = self._config.stash.get(RUN_DIR_KEY, None)
        if self._nodes and run_dir is not None and run_dir.is_dir():
            run_end.watch_workers(self._config, self._local_pids)

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any) -> None:
        """End the run if a user's mistake ended the worker."""
        if self._channel is not None:
            self._channel.close(node)
        output = getattr(node, "workeroutput", None)  # a worker that died left none
        mistake = output.get(MISTAKE) if output else None
        if mistake is not None:
            self._refuse(mistake)

    def _refuse(self, mistake: str) -> NoReturn:
        from pytest_nfvperf.plugin.run_result import refuse  # noqa: PLC0415 - only for a run that is refused

        error = pytest.UsageError(mistake)
        refuse(self._config, [], error)
        raise error

    def _local_pids(self) -> list[int]:
        """Process ids of the running workers on this machine, which execnet started as children."""
        started = [getattr(node.gateway._io, "popen", None) for node in self._nodes if node.gateway.spec.popen]
        return [process.pid for process in started if process is not None and process.poll() is None]

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """Send a new worker the directory for results, and open the channel to it."""
        spec = node.gateway.spec
        options = node.config.stash[OPTIONS_KEY]
        run_dir = run_directory(node.config, options)
        node.workerinput[RUN_DIR] = str(run_dir)
        node.workerinput[REMOTE_WORKER] = bool(not spec.popen or spec.chdir)
        if options.resume is not None:
            from pytest_nfvperf.plugin.resume import send_earlier_run  # noqa: PLC0415 - only for resumed runs

            send_earlier_run(node.config, node.workerinput)
        if self._channel is not None:
            self._channel.open(node)

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> object | None:
        dsession = config.pluginmanager.get_plugin("dsession")
        if self._channel is None or dsession is None:
            return None
        standard = dsession.pytest_xdist_make_scheduler(config, log)
        return DeferredScheduler(config, standard, self._channel, self._refuse)

    @pytest.hookimpl(trylast=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport, sched: Any) -> None:
        """Repeat the test of a worker that died once, on the next free worker."""
        if self._channel is None or not isinstance(sched, DeferredScheduler) or not sched.is_ours:
            return
        if report.outcome not in {"passed", "failed", "skipped"}:
            return  # pytest-rerunfailures has it repeated
        worker = report.node.gateway.id
        earlier_worker = self._lost.get(crashitem)
        self._lost[crashitem] = worker
        # xdist replaces no more workers than --max-worker-restart says.
        dsession = self._config.pluginmanager.get_plugin("dsession")
        most_restarts = getattr(dsession, "_max_worker_restart", None)
        replaced = most_restarts is None or getattr(dsession, "_failed_nodes_count", 0) < most_restarts
        died = f"{worker} died while it ran {crashitem}"
        if earlier_worker is not None:
            say(self._config, f"{died}, as {earlier_worker} did before: it is not repeated again")
            sched.mark_test_lost(crashitem)
        elif not replaced:
            say(self._config, f"{died}; no worker is started in its place")
            sched.mark_test_lost(crashitem)
        else:
            say(self._config, f"{died}: the test is repeated")
            report.outcome = "rerun"  # type: ignore[assignment]
            setattr(report, LOST, True)
            sched.mark_test_pending(crashitem)
