"""What goes wrong on a real testbed ends as a clear error or an invalid trial, never as a pass, and leaves nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from user_project import CONFTEST, IN_TRIAL, make_project, records

from pytest_nfvperf.adapters.generators.embedded import build
from tests.other_plugins import installed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces, hugepages, Open vSwitch")

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


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run directory of this test's own; checks that nothing is left in it."""
    path = Path(f"/run/nfvperf-test-{os.getpid()}")
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


@pytest.mark.parametrize("after_s", [0.05, 0.7, 1.5], ids=["before", "warm-up", "trial"])
def test_vswitchd_killed_during_a_trial(project, after_s):
    """It dies before, in the warm-up of and in a trial; what sees it first differs, what is said does not."""
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


def test_generator_killed_during_a_trial(project):
    result = run(
        project,
        """
def test_killed(phy2phy, search, nfv_session):
    later(0.7, os.kill, nfv_session.rig.generator().pid, signal.SIGKILL)
    search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 2.0)
"""
        + NEXT,
    )

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["testbed error: *generator*SIGKILL*"])


def skipped(trial):
    """Share of a trial's frames that were due while the generator did not run."""
    counts = trial["result"]["counts"]
    return sum(each["skipped"] for each in counts) / sum(each["intended"] for each in counts)


def test_a_second_in_which_the_generator_was_stopped_does_not_speak_for_the_dut(project):
    """On a busy machine the trial is invalid; on a quiet one its other windows are enough, and they alone count."""
    result = run(
        project,
        """
def test_stopped(phy2phy, search, nfv_session):
    pid = nfv_session.rig.generator().pid
    def stop_for_a_second():
        later(0.5, os.kill, pid, signal.SIGSTOP)
        later(1.5, os.kill, pid, signal.SIGCONT)
    in_trial(nfv_session, stop_for_a_second)
    search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 2.0)
""",
    )

    result.assert_outcomes(passed=1)
    trials = [r["data"] for r in records(project.path, "trial")]
    (silent,) = (t for t in trials if t["result"]["spec"]["purpose"] != "warm-up" and skipped(t) > 0.4)
    reasons = {reason["code"] for reason in silent["result"]["invalid"]}
    counted = silent["undisturbed"]["windows"] / silent["undisturbed"]["of"]
    assert reasons & {"skipped_frames", "late_poll"} or 0.1 <= counted < 0.6
    assert not trials[-1]["result"]["invalid"], "an invalid one was repeated"


def test_a_port_that_goes_down(project):
    result = run(
        project,
        """
def test_down(phy2phy, search, nfv_session):
    nfv_session.rig.generator().detach(["p1"])
    search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 0.5)
""",
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*error: *p1*"])


MANY = """
def test_many(phy2phy, search):
    for _ in range(200):
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


def test_two_runs_cannot_measure_on_the_same_cores(project):
    make_project(
        project, HEADER + "import time\ndef test_long(phy2phy):\n    print('up', flush=True)\n    time.sleep(30)\n"
    )
    first = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"],
        cwd=project.path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert first.stdout is not None
        assert any("up" in line for line in first.stdout)
        result = run(project, NEXT, "--nfv-wait", "0 s")
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=30)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["testbed error: *CPU *" + str(first.pid) + "*"])


def generator_started(project: pytest.Pytester, base: Path) -> bool:
    return any(base.glob("*/nfv-*-gen.log"))


def warmed_up(project: pytest.Pytester, base: Path) -> bool:
    """The trial of a minute is next."""
    return any('"kind":"trial"' in file.read_text() for file in project.path.glob("reports/*/evidence.jsonl"))


@pytest.mark.parametrize("moment", [generator_started, warmed_up])
def test_interrupted_by_ctrl_c_it_ends_cleanly(project, base, moment):
    make_project(
        project,
        HEADER + "def test_long(phy2phy, search):\n    search.loss_at(phy2phy, Traffic(frame_size=64), 10_000, 60.0)\n",
    )
    # Whoever starts these tests in the background of a script leaves SIGINT ignored; a person's terminal does not.
    heeding = ["env", "--default-signal=INT", sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    running = subprocess.Popen(heeding, cwd=project.path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    try:
        while not moment(project, base):
            assert time.monotonic() < deadline, f"{moment.__name__}: not seen"
            time.sleep(0.05)

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


WITHOUT = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")


def test_kill_9_at_20_random_moments_leaves_nothing(project, base):
    before = hugepages_in_use()
    make_project(project, HEADER + NEXT.replace("0.5)", "5.0)"), CONFTEST)
    chance = random.Random(2544)
    for _ in range(20):
        moment = chance.uniform(0.6, 4.1)  # without hypothesis' plugin a run starts 0.9 s earlier
        running = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *WITHOUT, "--nfv-report", "none"],
            cwd=project.path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moment)
        running.kill()
        running.wait()

        # What dies with its parent may need a moment; what does not is the next start's to remove.
        subprocess.run([sys.executable, "-m", "pytest_nfvperf.cli.main", "clean"], check=True, capture_output=True)

        assert left_behind(base) == [], f"killed after {moment:.2f} s"
    assert hugepages_in_use() <= before


PULL = """
from pyroute2 import IPRoute
from pytest_nfvperf.model.testbed.testbed import Dut

def set_far_end(live, *states):
    device = live.deployment.built.attachments()[1].device
    with IPRoute() as links:
        for state in states:
            links.link("set", index=links.link_lookup(ifname=device.partition("iface=")[2])[0], state=state)
"""


def test_a_veth_pulled_during_a_trial_is_named(project):
    """Steps: without DPDK ports are veth pairs; set one down while frames pass. Verify: an error with its name."""
    result = run(
        project,
        PULL
        + """
from pytest_nfvperf.model.topology.compose import phy2phy as plain

def test_pulled(deploy, search):
    live = deploy(plain(), dut=Dut("netdev"))
    later(0.7, set_far_end, live, "down")
    search.loss_at(live, Traffic(frame_size=64), 1_000, 2.0)
""",
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["testbed error: *interface 'p1' has no link: it, or its other end, was set down*"])


def test_a_veth_pulled_and_put_back_during_a_trial_makes_that_trial_invalid(project):
    """Verify: the trial is repeated, never counted as loss, and its record says which port lost its link."""
    result = run(
        project,
        PULL
        + """
from pytest_nfvperf.model.topology.compose import phy2phy as plain

def test_flapped(deploy, search, nfv_session):
    live = deploy(plain(), dut=Dut("netdev"))
    in_trial(nfv_session, lambda: later(0.7, set_far_end, live, "down", "up"))
    outcome = search.loss_at(live, Traffic(frame_size=64), 1_000, 2.0)
    assert outcome.loss_curve[0].loss_ratio == 0
""",
    )

    result.assert_outcomes(passed=1)
    trials = [record["data"]["result"] for record in records(project.path, "trial")]
    told = [reason["detail"] for trial in trials for reason in trial["invalid"] if reason["code"] == "link_down"]
    assert any(detail.startswith("p1 lost its link 1x") for detail in told), told
