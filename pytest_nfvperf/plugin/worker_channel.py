"""The worker's end of its channel to the controller, and the messages of both.

pytest-xdist carries tests and their reports. Everything else goes over a channel of our own, one for each worker. A
message is a tuple ``(word, content)`` of types that execnet carries::

    worker                                                controller (controller_channel.py)
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
from dataclasses import asdict, dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from pytest_nfvperf.model.display import storable

CHANNEL, WANTED = "nfv_link", "nfv_wanted"
"""In a worker's input: its channel, and the label of the testbed that it shall take."""
TESTBED, ROOM, PLACES, ADOPTED = "testbed", "room", "places", "adopted"
OBSERVED, SAY, MEASURE = "observed", "say", "measure"
_CHANNEL_KEY = pytest.StashKey["WorkerChannel | None"]()


@dataclass(frozen=True, slots=True)
class Place:
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

    def as_message(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

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
