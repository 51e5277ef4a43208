"""The controller's ends of the channels to its workers: what it knows of each, and what it passes on between them.

The messages are in worker_channel.py. What arrives is kept so::

    places       node id -> Place               of the first worker that reports them: all collect the same tests
    _workers     xdist's node -> _Worker        wanted, testbed, room; how many of ``_observed`` it was sent
    _observed    [(node, text), ...]            what was measured, in the order of arrival; catch_up() passes it on
    _adopted     node -> AdoptedTests           and by test in ``_adopters``: whose evidence it was measured with
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_nfvperf.plugin.work_groups import Place
from pytest_nfvperf.plugin.worker_channel import (
    ADOPTED,
    CHANNEL,
    FILE,
    MEASURE,
    OBSERVED,
    PLACES,
    ROOM,
    SAY,
    TESTBED,
    WANTED,
    AdoptedTests,
    merge_workers,
)


@dataclass(slots=True)
class _Worker:
    """``testbed``: name and label of the one that it holds. ``room``: for how many rigs, where it holds none.

    ``sent``: so many of what was observed. ``may_measure``: it was told so. ``gone``: it has ended, or died.
    """

    channel: Any
    wanted: str
    testbed: tuple[str, str] | None = None
    room: int = 0
    sent: int = 0
    may_measure: bool = False
    gone: bool = False


class ControllerChannel:
    """Of one run.

    Args:
        say: writes a line to the terminal.
        labels: of the testbeds; one, "", where they have none.
        store: takes (worker, kind of directory, path, offset, bytes) of a file of a far worker.

    Attributes:
        places: of the measuring tests, by node id.
    """

    def __init__(
        self, say: Callable[[str], None], labels: tuple[str, ...], store: Callable[[str, str, str, int, bytes], None]
    ) -> None:
        self.places: dict[str, Place] = {}
        self._say, self._labels, self._store = say, labels, store
        self._workers: dict[Any, _Worker] = {}
        self._observed: list[tuple[Any, str]] = []
        self._adopted: dict[Any, AdoptedTests] = {}
        self._adopters: dict[str, set[Any]] = {}

    def open(self, node: Any) -> None:
        """Before a worker starts: make its channel, and say which kind of testbed has the fewest workers."""
        live = Counter(worker.wanted for worker in self._workers.values() if not worker.gone)
        wanted = min(self._labels, key=lambda label: live[label])
        channel = node.gateway.newchannel()
        self._workers[node] = _Worker(channel, wanted)
        node.workerinput[CHANNEL] = channel
        node.workerinput[WANTED] = wanted
        channel.setcallback(partial(self._receive, node))

    def close(self, node: Any) -> None:
        """A worker has ended; of one that died as it started only the name is known."""
        for started, worker in self._workers.items():
            if started.gateway.id == node.gateway.id:
                worker.gone = True

    @property
    def has_workers(self) -> bool:
        """True while there is a worker that has not ended."""
        return not all(worker.gone for worker in self._workers.values())

    def holds(self, node: Any, label: str) -> bool:
        """True for a worker that holds a testbed of this label; "": of any."""
        worker = self._workers.get(node)
        return worker is not None and worker.testbed is not None and label in {"", worker.testbed[1]}

    def has_room(self, node: Any) -> bool:
        """True for a worker without a testbed that may run functional tests on a rig of its own."""
        # One of the rigs is that of the worker with the testbed.
        return self._workers.get(node) in self._without_testbed()[: max(0, self._rooms() - 1)]

    def _without_testbed(self) -> list[_Worker]:
        return [worker for worker in self._workers.values() if worker.room and not worker.gone]

    def _rooms(self) -> int:
        """What the first reported is the largest, and counts: later rigs of this run take room themselves."""
        return max((worker.room for worker in self._workers.values()), default=0)

    def say_room(self) -> None:
        """Tell the user if some workers find no room for a rig."""
        others, rooms = len(self._without_testbed()), self._rooms()
        if others >= rooms > 0:
            self._say(
                f"functional tests run on {rooms} of {others + 1} workers at once: the free hugepages have room for "
                f"{rooms} private OVS with a generator each (nfvperf doctor says how to get more)"
            )

    def adopters(self, test: str) -> Collection[Any]:
        """Workers that take a test over of the run that goes on: on their testbed it was measured."""
        return self._adopters.get(test, ())

    def say_adopted(self, selected: int) -> None:
        """Tell the user what the workers take over; ``selected``: number of all tests."""
        for line in merge_workers([*self._adopted.values()]).lines(selected) if self._adopted else ():
            self._say(line)

    def why_no_testbed(self, label: str) -> str:
        """For the user: no worker can run a test."""
        kind = f" with label '{label}'" if label else ""
        return (
            f"no worker holds a testbed{kind}: {len(self._workers)} workers were started; "
            "give each label a worker of its own (-n), and a testbed that no other run uses"
        )

    def catch_up(self, node: Any) -> None:
        """Tell a worker what others measured, before it gets tests: OSError when it has died."""
        worker = self._workers.get(node)
        if worker is None:
            return
        for who, text in self._observed[worker.sent :]:
            if who is not node:
                worker.channel.send((OBSERVED, text))
        worker.sent = len(self._observed)

    def let_measure(self, nodes: Iterable[Any]) -> None:
        """Tell workers, once each, that tests that measure may begin."""
        for node in nodes:
            worker = self._workers.get(node)
            if worker is not None and not worker.may_measure:
                worker.may_measure = True
                with suppress(OSError):  # it has died, as xdist is about to say
                    worker.channel.send((MEASURE, None))

    def _receive(self, node: Any, message: tuple[str, Any]) -> None:
        """In execnet's thread: only to remember, or to write a piece of a file."""
        word, what = message
        if word == TESTBED:
            self._workers[node].testbed = None if what is None else (what[0], what[1])
        elif word == ROOM:
            self._workers[node].room = what
        elif word == PLACES:
            self.places = self.places or {test: Place(*place) for test, place in what.items()}
        elif word == OBSERVED:
            self._observed.append((node, what))
        elif word == SAY:
            self._say(f"{node.gateway.id}: {what}")
        elif word == ADOPTED:
            self._adopted[node] = adopted = AdoptedTests(**what)
            for test in adopted.tests:
                self._adopters.setdefault(test, set()).add(node)
        elif word == FILE:
            self._store(node.gateway.id, *what)
