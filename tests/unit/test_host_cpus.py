"""CPU plans from made-up machines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.host.cpus import isolated_cpus, parse_cpu_list, plan_cpus, read_cpus
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.cpu_neighbours import Cpu
from pytest_nfvperf.model.testbed.testbed import CpuPlan


def cores(*numbers: int, node: int = 0) -> tuple[Cpu, ...]:
    return tuple(Cpu(number, number, node) for number in numbers)


def test_two_cores_share_housekeeping_and_generator() -> None:
    assert plan_cpus(cores(0, 1)) == CpuPlan(housekeeping=(0,), pmd=(1,), generator=(0,))


def test_three_cores_have_an_owner_each() -> None:
    assert plan_cpus(cores(4, 5, 6)) == CpuPlan(housekeeping=(4,), pmd=(6,), generator=(5,))


def test_more_cores_are_for_vnfs() -> None:
    assert plan_cpus(cores(0, 1, 2, 3, 4)) == CpuPlan(housekeeping=(0,), generator=(1,), pmd=(2,), vnf=(3, 4))


def test_smt_siblings_of_polling_cores_stay_idle() -> None:
    machine = tuple(Cpu(number, number % 3, 0) for number in range(6))
    assert plan_cpus(machine) == CpuPlan(housekeeping=(0,), generator=(1,), pmd=(2,))


def test_all_polling_is_on_the_larger_numa_node() -> None:
    machine = cores(0, 1) + cores(2, 3, 4, node=1)
    assert plan_cpus(machine) == CpuPlan(housekeeping=(2,), generator=(3,), pmd=(4,))


@pytest.mark.parametrize("machine", [cores(3), (Cpu(0, 0, 0), Cpu(1, 0, 0)), cores(0) + cores(1, node=1)])
def test_one_core_cannot_measure(machine: tuple[Cpu, ...]) -> None:
    with pytest.raises(TestbedError, match=r"needs 2 physical cores on one NUMA node .* may use CPUs \d") as caught:
        plan_cpus(machine)
    assert "another core" in caught.value.message


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 1)), max_size=16))
def test_a_plan_uses_allowed_cpus_once_but_for_the_shared_one(machine: list[tuple[int, int]]) -> None:
    cpus = tuple(Cpu(number, core * 2 + node, node) for number, (core, node) in enumerate(machine))
    try:
        plan = plan_cpus(cpus)
    except TestbedError:
        nodes = [{cpu.core for cpu in cpus if cpu.node == node} for node in (0, 1)]
        assert max(map(len, nodes)) < 2
        return
    used = [*plan.housekeeping, *plan.pmd, *plan.generator, *plan.vnf]
    assert set(used) <= {cpu.number for cpu in cpus}
    by_number = {cpu.number: cpu for cpu in cpus}
    assert len({by_number[number].node for number in used}) == 1
    assert set(plan.shared) <= set(plan.housekeeping) & set(plan.generator)
    assert len({by_number[number].core for number in used}) == len(set(used))


@given(st.sets(st.integers(0, 300), max_size=40))
def test_cpu_lists_are_read_as_the_kernel_writes_them(numbers: set[int]) -> None:
    assert parse_cpu_list(kernel_list(sorted(numbers))) == tuple(sorted(numbers))


def kernel_list(numbers: list[int]) -> str:
    parts: list[str] = []
    while numbers:
        last = numbers[0]
        while last + 1 in numbers:
            last += 1
        parts.append(str(numbers[0]) if last == numbers[0] else f"{numbers[0]}-{last}")
        numbers = [number for number in numbers if number > last]
    return ",".join(parts) + "\n"


def test_topology_is_read_from_sysfs(tmp_path: Path) -> None:
    for number, siblings, node in ((0, "0,2", 0), (1, "1", 1), (2, "0,2", 0)):
        (tmp_path / f"cpu{number}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{number}" / "topology" / "thread_siblings_list").write_text(siblings + "\n")
        (tmp_path / f"cpu{number}" / f"node{node}").mkdir()
    (tmp_path / "cpu3").mkdir()
    assert read_cpus([0, 1, 2, 3], tmp_path) == (Cpu(0, 0, 0), Cpu(1, 1, 1), Cpu(2, 0, 0), Cpu(3, 3, 0))


def test_isolated_cpus_are_read_or_none(tmp_path: Path) -> None:
    assert isolated_cpus(tmp_path) == ()
    (tmp_path / "isolated").write_text("2-3,6\n")
    assert isolated_cpus(tmp_path) == (2, 3, 6)
