"""Which tests a worker gets next: groups of tests that belong to one testbed, kept by suite folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

PLAIN = ""
"""Group of tests that measure nothing: each goes by itself to any worker."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a measuring test belongs.

    Attributes:
        group: tests of one group run on one testbed, one after the other.
        folder: of its suite; a worker stays in a folder as long as there is something left.
        label: of the testbeds that it is for; "" for all.
        functional: all tests of the group are, and the machine can be shared.
    """

    group: str
    folder: str
    label: str = ""
    functional: bool = False


@dataclass(slots=True)
class Group:
    """Tests that still have to run, in their order. ``again``: a lost worker left them."""

    place: Place
    tests: list[str] = field(default_factory=list)
    again: bool = False

    @property
    def plain(self) -> bool:
        """True for a test that needs no testbed."""
        return self.place.group == PLAIN

    @property
    def measures(self) -> bool:
        """False for what others may run beside: a test that needs no testbed, and functional tests."""
        return not (self.plain or self.place.functional)


def groups_of(tests: Sequence[str], places: dict[str, Place]) -> list[Group]:
    """Groups in the order of their first tests; those that measure nothing come first, then functional ones."""
    plain = [Group(Place(PLAIN, ""), [test]) for test in tests if test not in places]
    placed: dict[str, Group] = {}
    for test in tests:
        if test in places:
            placed.setdefault(places[test].group, Group(places[test])).tests.append(test)
    return [*plain, *sorted(placed.values(), key=lambda group: group.measures)]


class Waiting:
    """Groups that no worker has yet."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = list(groups)

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups)

    @property
    def all_measure(self) -> bool:
        """True once no test is left that measures nothing."""
        return all(group.measures for group in self._groups)

    def put_back(self, group: Group) -> None:
        """What a lost worker left comes first."""
        group.again = True
        if not any(group is waiting for waiting in self._groups):
            self._groups.insert(0, group)

    def take(self, folder: str, taken: Collection[str], may: Callable[[Group], bool]) -> Group | None:
        """The group that a worker gets next; None when nothing is left for it.

        Args:
            folder: in which the worker is; "" for none.
            taken: folders in which others are.
            may: True for groups that the worker can run.
        """
        choice = [group for group in self._groups if may(group)]
        if not choice:
            return None
        group = _choose(choice, folder, taken)
        self._groups = [waiting for waiting in self._groups if waiting is not group]
        return group


def _choose(choice: Sequence[Group], folder: str, taken: Collection[str]) -> Group:
    """First what was lost and what measures nothing; then the own folder, a folder of nobody's, a share of others'."""
    urgent = next((group for group in choice if group.again or not group.measures), None)
    if urgent is not None:
        return urgent
    own = next((group for group in choice if group.place.folder == folder), None)
    nobodys = next((group for group in choice if group.place.folder not in taken), None)
    near = own or nobodys
    if near is not None:
        return near
    left = Counter({group.place.folder: 0 for group in choice})
    for group in choice:
        left[group.place.folder] += len(group.tests)
    longest = left.most_common(1)[0][0]
    return next(group for group in reversed(choice) if group.place.folder == longest)
