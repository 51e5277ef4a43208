"""The machine's CPU time by whom it served: parts, their sum, and what is said where it does not add up."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.host.cpu_account import (
    CpuAccountant,
    cpu_accountant,
    cpu_quota,
    kernel_option,
    throttled_ns,
)
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
        self.untold_ns = 0
        self.machine({})

    def now_ns(self) -> int:
        """Of its one CPU: time passes as its ticks say, and what a host took without telling passes, too."""
        ticks = (self.path / "stat").read_text().split()[1:9]
        return sum(map(int, ticks)) * SECOND // 100 + self.untold_ns

    @property
    def accountant(self) -> CpuAccountant:
        return CpuAccountant(self.path, self.now_ns)

    def machine(self, ticks: dict[str, int]) -> None:
        kinds = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
        numbers = " ".join(str(ticks.get(kind, 0)) for kind in kinds)
        (self.path / "stat").write_text(f"cpu  {numbers} 0 0\ncpu0 {numbers} 0 0\n")

    def thread(
        self,
        pid: int,
        tid: int,
        comm: str,
        ns: int,
        *,
        kernel: bool = False,
        waited_ticks: tuple[int, int] = (0, 0),
        own_ns: int | None = None,
        started: int = 5,
    ) -> None:
        """``own_ns``: of the whole process, where it has other threads or had some."""
        task = self.path / str(pid) / "task" / str(tid)
        task.mkdir(parents=True, exist_ok=True)
        user, system = waited_ticks
        own = (ns if own_ns is None else own_ns) * 100 // SECOND
        flags = KTHREAD if kernel else 0
        (self.path / str(pid) / "stat").write_text(
            f"{pid} (a) name) S 1 1 1 0 -1 {flags} 0 0 0 0 {own} 0 {user} {system} 20 0 1 0 {started} 0"
        )
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
    accountant = proc.accountant
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


def test_processes_that_came_and_went_are_with_whoever_waited_for_them(proc: FakeProc) -> None:
    """Steps: a shell waits for two: one that was new, and one that had run for 0.2 s before; and we for an end. The
    second had waited for 70 s of others itself.

    Verify: the shell's 70.5 s less those 70.2 s; ours are not counted twice.
    """
    proc.thread(90, 90, "bash", 0, waited_ticks=(100, 50))
    proc.thread(91, 91, "make", SECOND // 5, waited_ticks=(7000, 0))
    proc.thread(os.getpid(), os.getpid(), "python", 0)
    accountant = proc.accountant
    accountant.begin({})
    shutil.rmtree(proc.path / "91")
    proc.thread(90, 90, "bash", 0, waited_ticks=(7130, 70))
    proc.thread(os.getpid(), os.getpid(), "python", 0, waited_ticks=(40, 0))
    proc.machine({"user": 70})
    found = accountant.end([part(CpuRole.SENDER, 0.4, "sender")])
    assert {(one.role, one.name): one.ns for one in found.parts} == {
        (CpuRole.SENDER, "sender"): SECOND * 4 // 10,
        (CpuRole.OTHER, "processes that ended"): SECOND * 3 // 10,
    }
    assert found.adds_up


def test_a_shell_that_began_meanwhile_has_waited_for_others(proc: FakeProc) -> None:
    """Steps: bash starts, runs a compiler for 0.5 s, and stays; another process has the number of one that ended.

    Verify: the compiler's time is there; what the two of one number had waited for is not taken from one another.
    """
    proc.thread(91, 91, "cron", 0, waited_ticks=(9000, 0))
    accountant = proc.accountant
    accountant.begin({})
    proc.thread(90, 90, "bash", 0, waited_ticks=(40, 10))
    proc.thread(91, 91, "sleep", 0, started=7)
    proc.thread(1, 1, "init", 0, waited_ticks=(9000, 0))
    found = accountant.end([])
    assert {(one.role, one.name): one.ns for one in found.parts} == {
        (CpuRole.OTHER, "processes that ended"): SECOND // 2
    }


def test_threads_that_came_and_went_are_with_their_process(proc: FakeProc) -> None:
    """Steps: threads of vswitchd and of another process end. Verify: their time; a tick of rounding is none."""
    for pid in (VSWITCHD, 90, 91):
        proc.thread(pid, pid, "main", SECOND, own_ns=SECOND)
    accountant = proc.accountant
    accountant.begin({VSWITCHD: CpuRole.VSWITCHD})
    proc.thread(VSWITCHD, VSWITCHD, "main", SECOND * 11 // 10, own_ns=SECOND * 13 // 10)
    proc.thread(90, 90, "main", SECOND, own_ns=SECOND * 15 // 10)
    proc.thread(91, 91, "main", SECOND, own_ns=SECOND + SECOND // 50)
    proc.machine({"user": 80})
    found = accountant.end([])
    assert {(one.role, one.name): one.ns for one in found.parts} == {
        (CpuRole.VSWITCHD, "main"): SECOND // 10,
        (CpuRole.VSWITCHD, "threads that ended"): SECOND // 5,
        (CpuRole.OTHER, "threads that ended"): SECOND // 2,
    }
    assert found.adds_up


def test_half_of_what_no_tick_counted_is_taken_for_busy_time(proc: FakeProc) -> None:
    """Steps: of 1 s the machine counts 0.5 s as busy and 0.4 s as idle; a thread had a CPU for 0.55 s."""
    proc.thread(90, 90, "busy", 0)
    accountant = proc.accountant
    accountant.begin({})
    proc.thread(90, 90, "busy", SECOND * 55 // 100)
    proc.machine({"user": 50, "idle": 35, "iowait": 5})
    proc.untold_ns = SECOND // 10
    found = accountant.end([])
    assert (found.elapsed_ns, found.machine_ns) == (SECOND, SECOND * 55 // 100)
    assert found.unexplained == 0


def test_stolen_time_that_was_idle_time_too_takes_nothing_from_busy_time(proc: FakeProc) -> None:
    accountant = proc.accountant
    accountant.begin({})
    proc.machine({"user": 50, "idle": 50, "steal": 10})
    proc.untold_ns = -SECOND // 10
    found = accountant.end([])
    assert (found.elapsed_ns, found.machine_ns) == (SECOND, SECOND // 2)


def test_what_the_machine_did_while_somebody_looked_is_halved(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps: the machine counts 0.4 s while the threads are looked at. Verify: half of that is before the look."""
    accountant = proc.accountant
    accountant.begin({})
    proc.machine({"user": 100})
    threads = accountant._threads

    def slowly(pid: int, *, kernel: bool) -> object:
        proc.machine({"user": 140})
        return threads(pid, kernel=kernel)

    monkeypatch.setattr(accountant, "_threads", slowly)
    assert accountant.end([]).machine_ns == SECOND * 12 // 10


def test_a_thread_that_took_anothers_number_began_at_nothing(proc: FakeProc) -> None:
    proc.thread(90, 90, "old", 5 * SECOND)
    accountant = proc.accountant
    accountant.begin({})
    proc.thread(90, 90, "new", SECOND)
    assert [(one.name, one.ns) for one in accountant.end([]).parts] == [("new", SECOND)]


def test_a_container_that_hides_the_rest_is_said(tmp_path: Path) -> None:
    inside = FakeProc(tmp_path)
    inside.thread(2, 2, "bash", 0)
    accountant = inside.accountant
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
        proc.accountant.end([])


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
    assert found.missing.endswith("" if adds_up else "processes that went with their parents are in no part")


def test_a_machine_that_counted_nothing_is_said() -> None:
    assert account(machine_s=0.0).missing == "the machine's own accounting counted no CPU time"


def control_groups(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A root with the groups of process 7 and of this one, and files of the groups."""
    for pid in ("7", "self"):
        (root / "proc" / pid).mkdir(parents=True)
        (root / "proc" / pid / "cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V1 = "4:memory:/other\n1:cpu,cpuacct:/docker/x\n0::/y\n"
V2 = "0::/docker/x\n"


@pytest.mark.parametrize(
    ("groups", "files", "throttled", "cpus"),
    [
        (
            V2,
            {"docker/x/cpu.stat": "usage_usec 9\nthrottled_usec 3\n", "docker/x/cpu.max": "50000 100000\n"},
            3000,
            0.5,
        ),
        (V2, {"docker/cpu.stat": "throttled_usec 2\n", "docker/cpu.max": "max 100000\n"}, 2000, None),
        (
            V1,
            {
                "cpu,cpuacct/docker/x/cpu.stat": "nr_throttled 1\nthrottled_time 5\n",
                "cpu,cpuacct/docker/x/cpu.cfs_quota_us": "150000\n",
                "cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000\n",
                "cpu,cpuacct/docker/cpu.stat": "throttled_time 6\n",
                "cpu,cpuacct/docker/cpu.cfs_quota_us": "-1\n",
                "cpu,cpuacct/docker/cpu.cfs_period_us": "100000\n",
            },
            11,
            1.5,
        ),
        (V2, {"cpu.stat": "usage_usec 9\n"}, None, None),
        ("", {}, None, None),
    ],
)
def test_the_quota_of_control_groups(
    tmp_path: Path, groups: str, files: dict[str, str], throttled: int | None, cpus: float | None
) -> None:
    root = control_groups(tmp_path, groups, files)
    assert (throttled_ns(7, root), cpu_quota(root)) == (throttled, cpus)
