"""Which tests an SLA compares with one another: they run on one testbed, one after the other.

A relation such as ``forwarding_rate: ">= 95 % of {bridges: 1}"`` needs its other side, measured before. Labels that a
test gets only while it runs (the name of a topology that it composes) are not known yet: they may be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.sla.rules import Rule


@dataclass(frozen=True, slots=True)
class Selected:
    """A test before it runs.

    Attributes:
        folder: of its suite.
        subjects: labels of each subject that it will measure.
        rules: those in force for it.
    """

    folder: str
    subjects: tuple[Mapping[str, str], ...]
    rules: tuple[Rule, ...]


class Groups:
    """A partition of the numbers below ``count``, each by itself at first."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def join(self, one: int, other: int) -> None:
        """Put the groups of two numbers together."""
        first, second = sorted((self.of(one), self.of(other)))
        self._parents[second] = first

    def of(self, number: int) -> int:
        """The smallest number of its group."""
        while self._parents[number] != number:
            number = self._parents[number]
        return number


def join_related(tests: Sequence[Selected], groups: Groups) -> None:
    """Join the tests that a rule compares, by their places in ``tests``."""
    for place, test in enumerate(tests):
        for wanted, certain in _other_sides(test):
            for other, candidate in enumerate(tests):
                within = certain or candidate.folder == test.folder
                if other != place and within and any(_may_be(wanted, labels) for labels in candidate.subjects):
                    groups.join(place, other)


def other_sides_first(tests: Sequence[Selected]) -> list[int]:
    """Places of the tests in an order that measures the other side of a relation before the test that needs it.

    All else stays as it was. Tests count as another side where they have the labels that the relation names.
    """
    needs = [list(_tests_before(tests, place)) for place in range(len(tests))]
    order: dict[int, None] = {}
    for place in range(len(tests)):
        _put(place, needs, order, frozenset())
    return list(order)


def _put(place: int, needs: Sequence[Sequence[int]], order: dict[int, None], under_way: frozenset[int]) -> None:
    """Put a test behind all that it needs. Of tests that need one another, nobody can be first."""
    for other in needs[place]:
        if other not in order and other not in under_way:
            _put(other, needs, order, under_way | {place})
    order.setdefault(place)


def _tests_before(tests: Sequence[Selected], place: int) -> Iterator[int]:
    own = tests[place]
    for wanted, certain in _other_sides(own):
        named = {name for labels in own.subjects for name in wanted if labels.get(name) != wanted[name]}
        for other, candidate in enumerate(tests):
            within = certain or candidate.folder == own.folder
            if other != place and within and any(_is_side(wanted, named, labels) for labels in candidate.subjects):
                yield other


def _is_side(wanted: Mapping[str, str], named: Iterable[str], labels: Mapping[str, str]) -> bool:
    return _may_be(wanted, labels) and all(name in labels for name in named)


def _other_sides(test: Selected) -> Iterator[tuple[dict[str, str], bool]]:
    """Labels of the subjects that a test is compared with, and whether the rule is about it for certain."""
    for labels in test.subjects:
        for rule in test.rules:
            relations = [dict(limit.relative_to) for _, limit in rule.require if limit.relative_to]
            if not relations or not _may_match(rule, labels):
                continue
            certain = rule.matches(labels)
            for differing in relations:
                if any(labels.get(name) != value for name, value in differing.items()):
                    yield {**labels, **differing}, certain and differing.keys() <= labels.keys()


def _may_match(rule: Rule, labels: Mapping[str, str]) -> bool:
    known = tuple((name, accepted) for name, accepted in rule.where if name in labels)
    return Rule(known, (), rule.source).matches(labels)


def _may_be(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """As the judge finds the other side: by all labels but the test's name."""
    return all(labels.get(name, value) == value for name, value in wanted.items() if name != "test")
