"""The worker's end of its channel to the controller, and the messages of both.

pytest-xdist carries tests and their reports. What it has no place for goes over a channel of our own, one a worker, as
tuples ``(word, what)`` of types that execnet carries::

    worker                                                controller (controller_channel.py)
      PLACES    node id -> (group, folder, label, functional)   which tests belong together
      TESTBED   (name, label)                                   the testbed that it holds
      ROOM      number of rigs                                  it holds none; so many find room on its machine
      ADOPTED   fields of AdoptedTests                          what it takes over of an earlier run
      OBSERVED  labels and observations as text   <------->     what was measured, for relations that others judge
      SAY       line                                            for the terminal
      FILE      (folder, path, offset, bytes)                   a piece of a file of a worker on another machine
                                                  <-------      MEASURE: tests that measure may begin

What a worker writes here arrives before what it tells xdist afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from pytest_nfvperf.model.display import storable
from pytest_nfvperf.plugin.work_groups import Place

CHANNEL, WANTED = "nfv_link", "nfv_wanted"
"""In a worker's input: its channel, and the label of the testbed that it shall take."""

TESTBED, ROOM, PLACES, ADOPTED = "testbed", "room", "places", "adopted"
OBSERVED, SAY, FILE, MEASURE = "observed", "say", "file", "measure"

_CHANNEL_KEY = pytest.StashKey["WorkerChannel | None"]()


@dataclass(frozen=True, slots=True)
class AdoptedTests:
    """What a run that goes on takes over of the earlier one: ids of tests, in their order.

    Attributes:
        run_dir: of the run.
        tests: that are not measured again.
        ended: that an earlier process ended on this rig: where the SLA is another, not all of them are taken over.
        anew: of those taken over, the ones that the SLA of now judges.
        unlike: evidence files of another rig than this one, and in what it differs.
    """

    run_dir: str
    tests: Sequence[str] = ()
    ended: Sequence[str] = ()
    anew: Sequence[str] = ()
    unlike: Mapping[str, str] = field(default_factory=dict)

    def lines(self, selected: int) -> Iterator[str]:
        """For the user. ``selected``: number of all tests of the run."""
        for file, why in self.unlike.items():
            yield f"what {file} has is measured again, since the rig is not the same: {why}"
        yield f"{len(self.tests)} of {selected} tests are taken over from {self.run_dir}"
        again = len(self.ended) - len(self.tests)
        if self.anew or again:
            yield f"the SLA is another: {len(self.anew)} of them judged anew, {again} others measured again for it"


def merge_workers(workers: Sequence[AdoptedTests]) -> AdoptedTests:
    """What workers adopt, each on a testbed of its own. Only a file that is of nobody's rig is reported."""
    first = workers[0]

    def each_once(tests: Iterable[Sequence[str]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(test for of_one in tests for test in of_one))

    return AdoptedTests(
        first.run_dir,
        each_once(one.tests for one in workers),
        each_once(one.ended for one in workers),
        each_once(one.anew for one in workers),
        {file: why for file, why in first.unlike.items() if all(file in one.unlike for one in workers)},
    )


def refuse_not_utf8(names: Iterable[str]) -> None:
    """Raise pytest.UsageError for a name that no channel to a worker takes: execnet would raise in xdist."""
    for name in names:
        if storable(name) != name:
            raise pytest.UsageError(
                f"{storable(name)} is not UTF-8, and pytest-xdist cannot send it to a worker: rename the directory or "
                "file, or leave -n out"
            )


def channel_of(config: pytest.Config) -> WorkerChannel | None:
    """The channel of this worker; None in a process that is none, or whose controller has not this plugin."""
    if _CHANNEL_KEY not in config.stash:
        given = getattr(config, "workerinput", {})
        made = WorkerChannel(given[CHANNEL], given.get(WANTED, "")) if CHANNEL in given else None
        config.stash[_CHANNEL_KEY] = made
    return config.stash[_CHANNEL_KEY]


class WorkerChannel:
    """Of one worker. ``wanted``: label of the testbeds of which the worker shall take one."""

    def __init__(self, channel: Any, wanted: str) -> None:
        self.wanted = wanted
        self._channel = channel
        self._may_measure = threading.Event()
        self._observed: SimpleQueue[str] = SimpleQueue()
        channel.setcallback(self._receive)

    def report_testbed(self, name: str, label: str) -> None:
        self._channel.send((TESTBED, (name, label)))

    def report_room(self, rigs: int) -> None:
        """This worker holds no testbed, and can run functional tests where there is room for so many rigs."""
        self._channel.send((ROOM, rigs))

    def report_places(self, places: Mapping[str, Place]) -> None:
        """Where the measuring tests belong, by node id."""
        self._channel.send((PLACES, {test: astuple(place) for test, place in places.items()}))

    def report_adopted(self, adopted: AdoptedTests) -> None:
        fields = asdict(adopted).items()
        self._channel.send((ADOPTED, {name: list(one) if isinstance(one, tuple) else one for name, one in fields}))

    def report_observed(self, text: str) -> None:
        """What was measured on a subject, for relations that other workers judge."""
        self._channel.send((OBSERVED, text))

    def say(self, line: str) -> None:
        self._channel.send((SAY, line))

    def send_piece(self, folder: str, path: str, offset: int, data: bytes) -> None:
        """A piece of a file, for the controller's copy of it."""
        self._channel.send((FILE, (folder, path, offset, data)))

    def observed_elsewhere(self) -> Iterator[str]:
        """What other workers measured, as they reported it, since this was last asked."""
        while True:
            try:
                yield self._observed.get_nowait()
            except Empty:
                return

    def wait_for_quiet(self) -> None:
        """Wait until no test runs any more beside which none is measured; the controller says when."""
        self._may_measure.wait()

    def _receive(self, message: tuple[str, Any]) -> None:
        """In execnet's thread: it only remembers."""
        word, what = message
        if word == MEASURE:
            self._may_measure.set()
        elif word == OBSERVED:
            self._observed.put(what)
