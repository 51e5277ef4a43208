"""The machine's CPU time by whom it served: parts, their sum, and what is said where it does not add up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.cpu_account import CpuAccountant, cpu_accountant
from pytest_nfvperf.adapters.host.kernel_config import kernel_option
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuAccount, CpuPart, CpuRole, merged, with_pmd_split

SECOND = 1_000_000_000
VSWITCHD = 40
KTHREAD = 0x00200000


def account(*parts: CpuPart, machine_s: float = 2.0, softirq_s: float = 0.0, blind: tuple[str, ...] = ()) -> CpuAccount:
    return CpuAccount(SECOND * 2, round(machine_s * SECOND), round(softirq_s * SECOND), 0, False, merged(parts), blind)


def part(role: CpuRole, seconds: float, name: str = "x") -> CpuPart:
    return CpuPart(role, name, round(seconds * SECOND), 10)


class FakeProc:
    """A /proc with a handful of threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.machine({})

    def machine(self, ticks: dict[str, int]) -> None:
        kinds = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
        numbers = " ".join(str(ticks.get(kind, 0)) for kind in kinds)
        (self.path / "stat").write_text(f"cpu  {numbers} 0 0\ncpu0 {numbers} 0 0\n")

    def thread(self, pid: int, tid: int, comm: str, ns: int, *, kernel: bool = False) -> None:
        task = self.path / str(pid) / "task" / str(tid)
        task.mkdir(parents=True, exist_ok=True)
        (self.path / str(pid) / "stat").write_text(f"{pid} (a) name) S 1 1 1 0 -1 {KTHREAD if kernel else 0} 0")
        (self.path / str(pid) / "comm").write_text(comm + "\n")
        (task / "comm").write_text(comm + "\n")
        (task / "schedstat").write_text(f"{ns} 0 {ns // 1000}\n")


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    made = FakeProc(tmp_path)
    made.thread(2, 2, "kthreadd", 0, kernel=True)
    return made


def test_every_thread_finds_its_part(proc: FakeProc) -> None:
    before = {
        (VSWITCHD, VSWITCHD, "ovs-vswitchd"): 10,
        (VSWITCHD, 41, "pmd-c01/id:8"): 100,
        (VSWITCHD, 42, "handler1"): 5,
        (VSWITCHD, 43, "handler2"): 5,
        (os.getpid(), os.getpid(), "python"): 7,
        (90, 90, "sshd"): 3,
    }
    for (pid, tid, comm), ns in before.items():
        proc.thread(pid, tid, comm, ns)
    proc.thread(9, 9, "ksoftirqd/0", 20, kernel=True)
    accountant = CpuAccountant(proc.path)
    accountant.begin({VSWITCHD: CpuRole.VSWITCHD})
    for (pid, tid, comm), ns in before.items():
        proc.thread(pid, tid, comm, ns + SECOND // 10)
    proc.thread(9, 9, "ksoftirqd/0", 20 + SECOND // 10, kernel=True)
    proc.machine({"user": 50, "system": 20, "softirq": 10, "steal": 4})
    found = accountant.end([part(CpuRole.SENDER, 0.1, "sender")])

    assert {(one.role, one.name): one.ns for one in found.parts} == {
        (CpuRole.PMD, "pmd-c01"): SECOND // 10,
        (CpuRole.VSWITCHD, "handler"): SECOND // 5,
        (CpuRole.VSWITCHD, "ovs-vswitchd"): SECOND // 10,
        (CpuRole.TEST, "python"): SECOND // 10,
        (CpuRole.OTHER, "sshd"): SECOND // 10,
        (CpuRole.KERNEL, "ksoftirqd"): SECOND // 10,
        (CpuRole.SENDER, "sender"): SECOND // 10,
    }
    assert (found.machine_ns, found.softirq_ns, found.steal_ns) == (800_000_000, 100_000_000, 40_000_000)
    assert found.adds_up
    assert found.missing == ""
    assert found.blind == ("this kernel does not tell (/proc/config.gz) whether it charges softirq time to threads",)


def test_a_thread_that_took_anothers_number_began_at_nothing(proc: FakeProc) -> None:
    proc.thread(90, 90, "old", 5 * SECOND)
    accountant = CpuAccountant(proc.path)
    accountant.begin({})
    proc.thread(90, 90, "new", SECOND)
    assert [(one.name, one.ns) for one in accountant.end([]).parts] == [("new", SECOND)]


def test_a_container_that_hides_the_rest_is_said(tmp_path: Path) -> None:
    inside = FakeProc(tmp_path)
    inside.thread(2, 2, "bash", 0)
    accountant = CpuAccountant(tmp_path)
    accountant.begin({})
    inside.machine({"user": 100})
    found = accountant.end([])
    assert found.missing.startswith(
        "the parts are 0.00 s of CPU, the machine counted 1.00 s, a difference of -100.0%: "
    )
    assert "kernel threads and other containers' processes cannot be seen from this PID namespace" in found.missing


def test_a_kernel_that_does_not_count_threads_is_told(tmp_path: Path) -> None:
    FakeProc(tmp_path)
    with pytest.raises(TestbedError, match=r"does not count threads' CPU time: it needs CONFIG_SCHED_INFO"):
        CpuAccountant(tmp_path).begin({})


def test_a_kernel_without_schedstat_has_no_accountant(tmp_path: Path) -> None:
    assert cpu_accountant(tmp_path) is None
    assert cpu_accountant() is not None


def test_an_end_without_a_beginning_is_a_mistake(proc: FakeProc) -> None:
    with pytest.raises(ValueError, match="begin"):
        CpuAccountant(proc.path).end([])


def test_this_machine_is_accounted_for() -> None:
    """On the real /proc: this process computes, and is seen to."""
    accountant = CpuAccountant()
    accountant.begin({})
    sum(number * number for number in range(300_000))
    found = accountant.end([])
    assert found.of(CpuRole.TEST) > 0
    assert found.elapsed_ns > 0


@pytest.mark.parametrize(("text", "said"), [("CONFIG_HZ=250\nCONFIG_IRQ_TIME_ACCOUNTING=y\n", True), ("\n", False)])
def test_a_kernels_options_are_read_where_it_tells(tmp_path: Path, text: str, said: bool) -> None:
    (tmp_path / f"config-{os.uname().release}").write_text(f"# a kernel\n{text}")
    assert kernel_option("IRQ_TIME_ACCOUNTING", tmp_path, tmp_path) is said
    assert kernel_option("IRQ_TIME_ACCOUNTING", tmp_path / "none", tmp_path / "none") is None


def test_a_pmds_time_is_parted_by_its_cycles() -> None:
    whole = account(part(CpuRole.PMD, 2.0, "pmd-c01"), part(CpuRole.VSWITCHD, 0.1))
    parted = with_pmd_split(whole, 0.25)
    assert parted.of(CpuRole.PMD_BUSY) == SECOND // 2
    assert parted.of(CpuRole.PMD_IDLE) == SECOND * 3 // 2
    assert (parted.sum_ns, parted.switches) == (whole.sum_ns, whole.switches)
    assert with_pmd_split(whole, None) is whole


def test_cores_of_pmds_are_over_all_time_and_others_over_the_streams() -> None:
    """2 s in all, streams for 1 s of them."""
    seen = account(
        part(CpuRole.PMD_IDLE, 2.0), part(CpuRole.VSWITCHD, 0.5), part(CpuRole.TEST, 0.3), part(CpuRole.SENDER, 0.2),
        softirq_s=0.4,
    )  # fmt: skip
    assert seen.datapath_cores(SECOND, in_kernel=False) == pytest.approx(1.5)
    assert seen.datapath_cores(SECOND, in_kernel=True) == pytest.approx(1.9)
    assert seen.cost_cores(SECOND) == pytest.approx(1.7), "the test process is no part of the cost"


@pytest.mark.parametrize(("machine_s", "adds_up"), [(1.0, True), (1.04, True), (1.07, False), (0.94, False)])
def test_within_five_per_cent_it_adds_up(machine_s: float, adds_up: bool) -> None:
    found = account(part(CpuRole.SENDER, 1.0), machine_s=machine_s)
    assert found.adds_up is adds_up
    assert bool(found.missing) is not adds_up
    assert found.missing.endswith("" if adds_up else "the machine's ticks count what a host took without telling it")


def test_a_machine_that_counted_nothing_is_said() -> None:
    assert account(machine_s=0.0).missing == "the machine's own accounting counted no CPU time"
