"""What goes wrong on a real testbed ends as a clear error or an invalid trial, never as a pass, and leaves nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from user_project import CONFTEST, IN_TRIAL, INCONCLUSIVE, make_project, needs_a_verdict, records

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.process.process import wait_until
from tests.functional.lab_support import pytest_in
from tests.functional.test_lock import holder
from tests.other_plugins import installed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces, hugepages, Open vSwitch")

WITHOUT = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
CACHE = build.default_cache_dir()  # now: pytester gives each test another home

HEADER = (
    """
import os, signal, threading
from pytest_nfvperf.model.traffic.traffic import Traffic

def later(seconds, what, *args):
    threading.Timer(seconds, what, args).start()
"""
    + IN_TRIAL
)

NEXT = """
def test_next(phy2phy, search):
    outcome = search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 0.5)
    assert outcome.loss_curve[0].loss_ratio == 0
"""


@contextmanager
def run_directory(monkeypatch: pytest.MonkeyPatch, name: str = "test") -> Iterator[Path]:
    """A run directory of a test's own; checks that nothing is left in it."""
    path = Path(f"/run/nfvperf-{name}-{os.getpid()}")
    monkeypatch.setenv("NFVPERF_RUN_DIR", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE.parent))
    build.build()
    path.mkdir()
    yield path
    assert left_behind(path) == []
    for lock in path.glob("*.lock"):
        lock.unlink()
    path.rmdir()


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_directory(monkeypatch) as path:
        yield path


@pytest.fixture
def project(pytester: pytest.Pytester, base: Path) -> pytest.Pytester:
    return make_project(pytester)


def left_behind(base: Path) -> list[str]:
    """Run directories, and processes and namespaces of those runs."""
    found = [str(path) for path in base.glob("*") if path.is_dir()]
    found += [path.name for path in Path("/run/netns").glob("nfv-*") if _of_ours(path.name, base)]
    return found + processes_below(base)


def _of_ours(netns: str, base: Path) -> bool:
    """A namespace whose run is in no other base directory."""
    tag = netns.split("-")[1]
    return not any((other / tag).is_dir() for other in Path("/run").glob("nfv*") if other != base)


def processes_below(base: Path) -> list[str]:
    """Command lines that name the base directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if entry.name.isdigit() and f"{base}/" in line:
            found.append(line)
    return found


def hugepages_in_use() -> int:
    fields = dict(
        line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("HugeP")
    )
    return int(fields["HugePages_Total:"]) - int(fields["HugePages_Free:"])


def run(project: pytest.Pytester, suite: str, *args: str) -> pytest.RunResult:
    make_project(project, HEADER + suite)
    return project.runpytest_subprocess("--nfv-report", "none", "-p", "no:cacheprovider", *args)


def test_a_run_measures_and_leaves_nothing(project):
    result = run(project, NEXT)

    result.assert_outcomes(passed=1)
    (trial,) = [r for r in records(project.path, "trial") if r["data"]["result"]["spec"]["purpose"] == "fixed load"][
        -1:
    ]
    for count in trial["data"]["result"]["counts"]:
        assert count["intended"] == count["sent"] + count["refused"] + count["skipped"] == 5000
        assert count["received"] == count["sent"]
    assert trial["data"]["ledger"]["unexplained"] == 0
    assert trial["data"]["cost"]["pmd_busy_ratio"] > 0
    assert "pmd_cycles_per_packet" not in trial["data"]["cost"], "far below saturation it is no cost"
    run_record = records(project.path, "run")[-1]["data"]
    assert run_record["testbed"]["discovered"] is True
    assert run_record["dut"]["kind"] == "dpdk"


FAULTS = (
    """
from pyroute2 import IPRoute
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.compose import phy2phy as plain

SENT = Traffic(frame_size=64)

def set_far_end(live, *states):
    device = list(live.deployment.built.attachments().values())[1]
    with IPRoute() as links:
        for state in states:
            links.link("set", index=links.link_lookup(ifname=device.partition("iface=")[2])[0], state=state)

def test_generator_stopped(phy2phy, search, nfv_session):
    pid = nfv_session.rig.generator().pid
    def stop_for_a_second():
        os.kill(pid, signal.SIGSTOP)
        later(1.0, os.kill, pid, signal.SIGCONT)  # from when it stopped, which may be late
    in_trial(nfv_session, lambda: later(0.4, stop_for_a_second))
    search.loss_at(phy2phy, SENT, 10_000, 2.0)

def test_flapped(deploy, search, nfv_session):
    live = deploy(plain(), dut=Dut("netdev"))
    in_trial(nfv_session, lambda: later(0.3, set_far_end, live, "down", "up"))
    outcome = search.loss_at(live, SENT, 1_000, 1.2)
    assert outcome.loss_curve[0].loss_ratio == 0

def test_switch_killed(phy2phy, search, nfv_session):
    pid = nfv_session.rig.datapath().instance.vswitchd.pid
    in_trial(nfv_session, lambda: later(0.3, os.kill, pid, signal.SIGKILL))
    search.loss_at(phy2phy, SENT, 10_000, 1.2)

def test_generator_killed(phy2phy, search, nfv_session):
    pid = nfv_session.rig.generator().pid
    in_trial(nfv_session, lambda: later(0.3, os.kill, pid, signal.SIGKILL))
    search.loss_at(phy2phy, SENT, 10_000, 1.2)
"""
    + NEXT
    + """
def test_port_down(phy2phy, search, nfv_session):
    nfv_session.rig.generator().detach(["p1"])
    search.loss_at(phy2phy, SENT, 10_000, 0.5)

def test_pulled(deploy, search, nfv_session):
    live = deploy(plain(), dut=Dut("netdev"))
    in_trial(nfv_session, lambda: later(0.3, set_far_end, live, "down"))
    search.loss_at(live, SENT, 1_000, 1.2)
"""
)


@dataclass(frozen=True)
class Run:
    """What a run of the faults left: its terminal, and its evidence."""

    terminal: str
    folder: Path

    def says(self, line: str) -> None:
        pytest.LineMatcher(self.terminal.splitlines()).fnmatch_lines([line])

    def end(self, test: str) -> dict[str, Any]:
        (found,) = (one["data"] for one in records(self.folder, "test_end") if one["test"].endswith(f"::{test}"))
        return found

    def trials(self, test: str) -> list[dict[str, Any]]:
        return [one["data"] for one in records(self.folder, "trial") if one["test"].endswith(f"::{test}")]


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One run, which meets one fault after the other."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_mine.py").write_text(HEADER + FAULTS)
    with pytest.MonkeyPatch.context() as monkeypatch, run_directory(monkeypatch, "faults"):
        done = pytest_in(folder, "--nfv-report=none", *WITHOUT)
        yield Run(done.stdout, folder)


BROKEN = {"test_switch_killed": "testbed", "test_generator_killed": "testbed", "test_pulled": "testbed"}


def test_every_fault_is_told_as_what_it_is(faults: Run) -> None:
    ends = {record["test"].rpartition("::")[2]: record["data"] for record in records(faults.folder, "test_end")}
    causes = {name: end["cause"] for name, end in ends.items() if end["cause"] not in {"", "inconclusive"}}
    assert causes == BROKEN | {"test_port_down": "usage"}


@pytest.mark.parametrize("test", ["test_generator_stopped", "test_flapped", "test_next"])
def test_what_does_not_break_the_testbed_is_measured(faults: Run, test: str) -> None:
    end = faults.end(test)
    if end["cause"] == "inconclusive":
        needs_a_verdict(INCONCLUSIVE, faults.terminal)
    assert end["status"] == "passed", end


def test_a_switch_killed_during_a_trial_breaks_the_testbed(faults: Run) -> None:
    faults.says("testbed error: *ovs-vswitchd*SIGKILL*")
    assert "ovs-vswitchd" in records(faults.folder, "error")[0]["data"]["message"]


def test_a_generator_killed_during_a_trial_breaks_the_testbed(faults: Run) -> None:
    faults.says("testbed error: *generator*SIGKILL*")


def skipped(trial: dict[str, Any]) -> float:
    """Share of a trial's frames that were due while the generator did not run."""
    counts = trial["result"]["counts"]
    return float(sum(each["skipped"] for each in counts) / sum(each["intended"] for each in counts))


def test_a_second_in_which_the_generator_was_stopped_does_not_speak_for_the_dut(faults: Run) -> None:
    """On a busy machine the trial is invalid; on a quiet one its other windows are enough, and they alone count."""
    trials = faults.trials("test_generator_stopped")
    (silent,) = (t for t in trials if t["result"]["spec"]["purpose"] != "warm-up" and skipped(t) > 0.4)
    reasons = {reason["code"] for reason in silent["result"]["invalid"]}
    counted = silent["undisturbed"]["windows"] / silent["undisturbed"]["of"]
    assert reasons & {"skipped_frames", "late_poll"} or 0.1 <= counted < 0.6
    assert not reasons or trials.index(silent) < len(trials) - 1, "an invalid one was repeated"


def test_a_port_that_goes_down_is_named(faults: Run) -> None:
    faults.says("*error: *p1*")
    assert "p1" in faults.end("test_port_down")["reason"]


def test_a_veth_pulled_during_a_trial_is_named(faults: Run) -> None:
    """Without DPDK ports are veth pairs: one was set down while frames passed."""
    faults.says("testbed error: *interface 'p1' has no link: it, or its other end, was set down*")


def test_a_veth_pulled_and_put_back_during_a_trial_makes_that_trial_invalid(faults: Run) -> None:
    """The trial was repeated, never counted as loss, and its record says which port lost its link."""
    told = [
        reason["detail"]
        for trial in faults.trials("test_flapped")
        for reason in trial["result"]["invalid"]
        if reason["code"] == "link_down"
    ]
    assert any(detail.startswith("p1 lost its link 1x") for detail in told), told


@pytest.mark.thorough("the moment in a trial is in make test")
@pytest.mark.parametrize("after_s", [0.05, 0.7], ids=["before", "warm-up"])
def test_a_switch_killed_before_a_trial(project: pytest.Pytester, after_s: float) -> None:
    """What sees it first differs, what is said does not."""
    result = run(
        project,
        f"DELAY_S = {after_s}"
        """
def test_killed(phy2phy, search, nfv_session):
    later(DELAY_S, os.kill, nfv_session.rig.datapath().instance.vswitchd.pid, signal.SIGKILL)
    search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 2.0)
""" + NEXT,
    )

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["testbed error: *ovs-vswitchd*SIGKILL*"])
    assert "ovs-vswitchd" in records(project.path, "error")[0]["data"]["message"]


MANY = """
from contextlib import suppress
from pytest_nfvperf import InconclusiveError

def test_many(phy2phy, search):
    for _ in range(200):
        with suppress(InconclusiveError):  # on a machine that others use: a trial that does not count is written, too
            search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 0.1)
"""


def test_a_full_disk_under_the_results(project, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "nfvperf-test", str(small)], check=True)
    try:
        result = run(project, MANY, "--nfv-results", str(small))
    finally:
        subprocess.run(["umount", str(small)], check=True)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*evidence file * No space left on device*"])


def test_two_runs_cannot_measure_on_the_same_cores(project, base):
    """That a run which measures holds them exclusively is in test_functional_beside.py."""
    cpus = discover_testbed().cpus
    with holder(base, ",".join(map(str, {*cpus.pmd, *cpus.generator}))) as first:
        result = run(project, NEXT, "--nfv-wait", "0 s")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"testbed error: *CPU *{first.pid}*"])


def generator_started(project: pytest.Pytester, base: Path) -> bool:
    return any(base.glob("*/nfv-*-gen.log"))


def warmed_up(project: pytest.Pytester, base: Path) -> bool:
    """The trial of a minute is next."""
    return any('"kind":"trial"' in file.read_text() for file in project.path.glob("reports/*/evidence.jsonl"))


@pytest.mark.parametrize(
    "moment", [pytest.param(generator_started, marks=pytest.mark.thorough("another moment")), warmed_up]
)
def test_interrupted_by_ctrl_c_it_ends_cleanly(project, base, moment):
    make_project(
        project,
        HEADER + "def test_long(phy2phy, search):\n    search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 60.0)\n",
    )
    # Whoever starts these tests in the background of a script leaves SIGINT ignored; a person's terminal does not.
    heeding = ["env", "--default-signal=INT", sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    running = subprocess.Popen(heeding, cwd=project.path, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: moment(project, base), moment.__name__, 60, interval_s=0.05)

        running.send_signal(signal.SIGINT)

        assert running.wait(timeout=30) == pytest.ExitCode.INTERRUPTED
    finally:
        running.kill()
        running.wait()


HASTY = """
import pytest

def hurry(seconds):
    "As if the limit of pytest-timeout, whose handler is there, were so short from now on."
    signal.setitimer(signal.ITIMER_REAL, seconds)

@pytest.fixture
def hasty():
    hurry(0.4)

def test_in_set_up(hasty, phy2phy):
    raise AssertionError("its set-up takes longer")

def test_in_trial(phy2phy, search, nfv_session):
    in_trial(nfv_session, lambda: hurry(0.7))
    search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 60.0)

def test_in_soak(phy2phy, soak):
    hurry(5)
    soak.run(phy2phy, Traffic(frame_size=64), load_fps=10_000)

def test_with_a_short_trial(phy2phy, search, nfv_session):
    in_trial(nfv_session, lambda: hurry(0.2))
    search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 1.0)
"""


@pytest.fixture(scope="session")
def others() -> Path:
    """Other people's plugins."""
    return installed()


@pytest.mark.thorough("needs another plugin")
def test_a_time_limit_of_pytest_timeout_spoils_no_later_test(others, project, monkeypatch):
    """Steps: let the limit of each test expire, in the set-up, a long trial, a soak and a short trial. Verify: the test
    after them measures, and the engine's answers to what was broken off are nobody's."""
    monkeypatch.setenv("PYTHONPATH", str(others))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = run(project, HASTY + NEXT, "-p", "nfvperf", "-p", "timeout", "--timeout=300", "--nfv-soak-duration=60s")

    result.assert_outcomes(passed=1, failed=3, errors=1)
    ends = {record["test"].rpartition("::")[2]: record["data"] for record in records(project.path, "test_end")}
    limit = {"test_in_trial", "test_in_soak", "test_with_a_short_trial"}
    assert {name for name, end in ends.items() if end["cause"] == "inconclusive"} == limit
    assert all(ends[name]["reason"].startswith("Timeout (>300.0s) from pytest-timeout") for name in limit)
    assert not records(project.path, "error"), "the testbed did not break"


def killed(project: pytest.Pytester, base: Path, reached: Callable[[], bool]) -> None:
    """Start a run, kill it by SIGKILL once it has reached that, and do what the next start does first."""
    running = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *WITHOUT, "--nfv-report", "none"],
        cwd=project.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(reached, "the moment to kill the run", 60, interval_s=0.05)
    finally:
        running.kill()
        running.wait()
    # What dies with its parent may need a moment; what does not is the next start's to remove.
    subprocess.run([sys.executable, "-m", "pytest_nfvperf.cli.main", "clean"], check=True, capture_output=True)


def test_kill_9_in_a_trial_leaves_nothing(project, base):
    before = hugepages_in_use()
    make_project(project, HEADER + NEXT.replace("0.5)", "60.0)"), CONFTEST)

    killed(project, base, lambda: warmed_up(project, base))

    assert left_behind(base) == []
    assert hugepages_in_use() <= before


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(4, marks=pytest.mark.thorough("random moments; one in a trial is in make test")),
        pytest.param(20, marks=pytest.mark.daily("many random moments")),
    ],
)
def test_kill_9_at_random_moments_leaves_nothing(project, base, kills):
    before = hugepages_in_use()
    make_project(project, HEADER + NEXT.replace("0.5)", "5.0)"), CONFTEST)
    chance = random.Random(2544 + kills)
    for _ in range(kills):
        moment = chance.uniform(0.6, 4.1)  # without hypothesis' plugin a run starts 0.9 s earlier
        until_s = time.monotonic() + moment

        killed(project, base, lambda: time.monotonic() >= until_s)  # noqa: B023 - called before the next one is set

        assert left_behind(base) == [], f"killed after {moment:.2f} s"
    assert hugepages_in_use() <= before
