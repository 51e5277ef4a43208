"""Which tests a worker gets next: groups of tests that belong on one testbed, by suite folder."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


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
class Group:
    """Tests of one group that still have to run, in their order.

    Attributes:
        name: of the group. A test that needs no testbed is a group by itself.
        place: None for such a test.
        tests: those that are left.
        again: a lost worker left them.
    """

    name: str
    place: Place | None
    tests: Sequence[str]
    again: bool = False

    @property
    def measures(self) -> bool:
        return measures(self.place)

    @property
    def folder(self) -> str:
        return self.place.folder if self.place is not None else ""


def measures(place: Place | None) -> bool:
    """Whether tests of this place must have the machine to themselves."""
    return place is not None and not place.functional


def work_queue(tests: Sequence[str], places: dict[str, Place]) -> OrderedDict[str, dict[str, bool]]:
    """Tests by group, each not done yet, as xdist's LoadScopeScheduling stores them.

    Tests that need no testbed come first, then functional groups, then those that measure. Apart from that the order
    is that of the first test of each group.
    """
    units: dict[str, dict[str, bool]] = {}
    for test in tests:
        group = places[test].group if test in places else test
        units.setdefault(group, {})[test] = False
    order = sorted(units, key=lambda group: (measures(places.get(group)), group in places))
    return OrderedDict((group, units[group]) for group in order)


def next_group(groups: Iterable[Group], folder: str, taken: Collection[str]) -> Group | None:
    """The group that a worker gets next; None when nothing is left for it.

    Groups of lost workers and groups that measure nothing come first. Then a worker stays in its own folder, then goes
    to a folder without a worker, then helps in the folder with most tests left.

    Args:
        groups: groups that wait, and that the worker can run.
        folder: in which the worker is; "" for none.
        taken: folders in which other workers are.
    """
    measuring: list[Group] = []
    for group in groups:
        if group.again or not group.measures:
            return group
        measuring.append(group)
    own = next((group for group in measuring if group.folder == folder), None)
    preferred = own or next((group for group in measuring if group.folder not in taken), None)
    if preferred is not None or not measuring:
        return preferred
    left = Counter[str]()
    for group in measuring:
        left[group.folder] += len(group.tests)
    longest = left.most_common(1)[0][0]
    # The worker of that folder goes through it from the front, so help from the end.
    return next(group for group in reversed(measuring) if group.folder == longest)
