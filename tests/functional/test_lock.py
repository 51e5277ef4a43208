"""The measurement lock between real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.process.lock import WORKER, MeasurementLock
from pytest_nfvperf.model.errors import ConfigError, TestbedError


@contextmanager
def holder(base: Path, cpus: str, *, shared: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds these CPUs."""
    code = (
        "import sys; from pathlib import Path\n"
        "from pytest_nfvperf.adapters.process.lock import WORKER, MeasurementLock\n"
        "cpus = [int(c) for c in sys.argv[2].split(',')]\n"
        "lock = MeasurementLock(cpus, 'other1', shared=bool(sys.argv[3]), base=Path(sys.argv[1]))\n"
        "print('held', flush=True); sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(base), cpus, "shared" if shared else ""],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_run_on_the_same_cpu_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    with holder(tmp_path, "1,2") as other:
        with pytest.raises(TestbedError) as caught:
            MeasurementLock([2, 3], "mine01", base=tmp_path)
        message = caught.value.message
        assert f"CPU 2 is being measured by another run: pid {other.pid}, run other1, command " in message
        assert "give this run other CPUs in the testbed file" in message


def test_a_sibling_of_xdist_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers of one run: plain -n 2 with one testbed."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    code = (
        "import sys; from pathlib import Path\n"
        "from pytest_nfvperf.adapters.process.lock import WORKER, MeasurementLock\n"
        "MeasurementLock([1], 'mine01', base=Path(sys.argv[1]))\n"
    )
    with holder(tmp_path, "1"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
        assert (
            "CPU 1 is being measured by worker gw0 of this very run: one testbed measures one test at a time. Wait "
            "longer (--nfv-wait), leave out -n, or give each worker a testbed with CPUs of its own (--nfv-testbed, "
            "once for each)"
        ) in done.stderr
        monkeypatch.delenv("PYTEST_XDIST_WORKER")
        with pytest.raises(TestbedError, match="by another run: pid"):
            MeasurementLock([1], "mine01", base=tmp_path)


def test_a_refused_run_holds_nothing(tmp_path: Path) -> None:
    with holder(tmp_path, "3"):
        with pytest.raises(TestbedError, match="CPU 3"):
            MeasurementLock([1, 3], "mine01", base=tmp_path)
        MeasurementLock([1], "mine02", base=tmp_path).close()


def test_disjoint_cpu_plans_coexist(tmp_path: Path) -> None:
    with holder(tmp_path, "0,1"), MeasurementLock([2, 3], "mine01", base=tmp_path):
        pass


def test_a_killed_holder_holds_no_more(tmp_path: Path) -> None:
    with holder(tmp_path, "1") as other:
        other.kill()
        other.wait()
        MeasurementLock([1], "mine01", base=tmp_path).close()


def test_waiting_gets_the_lock_when_it_is_let_go(tmp_path: Path) -> None:
    with holder(tmp_path, "1") as other:
        release = threading.Timer(0.3, other.kill)
        release.start()
        MeasurementLock([1], "mine01", wait_s=10, base=tmp_path).close()
        release.join()


def test_who_waits_says_for_whom_and_how_long(tmp_path: Path) -> None:
    said: list[str] = []
    with holder(tmp_path, "1") as other:
        with pytest.raises(TestbedError, match=r"waited 0\.1 s"):
            MeasurementLock([1], "mine01", wait_s=0.1, say=said.append, base=tmp_path)
        (line,) = said
        start = f"waits up to 100 ms for its turn: CPU 1 is being measured by pid {other.pid}, run other1, command "
        assert line.startswith(start)
    MeasurementLock([1], "mine01", wait_s=10, say=said.append, base=tmp_path).close()
    assert said == [line], "who need not wait says nothing"


def test_waiting_in_vain_says_for_how_long(tmp_path: Path) -> None:
    with holder(tmp_path, "1"), pytest.raises(TestbedError, match=r"run other1, .* \(waited 0.2 s\)"):
        MeasurementLock([1], "mine01", wait_s=0.2, base=tmp_path)


def test_letting_go_twice_is_fine_and_the_next_gets_it(tmp_path: Path) -> None:
    lock = MeasurementLock([1], "mine01", base=tmp_path)
    lock.close()
    lock.close()
    with MeasurementLock([1], "mine02", base=tmp_path):
        assert f'"pid": {os.getpid()}' in (tmp_path / "measure-cpu1.lock").read_text()


def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = MeasurementLock([1], "mine01", base=tmp_path)
    with subprocess.Popen(["sleep", "60"]) as child:
        lock.close()
        MeasurementLock([1], "mine02", base=tmp_path).close()
        child.kill()


def test_a_base_that_cannot_be_made_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file: (File exists|Not a directory); set NFVPERF_RUN_DIR to another"):
        MeasurementLock([1], "mine01", base=tmp_path / "file")


def test_functional_tests_share_and_who_measures_waits_for_the_last_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WORKER, raising=False)  # a worker waits for its siblings without a word
    said: list[str] = []
    with holder(tmp_path, "1", shared=True) as first, holder(tmp_path, "1", shared=True) as last:
        MeasurementLock([1], "mine01", shared=True, base=tmp_path).close()
        first.kill()
        first.wait()
        with pytest.raises(TestbedError) as caught:
            MeasurementLock([1], "mine02", wait_s=0.1, say=said.append, base=tmp_path)
        runs = f"CPU 1 runs functional tests of another run: pid {last.pid}, command "
        assert caught.value.message.startswith(runs)
        assert caught.value.message.endswith("(waited 0.1 s); wait longer (--nfv-wait), or stop it")
        assert said[0].startswith("waits up to 100 ms for its turn: CPU 1 runs functional tests of pid ")
        last.kill()
        last.wait()
        MeasurementLock([1], "mine03", base=tmp_path).close()


def test_functional_tests_wait_for_who_measures(tmp_path: Path) -> None:
    with holder(tmp_path, "1"), pytest.raises(TestbedError, match="CPU 1 is being measured by another run: pid"):
        MeasurementLock([1], "mine01", shared=True, base=tmp_path)
