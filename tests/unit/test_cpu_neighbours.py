"""Which CPUs are far apart, what doctor says of them, and which other one it names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.host import cpus as host_cpus
from pytest_nfvperf.adapters.host.cpus import read_cpu_topology
from pytest_nfvperf.model.disturbance.cpu_distance import BAND_RATIO, Band, Bands, Distance
from pytest_nfvperf.model.testbed.cpu_neighbours import (
    MOST_LISTED,
    MOST_TRIED,
    Cpu,
    CpuPair,
    advice,
    bands_text,
    closer_cpus,
    describe_distances,
    pairs,
    worth_trying,
)

TWO_BANDS = Bands(Band(70, 140), Band(240, 440))
KEYS = {9: "cpus.pmd", 10: "cpus.pmd", 5: "cpus.vnf"}


def cpu_topology(*l3s: tuple[int, ...], node: int = 0) -> dict[int, Cpu]:
    """CPUs with a core each, by the L3 caches that they share."""
    return {cpu: Cpu(cpu, cpu, node, l3) for l3 in l3s for cpu in l3}


HALVES = cpu_topology((0, 1, 2, 3), (8, 9, 10, 11))


def test_the_sentence_names_both_cpus_the_way_and_the_caches() -> None:
    (pair,) = pairs([Distance(2, 9, 210)], None, HALVES)
    assert str(pair) == "CPU 2 and CPU 9 are 210 ns apart: different L3"
    said = advice(closer_cpus([pair], pairs([Distance(2, 3, 70)], None, HALVES)), KEYS)
    assert said == "take CPU 3 (70 ns) in place of CPU 9: cpus.pmd of the testbed file"


@pytest.mark.parametrize(
    ("trip", "bands", "known", "is_far", "words"),
    [
        (110, TWO_BANDS, HALVES, False, ": near, different L3"),
        (300, TWO_BANDS, {}, True, ": far"),
        (300, TWO_BANDS, cpu_topology((2, 9)), True, ": far, same L3"),
        (300, Bands(Band(280, 310)), cpu_topology((2, 9)), False, ": same L3"),
        (300, Bands(Band(280, 310)), HALVES, True, ": different L3"),
        (300, None, {}, False, ""),
    ],
)
def test_bands_that_were_measured_count_for_more_than_what_the_kernel_is_told(
    trip: int, bands: Bands | None, known: dict[int, Cpu], is_far: bool, words: str
) -> None:
    (pair,) = pairs([Distance(2, 9, trip)], bands, known)
    assert pair.is_far is is_far
    assert str(pair) == f"CPU 2 and CPU 9 are {trip} ns apart{words}"


def test_of_several_cpus_of_the_generator_the_farthest_counts_and_what_was_not_measured_is_absent() -> None:
    found = pairs([Distance(0, 9, 70), Distance(1, 9, 300), Distance(2, 9, 90), Distance(0, 8, None)], TWO_BANDS, {})
    assert found == (CpuPair(1, 9, 300, far=True),)


def test_cpus_worth_trying_have_a_core_of_their_own_on_the_generators_node_and_cache() -> None:
    machine = [Cpu(cpu, cpu % 8, 0, (0, 1, 2, 3, 8, 9, 10, 11) if cpu % 8 < 4 else ()) for cpu in range(16)]
    other_node = Cpu(20, 20, 1)
    # CPU 8 is the other hardware thread of core 0, CPU 10 that of the PMD's.
    assert worth_trying([*machine, other_node], generator=[0], in_use=[2]) == (1, 3, 4, 5, 6, 7)
    assert worth_trying(HALVES.values(), generator=[2], in_use=[9, 0]) == (1, 3)
    assert worth_trying(HALVES.values(), generator=[7], in_use=[]) == ()


@given(
    cores=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1)), min_size=1, max_size=40),
    taken=st.sets(st.integers(0, 39), max_size=5),
)
def test_nobody_is_told_to_take_what_somebody_has(cores: list[tuple[int, int]], taken: set[int]) -> None:
    machine = [Cpu(number, core, node) for number, (core, node) in enumerate(cores)]
    found = worth_trying(machine, [0], taken)
    owned = {machine[cpu].core for cpu in {0, *taken} if cpu < len(machine)}
    assert len(found) <= MOST_TRIED
    assert not {machine[cpu].core for cpu in found} & owned
    assert all(machine[cpu].node == machine[0].node for cpu in found)
    assert len({machine[cpu].core for cpu in found}) == len(found)


@given(
    apart=st.lists(st.integers(150, 500), max_size=6),
    tried=st.lists(st.integers(40, 500), max_size=8),
)
def test_each_pair_gets_a_cpu_of_its_own_that_is_nearer_by_a_bands_factor(apart: list[int], tried: list[int]) -> None:
    far = [CpuPair(0, 100 + at, trip, far=True) for at, trip in enumerate(apart)]
    choices = closer_cpus(far, [CpuPair(0, 1 + at, trip) for at, trip in enumerate(tried)])
    given_away = [better for _, better in choices if better is not None]
    assert [pair for pair, _ in choices] == far
    assert len({better.other for better in given_away}) == len(given_away)
    for pair, better in choices:
        assert better is None or better.round_trip_ns * BAND_RATIO <= pair.round_trip_ns
    if far and tried and min(tried) * BAND_RATIO <= apart[0]:
        assert choices[0][1] is not None
        assert choices[0][1].round_trip_ns == min(tried)


def test_where_nothing_is_nearer_the_reader_learns_what_the_figures_are_worth() -> None:
    said = advice(closer_cpus([CpuPair(2, 9, 300, far=True)], [CpuPair(2, 3, 290)]), KEYS)
    assert said.startswith("no core of the same NUMA node is free and nearer. Rates are at least what is measured.")
    assert advice((), KEYS) == ""


def test_a_cpu_that_vnfs_have_is_named_as_theirs() -> None:
    said = advice(
        closer_cpus([CpuPair(2, 9, 300, far=True), CpuPair(2, 10, 300, far=True)], [CpuPair(2, 5, 100)]), KEYS
    )
    assert said == "take CPU 5 (100 ns, in cpus.vnf now) in place of CPU 9: cpus.pmd of the testbed file"


def test_many_cpus_take_few_sentences() -> None:
    near = [CpuPair(0, cpu, 100 + cpu, far=False) for cpu in (1, 2, 3)]
    far = [CpuPair(0, cpu, 300 + cpu, far=True) for cpu in range(10, 16)]
    said = describe_distances([*near, *far]).split("; ")
    assert len(said) == MOST_LISTED + 1
    assert said[0] == "CPU 0 and CPU 15 are 315 ns apart: far"
    assert describe_distances(near) == "CPU 0 and each of CPU 1, 2, 3 are 101 .. 103 ns apart: near"
    assert describe_distances(near[:1]) == "CPU 0 and CPU 1 are 101 ns apart: near"
    assert describe_distances([]) == ""


def test_what_the_machine_has_shown() -> None:
    assert bands_text(None) == "no run has looked at these CPUs yet"
    assert bands_text(Bands(Band(70, 140))) == "runs here have seen one band: 70 .. 140 ns"
    assert bands_text(TWO_BANDS) == "runs here have seen two bands: near 70 .. 140 ns, far 240 .. 440 ns"


def test_places_are_read_from_sysfs_and_a_cache_that_nobody_tells_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cpu, l3 in ((0, "0-1"), (1, "0-1"), (2, "")):
        (tmp_path / f"cpu{cpu}" / "node1").mkdir(parents=True)
        if l3:
            (tmp_path / f"cpu{cpu}" / "cache" / "index3").mkdir(parents=True)
            (tmp_path / f"cpu{cpu}" / "cache" / "index3" / "shared_cpu_list").write_text(f"{l3}\n")
    (tmp_path / "isolated").write_text("2\n")
    monkeypatch.setattr(host_cpus.os, "sched_getaffinity", lambda _: {0, 1})
    assert read_cpu_topology(tmp_path) == {
        0: Cpu(0, 0, 1, (0, 1)),
        1: Cpu(1, 1, 1, (0, 1)),
        2: Cpu(2, 2, 1),
    }
