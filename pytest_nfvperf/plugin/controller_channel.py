"""The controller's ends of the channels to its workers: what it knows of each, and what it passes on between them.

The messages are in worker_channel.py. What arrives is stored here::

    places       node id -> Place               of the first worker that reports them: all collect the same tests
    _workers     xdist's node -> _Worker        wanted, testbed, room; how many of ``_observed`` it was sent
    _observed    [(node, text), ...]            what was measured, in the order of arrival; catch_up() passes it on
    _adopted     node -> AdoptedTests
    _adopters    test -> nodes                  workers that adopt its earlier result
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_nfvperf.plugin.worker_channel import (
    ADOPTED,
    CHANNEL,
    MEASURE,
    OBSERVED,
    PLACES,
    ROOM,
    SAY,
    TESTBED,
    WANTED,
    AdoptedTests,
    Place,
    merge_workers,
)


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
        self.places: dict[str, Place] = {}
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
        elif word == PLACES:
            self.places = self.places or {test: Place(*place) for test, place in content.items()}
        elif word == OBSERVED:
            self._observed.append((node, content))
        elif word == SAY:
            self._say(f"{node.gateway.id}: {content}")
        elif word == ADOPTED:
            self._adopted[node] = adopted = AdoptedTests(**content)
            for test in adopted.tests:
                self._adopters.setdefault(test, set()).add(node)
