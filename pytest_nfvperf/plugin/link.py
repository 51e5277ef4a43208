"""A worker's end of its channel to the controller: what it tells, and what it hears of others."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from pytest_nfvperf.model.text import storable
from pytest_nfvperf.plugin.dealing import Place
from pytest_nfvperf.plugin.hub import FILE, LINK, MEASURE, OBSERVED, PLACES, ROOM, SAY, TAKEN, TESTBED, WANTED
from pytest_nfvperf.plugin.taken import Taken

LINK_KEY = pytest.StashKey["Link | None"]()


def refuse_not_utf8(names: Iterable[str]) -> None:
    """Raise pytest.UsageError for a name that no channel to a worker takes: execnet would raise in xdist."""
    for name in names:
        if storable(name) != name:
            raise pytest.UsageError(
                f"{storable(name)} is not UTF-8, and pytest-xdist cannot send it to a worker: rename the directory or "
                "file, or leave -n out"
            )


def link_of(config: pytest.Config) -> Link | None:
    """The link of this worker; None in a process that is none, or whose controller has not this plugin."""
    if LINK_KEY not in config.stash:
        given = getattr(config, "workerinput", {})
        config.stash[LINK_KEY] = Link(given[LINK], given.get(WANTED, "")) if LINK in given else None
    return config.stash[LINK_KEY]


class Link:
    """Of one worker.

    Attributes:
        wanted: label of the testbeds of which the worker shall take one.
    """

    def __init__(self, channel: Any, wanted: str) -> None:
        self.wanted = wanted
        self._channel = channel
        self._may_measure = threading.Event()
        self._observed: SimpleQueue[str] = SimpleQueue()
        channel.setcallback(self._heard)

    def tell_testbed(self, name: str, label: str) -> None:
        """This worker holds a testbed."""
        self._channel.send((TESTBED, (name, label)))

    def tell_room(self, rigs: int) -> None:
        """This worker holds no testbed, and can run functional tests where there is room for so many rigs."""
        self._channel.send((ROOM, rigs))

    def tell_places(self, places: Mapping[str, Place]) -> None:
        """Where the measuring tests belong, by node id."""
        told = {test: astuple(place) for test, place in places.items()}
        self._channel.send((PLACES, told))

    def tell_taken(self, taken: Taken) -> None:
        """What this worker takes over of the run that goes on."""
        self._channel.send((TAKEN, taken.to_message()))

    def tell_observed(self, text: str) -> None:
        """What was measured on a subject, for relations that other workers judge."""
        self._channel.send((OBSERVED, text))

    def say(self, line: str) -> None:
        """A line for the user."""
        self._channel.send((SAY, line))

    def send_piece(self, kind: str, path: str, offset: int, data: bytes) -> None:
        """A piece of a file, for the controller's copy of it."""
        self._channel.send((FILE, (kind, path, offset, data)))

    def heard(self) -> Iterator[str]:
        """What other workers measured, as they told it, since this was last asked."""
        while True:
            try:
                yield self._observed.get_nowait()
            except Empty:
                return

    def wait_for_quiet(self) -> None:
        """Wait until no test runs any more beside which none is measured; the controller says when."""
        self._may_measure.wait()

    def _heard(self, message: tuple[str, Any]) -> None:
        """In the thread that receives."""
        word, what = message
        if word == MEASURE:
            self._may_measure.set()
        elif word == OBSERVED:
            self._observed.put(what)
