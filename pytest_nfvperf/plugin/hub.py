"""What the controller of pytest-xdist's workers knows of them, and what it passes on between them.

Each worker has a channel of its own for this, beside xdist's. What it says there arrives before what it says to xdist
afterwards. Messages are tuples of a word and what belongs to it, of types that execnet carries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pytest_nfvperf.plugin.dealing import Place
from pytest_nfvperf.plugin.taken import Taken, together

LINK, WANTED = "nfv_link", "nfv_wanted"
"""In a worker's input: its channel, and the label of the testbed that it shall take."""

TESTBED, PLACES, OBSERVED, SAY, FILE, TAKEN = "testbed", "places", "observed", "say", "file", "taken"
ROOM = "room"
"""What a worker says: the testbed that it holds, where tests belong, what it measured, a line, a piece of a file, what
it takes over of an earlier run; that it holds none, and how many rigs find room on the machine that it shares."""

MEASURE = "measure"
"""What it is told: tests that measure may begin."""


@dataclass(slots=True)
class _Known:
    """Of one worker. ``testbed``: name and label of the one that it holds. ``heard``: how much it knows of others.

    ``room``: for how many rigs, where it holds none but can run functional tests.
    """

    channel: Any
    wanted: str
    testbed: tuple[str, str] | None = None
    room: int = 0
    heard: int = 0
    told: bool = False
    gone: bool = False


@dataclass(slots=True)
class Hub:
    """Of one run.

    Args:
        say: writes a line to the terminal.
        labels: of the testbeds; one, "", where they have none.
        store: takes (worker, kind of directory, path, offset, bytes) of a file of a far worker.

    Attributes:
        places: of the measuring tests, by node id.
    """

    say: Callable[[str], None]
    labels: tuple[str, ...]
    store: Callable[[str, str, str, int, bytes], None]
    places: dict[str, Place] = field(default_factory=dict)
    _known: dict[Any, _Known] = field(default_factory=dict)
    _observed: list[tuple[Any, str]] = field(default_factory=list)
    _taken: dict[Any, Taken] = field(default_factory=dict)
    _takers: dict[str, set[Any]] = field(default_factory=dict)

    def open(self, node: Any) -> None:
        """Before a worker starts: make its channel, and say which kind of testbed has the fewest workers."""
        live = Counter(known.wanted for known in self._known.values() if not known.gone)
        wanted = min(self.labels, key=lambda label: live[label])
        channel = node.gateway.newchannel()
        self._known[node] = _Known(channel, wanted)
        node.workerinput[LINK] = channel
        node.workerinput[WANTED] = wanted
        channel.setcallback(partial(self._heard, node))

    def close(self, node: Any) -> None:
        """A worker has ended; of one that died as it started only the name is known."""
        for started, known in self._known.items():
            if started.gateway.id == node.gateway.id:
                known.gone = True

    @property
    def has_workers(self) -> bool:
        """True while there is a worker that has not ended."""
        return not all(known.gone for known in self._known.values())

    def holds(self, node: Any, label: str) -> bool:
        """True for a worker that holds a testbed of this label; "": of any."""
        known = self._known.get(node)
        return known is not None and known.testbed is not None and label in {"", known.testbed[1]}

    def has_room(self, node: Any) -> bool:
        """True for a worker without a testbed that may run functional tests on a rig of its own.

        One rig is that of the worker with the testbed. What the first told counts: later rigs of this run are there.
        """
        return self._known.get(node) in self._beside()[: max(0, self._rooms() - 1)]

    def _beside(self) -> list[_Known]:
        return [known for known in self._known.values() if known.room and not known.gone]

    def _rooms(self) -> int:
        return max((known.room for known in self._known.values()), default=0)

    def tell_room(self) -> None:
        """Tell the user if some workers find no room for a rig."""
        beside, rooms = len(self._beside()), self._rooms()
        if beside >= rooms > 0:
            self.say(
                f"functional tests run on {rooms} of {beside + 1} workers at once: the free hugepages have room for "
                f"{rooms} private OVS with a generator each (nfvperf doctor says how to get more)"
            )

    def takers(self, test: str) -> Collection[Any]:
        """Workers that take a test over of the run that goes on: on their testbed it was measured."""
        return self._takers.get(test, ())

    def tell_taken(self, selected: int) -> None:
        """Tell the user what the workers take over; ``selected``: number of all tests."""
        for line in together([*self._taken.values()]).lines(selected) if self._taken else ():
            self.say(line)

    def why_no_testbed(self, label: str) -> str:
        """For the user: no worker can run a test."""
        kind = f" with label '{label}'" if label else ""
        return (
            f"no worker holds a testbed{kind}: {len(self._known)} workers were started; "
            "give each label a worker of its own (-n), and a testbed that no other run uses"
        )

    def catch_up(self, node: Any) -> None:
        """Tell a worker what others measured, before it gets tests: OSError when it has died."""
        known = self._known.get(node)
        if known is None:
            return
        for who, text in self._observed[known.heard :]:
            if who is not node:
                known.channel.send((OBSERVED, text))
        known.heard = len(self._observed)

    def let_measure(self, nodes: Iterable[Any]) -> None:
        """Tell workers, once each, that tests that measure may begin."""
        for node in nodes:
            known = self._known.get(node)
            if known is not None and not known.told:
                known.told = True
                with suppress(OSError):  # it has died, as xdist is about to say
                    known.channel.send((MEASURE, None))

    def _heard(self, node: Any, message: tuple[str, Any]) -> None:
        """In the thread that receives: only to remember, or to write a piece of a file."""
        word, what = message
        if word == TESTBED:
            self._known[node].testbed = None if what is None else (what[0], what[1])
        elif word == ROOM:
            self._known[node].room = what
        elif word == PLACES:
            self.places = self.places or _places(what)
        elif word == OBSERVED:
            self._observed.append((node, what))
        elif word == SAY:
            self.say(f"{node.gateway.id}: {what}")
        elif word == TAKEN:
            self._taken[node] = taken = Taken(**what)
            for test in taken.tests:
                self._takers.setdefault(test, set()).add(node)
        elif word == FILE:
            self.store(node.gateway.id, *what)


def _places(what: Mapping[str, tuple[str, str, str, bool]]) -> dict[str, Place]:
    return {test: Place(*place) for test, place in what.items()}
