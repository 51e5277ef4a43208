"""Which tests a worker gets next: groups of tests that belong to one testbed, by suite folder."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where a measuring test belongs.

    Attributes:
        group: tests of one group run on one testbed, one after the other; it is called as one of its tests.
        folder: of its suite; a worker stays in a folder as long as there is something left.
        label: of the testbeds that it is for; "" for all.
        functional: all tests of the group are, and the machine can be shared.
    """

    group: str
    folder: str
    label: str = ""
    functional: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Tests that still have to run, in their order.

    Attributes:
        name: of the group; that of a test that needs no testbed, which goes by itself to any worker.
        place: None for such a test.
        tests: that are left.
        again: a lost worker left them.
    """

    name: str
    place: Place | None
    tests: Sequence[str]
    again: bool = False

    @property
    def measures(self) -> bool:
        """False for what others may run beside: a test that needs no testbed, and functional tests."""
        return measures(self.place)

    @property
    def folder(self) -> str:
        return self.place.folder if self.place is not None else ""


def measures(place: Place | None) -> bool:
    """Whether tests of this place must have the machine for themselves."""
    return place is not None and not place.functional


def work_queue(tests: Sequence[str], places: dict[str, Place]) -> OrderedDict[str, dict[str, bool]]:
    """Tests by group, each not done yet, as xdist's LoadScopeScheduling keeps them.

    Groups are in the order of their first tests; those that measure nothing come first, then functional ones.
    """
    units: dict[str, dict[str, bool]] = {}
    for test in tests:
        group = places[test].group if test in places else test
        units.setdefault(group, {})[test] = False

    def turn(group: str) -> tuple[bool, bool]:
        place = places.get(group)
        return measures(place), place is not None

    return OrderedDict((group, units[group]) for group in sorted(units, key=turn))


def next_group(groups: Iterable[Group], folder: str, taken: Collection[str]) -> Group | None:
    """The group that a worker gets next; None when nothing is left for it.

    First what was lost and what measures nothing; then the own folder, a folder of nobody's, a share of others'.

    Args:
        groups: that wait, and that the worker can run.
        folder: in which the worker is; "" for none.
        taken: folders in which others are.
    """
    choice: list[Group] = []
    for group in groups:
        if group.again or not group.measures:
            return group
        choice.append(group)
    own = next((group for group in choice if group.folder == folder), None)
    preferred = own or next((group for group in choice if group.folder not in taken), None)
    if preferred is not None or not choice:
        return preferred
    left = Counter[str]()
    for group in choice:
        left[group.folder] += len(group.tests)
    # The others' worker goes through its folder from the front, so help from the end.
    longest = left.most_common(1)[0][0]
    return next(group for group in reversed(choice) if group.folder == longest)
