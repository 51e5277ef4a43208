"""Which tests belong together, and which a worker gets next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.model.sla.rules import Groups, Limit, Rule, Selected, join_related, other_sides_first
from pytest_nfvperf.plugin.scheduler import Group, next_group, work_queue
from pytest_nfvperf.plugin.worker import GroupInfo


def relation(where: dict[str, str], other: dict[str, str]) -> Rule:
    limit = Limit(">=", 0.9, "ratio", ">= 90 %", relative_to=tuple(other.items()))
    return Rule(tuple((name, (value,)) for name, value in where.items()), (("ndr", limit),), "sla.yaml")


def joined(*tests: Selected) -> list[int]:
    groups = Groups(len(tests))
    join_related(tests, groups)
    return [groups.of(number) for number in range(len(tests))]


def chain(folder: str, *rules: Rule, **labels: str) -> Selected:
    return Selected(folder, (labels,), rules)


def test_both_sides_of_a_relation_are_one_group_and_others_are_not():
    rule = relation({"bridges": "4"}, {"bridges": "1"})
    tests = [chain("s", rule, bridges=count, link=link) for link in ("patch", "veth") for count in ("1", "2", "4")]
    assert joined(*tests) == [0, 1, 0, 3, 4, 3]


def test_the_other_side_may_be_another_test():
    rule = relation({"test": "test_one"}, {"case": "none"})
    assert joined(chain("s", rule, test="test_one", case="2a"), chain("s", test="test_two", case="none")) == [0, 0]


@given(st.permutations(["1", "2", "4", "9"]))
def test_the_other_side_comes_first_in_whatever_order_the_tests_are(order: list[str]) -> None:
    rule = relation({"bridges": "4"}, {"bridges": "1"})
    tests = [chain("s", rule, bridges=count) for count in order]
    put = [order[index] for index in other_sides_first(tests)]

    assert sorted(put) == sorted(order)
    assert put.index("1") < put.index("4")
    if order.index("1") < order.index("4"):
        assert put == order


def test_tests_that_need_one_another_stay_in_their_order():
    one, other = relation({"bridges": "4"}, {"bridges": "1"}), relation({"bridges": "1"}, {"bridges": "4"})
    tests = [chain("s", one, other, bridges=count) for count in ("4", "1", "2")]
    assert sorted(other_sides_first(tests)) == [0, 1, 2]


def test_what_may_or_may_not_be_the_other_side_moves_nothing():
    rule = relation({"topology": "two"}, {"topology": "one"})
    tests = [chain("s", rule, frame_size="64"), chain("s", rule, frame_size="64")]
    assert other_sides_first(tests) == [0, 1]


def test_what_is_known_only_at_run_time_may_be_equal_within_the_folder():
    rule = relation({"topology": "two"}, {"topology": "one"})
    unknown = chain("s", rule, frame_size="64")
    assert joined(unknown, chain("s", rule, frame_size="64"), chain("s", rule, frame_size="128")) == [0, 0, 2]
    assert joined(unknown, chain("other", frame_size="64")) == [0, 1]


def test_a_baseline_needs_no_other_side():
    rule = relation({}, {"bridges": "1"})
    assert joined(chain("s", rule, bridges="1"), chain("s", bridges="1", frame_size="64")) == [0, 1]


def groups_of(tests: list[str], group_infos: dict[str, GroupInfo]) -> list[Group]:
    return [Group(name, group_infos.get(name), [*left]) for name, left in work_queue(tests, group_infos).items()]


def waiting(*folders: str) -> list[Group]:
    tests = [f"{folder}{number}" for number, folder in enumerate(folders)]
    return groups_of(tests, {test: GroupInfo(test, test[:-1]) for test in tests})


def taken(waits: list[Group], folder: str, *others: str) -> list[str] | None:
    group = next_group(waits, folder, others)
    if group is None:
        return None
    waits.remove(group)
    return [*group.tests]


def test_a_worker_stays_in_its_folder_then_takes_one_of_nobodys_then_shares_the_longest_from_its_end():
    waits = waiting("a", "a", "b", "c", "c", "c")
    assert taken(waits, "", "") == ["a0"]
    assert taken(waits, "a", "c") == ["a1"]
    assert taken(waits, "a", "c") == ["b2"]
    assert taken(waits, "b", "c") == ["c5"]
    assert taken(waits, "c", "c") == ["c3"]
    assert taken(waits, "c", "c") == ["c4"]
    assert taken(waits, "c", "c") is None


def test_what_measures_nothing_goes_first_and_what_was_lost_before_the_rest():
    groups = groups_of(["m1", "plain", "m2"], {"m1": GroupInfo("m1", "s"), "m2": GroupInfo("m2", "s")})
    assert [group.tests for group in groups] == [["plain"], ["m1"], ["m2"]]
    waits = [*groups[1:], Group("gone", GroupInfo("gone", "t"), ["m9"], again=True)]
    assert [taken(waits, "s") for _ in range(4)] == [["m9"], ["m1"], ["m2"], None]


def test_functional_groups_go_after_what_measures_nothing_and_before_what_measures():
    group_infos = {
        "m1": GroupInfo("m1", "s"),
        "f1": GroupInfo("f1", "s", "", True),
        "f2": GroupInfo("f1", "s", "", True),
    }
    waits = groups_of(["m1", "f1", "plain", "f2"], group_infos)
    assert [group.measures for group in waits] == [False, False, True]
    assert not all(group.measures for group in waits)
    assert [taken(waits, "s") for _ in range(2)] == [["plain"], ["f1", "f2"]]
    assert all(group.measures for group in waits)
