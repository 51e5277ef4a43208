"""Places of labgrid: with a coordinator and an exporter of labgrid's own, and with a client that stands for them.

The first need labgrid in an environment of its own: NFV_LABGRID_DIR names its directory of programs.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from truth_support import SIMULATED
from user_project import CONFTEST, make_project

from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.features.labgrid.place import PlaceLease
from pytest_nfvperf.model.errors import ConfigError

TESTBED = "schema: 1\nname: {name}\ndut: {{ovs: {{instance: private, datapath: netdev}}}}\n"
DEADLINE_S = 20.0

STAND_IN = """#!/bin/sh
cd {place}
echo "$@" >>calls
case "$*" in
"reserve --shell nic=none") echo "no such tag" >&2; exit 1 ;;
reserve*) echo "export LG_TOKEN=TOKEN" ;;
"wait TOKEN") while [ ! -e free ]; do sleep 0.05; done ;;
*acquire) echo "acquired place rack-a" ;;
esac
"""
HOLD = (
    "import sys, time\nfrom pytest_nfvperf.features.labgrid.place import PlaceLease\nlease = PlaceLease('nic=cx6')\n"
    "while not lease.poll(): time.sleep(0.05)\nprint('held', flush=True)\nsys.stdin.readline()\n"
)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What a stand-in for labgrid's client was asked, while a file ``free`` says whether there is a place."""
    client = tmp_path / "labgrid-client"
    client.write_text(STAND_IN.format(place=tmp_path))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return lambda: (tmp_path / "calls").read_text().splitlines()


RELEASED = ["-p rack-a release", "cancel-reservation TOKEN"]


def test_a_place_is_waited_for_and_released(calls: Callable[[], list[str]], tmp_path: Path) -> None:
    lease = PlaceLease("nic=cx6,speed=100g")
    wait_until(lambda: lease.poll() or lease.waits, "the queue", DEADLINE_S)
    assert (lease.poll(), lease.waits) == ("", True)
    (tmp_path / "free").touch()
    wait_until(lambda: lease.poll() == "rack-a", "the place", DEADLINE_S)
    lease.close()
    lease.close()
    assert calls() == ["reserve --shell nic=cx6 speed=100g", "wait TOKEN", "-p +TOKEN acquire", *RELEASED]


def test_who_leaves_the_queue_cancels_his_reservation(calls: Callable[[], list[str]]) -> None:
    lease = PlaceLease("nic=cx6")
    wait_until(lambda: lease.poll() or lease.waits, "the queue", DEADLINE_S)
    lease.close()
    assert calls()[-1] == "cancel-reservation TOKEN"
    assert "-p +TOKEN acquire" not in calls()


def test_kill_9_releases_the_place(calls: Callable[[], list[str]], tmp_path: Path) -> None:
    (tmp_path / "free").touch()
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"held\n"
        run.kill()
    wait_until(lambda: calls()[-2:] == RELEASED, "the release", DEADLINE_S)


def test_what_labgrid_refuses_is_told(calls: Callable[[], list[str]]) -> None:
    lease = PlaceLease("nic=none")
    with pytest.raises(ConfigError, match=r"labgrid leases no place with nic=none: reserve .*: no such tag"):
        wait_until(lease.poll, "an answer", DEADLINE_S)
    lease.close()
    assert calls() == ["reserve --shell nic=none"]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """A coordinator with the place rack-a, which has the tag nic=cx6 and a resource of an exporter; its client."""
    programs = os.environ.get("NFV_LABGRID_DIR", "")
    if not programs:
        pytest.skip("needs labgrid in an environment of its own: NFV_LABGRID_DIR names its directory of programs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("LG_COORDINATOR", address)
    (tmp_path / "exporter.yaml").write_text("rack:\n  NetworkService:\n    address: 127.0.0.1\n    username: root\n")

    def client(*words: str) -> str:
        command = [f"{programs}/labgrid-client", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S).stdout

    def answers(what: str, text: str) -> bool:
        try:
            return text in client(what)
        except subprocess.CalledProcessError:
            return False

    started = [subprocess.Popen([f"{programs}/labgrid-coordinator", "-l", address], cwd=tmp_path)]
    try:
        wait_until(lambda: answers("places", ""), "the coordinator", DEADLINE_S)
        exporter = [f"{programs}/labgrid-exporter", "-c", address, "exporter.yaml"]
        started.append(subprocess.Popen(exporter, cwd=tmp_path))
        wait_until(lambda: answers("resources", "rack"), "the exporter's resource at the coordinator", DEADLINE_S)
        client("-p", "rack-a", "create")
        client("-p", "rack-a", "set-tags", "nic=cx6")
        client("-p", "rack-a", "add-match", "*/rack/*")
        yield client
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGINT)
            process.wait(DEADLINE_S)


def test_a_run_leases_a_place_of_a_coordinator(lab: Callable[..., str], pytester: pytest.Pytester) -> None:
    """It has the place while its test runs and no more after it; a place that others have is waited for."""
    test = "import subprocess\ndef test_it(phy2phy):\n    print(subprocess.check_output(['labgrid-client', 'who']))\n"
    make_project(pytester, test, CONFTEST + SIMULATED)
    racks = pytester.path / "racks"
    racks.mkdir()
    (racks / "rack-a.yaml").write_text(TESTBED.format(name="rack-a"))
    given = ("-p", "no:cacheprovider", "--nfv-report", "none", "--nfv-testbed", "racks?nic=cx6")

    held = pytester.runpytest_subprocess(*given, "-s")

    held.assert_outcomes(passed=1)
    held.stdout.fnmatch_lines(["*profile quick, testbed rack-a*", "*rack-a*"])
    assert "rack-a" not in lab("who")
    lab("-p", "rack-a", "acquire")
    waited = pytester.runpytest_subprocess(*given, "--nfv-wait", "4 s")
    waited.stdout.fnmatch_lines(["*waits up to 4* s for a place of labgrid with nic=cx6*"])
    assert "no place of labgrid with nic=cx6 became free" in waited.outlines[-1]
    assert "Reservation" not in lab("reservations")
    lab("-p", "rack-a", "release")
    (racks / "rack-a.yaml").unlink()
    missing = pytester.runpytest_subprocess(*given)
    assert "labgrid leased the place 'rack-a', which has no testbed file here" in missing.outlines[-1]
    assert "rack-a" not in lab("who")
