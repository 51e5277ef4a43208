"""A node on another machine, reached over a real sshd: frames, the ledger over both, faults, and what is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf import __version__
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.model.errors import UnavailableError
from tests.functional.ovs_support import needs_root, until
from tests.functional.two_hosts import SUITE, TwoHosts, two_hosts
from tests.ssh_machines import needed_sshd
from tests.user_project import IN_TRIAL, records


def _lacks() -> str:
    try:
        needed_sshd()
    except UnavailableError as error:
        return str(error)
    return ""


pytestmark = [
    needs_root,
    pytest.mark.thorough("far nodes"),
    pytest.mark.skipif(bool(_lacks()), reason=_lacks() or "sshd is there"),
]

AN_HOUR_AHEAD = """
import time
wall, since_boot = time.time_ns, time.monotonic_ns
time.time_ns = lambda: wall() + 3600 * 10**9
time.monotonic_ns = lambda: since_boot() + 3600 * 10**9
"""
DROPPED = (
    SUITE
    + IN_TRIAL
    + """
import time

def test_dates(deploy):
    live = deploy(vm_to_vm("vxlan"))
    now = time.monotonic_ns()
    dates = {taken.source: taken.time_ns - now for taken in live.counters()}
    assert "node2.ovs" in dates
    assert all(0 < date < 60e9 for date in dates.values()), dates

def test_dropped(deploy, search, nfv_session):
    live = deploy(vm_to_vm("vxlan"))
    drop = ["priority=0,actions=drop"]
    in_trial(nfv_session, lambda: live.deployment.built.node("node2").replace_flows("br-int2", drop))
    search.loss_at(live, ONE_WAY, 1_000, 0.5)
    nodes = {name: live.deployment.built.node(name).offload_share() for name in ("node1", "node2")}
    assert all(share.software > 0 == share.full for share in nodes.values()), nodes
    assert live.deployment.built.offload_share().software == sum(share.software for share in nodes.values())
"""
)
CUT = (
    SUITE
    + IN_TRIAL
    + """
import os, threading
import psutil

def cut():
    for session in psutil.Process(int(os.environ["FAR_SSHD"])).children(recursive=True):
        if session.name().startswith("WHO"):
            session.kill()

def test_cut(deploy, search, nfv_session):
    live = deploy(vm_to_vm("vxlan"))
    in_trial(nfv_session, lambda: threading.Timer(0.2, cut).start())
    search.loss_at(live, ONE_WAY, 1_000, 0.6)

def test_again(deploy, search, sla):
    test_light_load(deploy, search, sla)
"""
)
ENDLESS = """
from pathlib import Path
from pytest_nfvperf import Traffic, vm_to_vm

def test_endless(deploy, search):
    live = deploy(vm_to_vm("vxlan"))
    Path("deployed").touch()
    search.loss_at(live, Traffic(frame_size=256, bidirectional=False), 1_000, 60)
"""


def last_trial(hosts: TwoHosts, test: str) -> dict[str, Any]:
    """What the evidence has of a test's last valid trial."""
    found = [record["data"] for record in records(hosts.folder, "trial") if record["test"].endswith(test)]
    return [trial for trial in found if not trial["result"]["invalid"]][-1]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[TwoHosts]:
    with two_hosts(tmp_path) as made:
        yield made
        assert made.left_there() == []


def test_frames_cross_both_hosts_and_the_ledger_is_closed_though_clocks_differ(hosts: TwoHosts) -> None:
    hosts.write(DROPPED)
    done = hosts.pytest(hosts.lab(python=hosts.interpreter("ahead", AN_HOUR_AHEAD)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "node:      node2: underlay by up2, on dut2 by ssh" in done.stdout
    passed, dropped = (last_trial(hosts, test) for test in ("test_light_load", "test_dropped"))
    ledger = passed["ledger"]
    assert ledger["received"] == ledger["offered"] > 100
    assert ledger["unexplained"] == 0
    moved = {change["name"]: change["delta"] for change in ledger["deltas"]}
    there = {moved[name] for name in ("up1.tx_packets", "up2.rx_packets", "node2.main.packets_received")}
    assert there == {ledger["received"]}
    assert (dropped["ledger"]["received"], dropped["ledger"]["unexplained"]) == (0, 0)
    assert "node2" in str(dropped["ledger"])
    (run,) = records(hosts.folder, "run")[-1:]
    facts = run["data"]["fingerprint"]["far_nodes"]["node2"]
    assert (facts["ovs"], facts["nfvperf"]) == (locate().version, __version__)


@pytest.mark.parametrize(
    ("who", "said"),
    [("sshd", "closed by remote host"), ("python", "without a word of ssh's: the far end's Python was ended")],
    ids=["sshd", "the far end"],
)
def test_a_connection_cut_in_a_trial_breaks_the_testbed_and_the_next_test_has_it_again(
    hosts: TwoHosts, who: str, said: str
) -> None:
    hosts.write(CUT.replace("WHO", who))
    done = hosts.pytest(hosts.lab())
    assert done.returncode == 11, done.stdout + done.stderr  # the testbed broke: docs/reference/exit-status.md
    assert "testbed error: node node2: the connection to dut2 ended: " in done.stdout
    assert "the far end removes by itself what it made" in done.stdout
    assert "1 failed, 2 passed" in done.stdout
    assert said in done.stdout, "ssh's own words"


def test_what_a_killed_run_made_there_goes_by_itself(hosts: TwoHosts) -> None:
    hosts.write(ENDLESS)
    command = hosts.command(*hosts.pytest_arguments(hosts.lab()))
    run = subprocess.Popen(command, cwd=hosts.folder, env=hosts.environment, stdout=subprocess.DEVNULL)
    try:
        assert until((hosts.folder / "deployed").exists, 40)
        assert hosts.left_there() != []
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert until(lambda: hosts.left_there() == [], 20), hosts.left_there()
    cleaned = hosts.run("-m", "pytest_nfvperf.cli.main", "clean")
    assert "removed borrowed up1" in cleaned.stdout, cleaned.stdout + cleaned.stderr


def test_ctrl_c_ends_both_hosts_in_order(hosts: TwoHosts) -> None:
    """The terminal's signal goes to the whole group, ssh included."""
    hosts.write(ENDLESS)
    command = hosts.command(*hosts.pytest_arguments(hosts.lab()))
    run = subprocess.Popen(
        command, cwd=hosts.folder, env=hosts.environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert until((hosts.folder / "deployed").exists, 40)
        os.killpg(run.pid, signal.SIGINT)
        said, _ = run.communicate(timeout=30)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 2, said
    assert "the connection to dut2" not in said
    assert hosts.left_there() == []


def test_both_nodes_may_be_other_machines(tmp_path: Path) -> None:
    """This one has the generator only."""
    with two_hosts(tmp_path, ("dut1", "dut2")) as hosts:
        done = hosts.pytest(hosts.lab())
        assert done.returncode == 0, done.stdout + done.stderr
        (info,) = {record["data"]["info"]["detail"] for record in records(tmp_path, "topology")}
        assert hosts.left_there() == []
    assert "on dut1" in info
    assert "on dut2" in info
    ledger = last_trial(hosts, "test_light_load")["ledger"]
    moved = {change["name"]: change["delta"] for change in ledger["deltas"]}
    assert moved["up1.tx_packets"] == moved["up2.rx_packets"] == ledger["received"] > 100
    assert ledger["unexplained"] == 0


def test_a_host_that_refuses_is_named_with_what_ssh_said(hosts: TwoHosts) -> None:
    hosts.remote.sshd.stop()
    lab = hosts.lab()
    done = hosts.pytest(lab)
    assert done.returncode == 4, done.stdout + done.stderr
    by_hand = f"`ssh -F {hosts.remote.config} dut2 true`"
    why = "ssh: connect to host 192.0.2.2 port 22: Connection refused"
    said = f"nodes.node2.ssh: cannot reach dut2: {why}; try {by_hand}: an sshd must run there"
    assert said in done.stderr
    looked = hosts.run("-m", "pytest_nfvperf.cli.main", "doctor", "--testbed", str(lab))
    assert "cannot reach dut2" in looked.stdout


@pytest.mark.parametrize(
    ("customize", "python", "said"),
    [
        ("import pytest_nfvperf\npytest_nfvperf.__version__ = '0.0.7'", "", "pytest-nfvperf is 0.0.7 on dut2, and"),
        ("", "/usr/bin/python3 -I", "has no pytest-nfvperf: ModuleNotFoundError: No module named 'pytest_nfvperf'"),
        (
            "import sys\nsys.modules['pytest_nfvperf.features.remote_nodes.server'] = None",
            "",
            "the far end on dut2 failed: Mod",
        ),
    ],
    ids=["another version", "none", "not whole"],
)
def test_another_package_at_the_far_end_is_refused(hosts: TwoHosts, customize: str, python: str, said: str) -> None:
    given = {"python": python} if python else {}
    done = hosts.pytest(hosts.lab(python=hosts.interpreter("other", customize, **given)))
    assert done.returncode == 4, done.stdout + done.stderr
    assert "nodes.node2" in done.stderr
    assert said in done.stderr


def test_doctor_looks_at_the_other_machine_and_a_run_refuses_what_is_not_there(hosts: TwoHosts) -> None:
    looked = hosts.run("-m", "pytest_nfvperf.cli.main", "doctor", "--testbed", str(hosts.lab()))
    words = " ".join(looked.stdout.split())
    assert f"node node2 nfvperf {__version__}, Open vSwitch {locate().version}, datapath netdev" in words, looked.stdout
    hosts.remote.namespace.run(["ip", "address", "add", "198.51.100.1/24", "dev", "up2"])
    done = hosts.pytest(hosts.lab())
    assert done.returncode == 4, done.stdout
    assert "on dut2: port 'up2': interface 'up2' is in use: it has the address 198.51.100.1" in done.stderr
    done = hosts.pytest(hosts.lab(cpus=[4000]))
    assert done.returncode == 4, done.stdout
    assert "nodes.node2.cpus: on dut2: this machine has no CPU 4000, only " in done.stderr
