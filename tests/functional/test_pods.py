"""S5's node on a real OVS: pods by every kind of interface, streams between any two, and who used the CPUs."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from user_project import make_project, records

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.generators.program_pairs import SockperfEngine
from pytest_nfvperf.adapters.host.nic import lacks_af_xdp
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import spawn
from pytest_nfvperf.features.profile.perf import PerfProfiler
from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.errors import TestbedError, UnavailableError
from pytest_nfvperf.model.measure.streams import RequestSpec
from pytest_nfvperf.model.topology.workloads import pod_node
from pytest_nfvperf.ports.generator import StreamEnd
from tests.functional.ovs_support import needs_hugepages, needs_root, run_base, send_tcp, started

pytestmark = needs_root

CACHE = build.default_cache_dir()  # now: pytester gives each test another home
TEXT = bytes(range(256)) * 2000


@pytest.mark.parametrize("kind", ["veth", "tap", "internal"])
def test_pods_reach_each_other_and_the_outside(ovs: OvsDatapath, kind: str) -> None:
    built = ovs.build(pod_node(3, kind=kind))
    try:
        built.wait_ready(10)
        pod1, pod3, outside = (built.netns(name) for name in ("pod1", "pod3", "outside"))
        assert send_tcp(pod1, pod3, "198.18.1.3", TEXT) == TEXT
        assert send_tcp(pod1, outside, "198.18.0.1", TEXT) == TEXT
    finally:
        built.close()


def test_fifty_pods_come_and_go(ovs: OvsDatapath) -> None:
    built = ovs.build(pod_node(50))
    try:
        built.wait_ready(10)
        assert send_tcp(built.netns("pod50"), built.netns("pod1"), "198.18.1.1", TEXT) == TEXT
        pods = [Path("/run/netns") / built.netns(f"pod{number}") for number in range(1, 51)]
        assert all(path.exists() for path in pods)
    finally:
        built.close()
    assert not any(path.exists() for path in pods)


@needs_hugepages
@pytest.mark.skipif(lacks_af_xdp() is not None, reason="needs AF_XDP sockets")
def test_pods_pass_tcp_by_af_xdp(journal: Journal) -> None:
    with started(journal, "dpdk", "xdp") as datapath:
        built = datapath.build(pod_node(kind="af_xdp"))
        built.wait_ready(10)
        assert send_tcp(built.netns("pod1"), built.netns("pod2"), "198.18.1.2", TEXT) == TEXT
        assert "pod1-eth0" in built.configuration()


def test_requests_are_answered_between_pods(ovs: OvsDatapath, journal: Journal) -> None:
    built = ovs.build(pod_node(2))
    try:
        built.wait_ready(10)
        pod1, pod2 = (StreamEnd(built.netns(f"pod{n}"), f"198.18.1.{n}", "eth0") for n in (1, 2))
        engine = SockperfEngine(journal)
        found = engine.run(RequestSpec(), pod1, pod2)
        assert found.times.total > 100
        assert found.unanswered == 0
        assert 0 < found.times.min_ns <= found.times.max_ns < 1_000_000_000
        paced = engine.run(RequestSpec(load_per_s=200), pod1, pod2)
        assert 20 < paced.times.total <= 300  # a busy machine answers late, and what is asked is then less
        elsewhere = StreamEnd(pod2.namespace, "198.18.9.9", "eth0")
        with pytest.raises(TestbedError, match="sockperf"):
            engine.run(RequestSpec(), pod1, elsewhere)
        assert list(journal.directory.glob("sockperf*")) == []
    finally:
        built.close()


def test_a_kernel_that_permits_no_profile_is_told(tmp_path: Path, journal: Journal) -> None:
    perf = tmp_path / "perf"
    perf.write_text("#!/bin/sh\necho 'Error: No permission to enable cycles event.' >&2\nexit 255\n")
    perf.chmod(0o755)
    ran = []
    with pytest.raises(UnavailableError, match="perf record is refused: Error: No permission to enable cycles event"):
        PerfProfiler(journal, [0], program=str(perf))(lambda: ran.append("work"))
    assert ran == []
    assert list(journal.directory.glob("perf*")) == []


def test_a_profile_that_cannot_be_read_is_none_and_the_work_stands(tmp_path: Path, journal: Journal) -> None:
    perf = tmp_path / "perf"
    perf.write_text(
        "#!/bin/sh\n"
        'if [ "$3" = script ]; then echo broken >&2; exit 1; fi\n'
        'for last; do test "$before" = -o && echo x > "$last"; before=$last; done\n'
        "exec env --default-signal=INT sleep 60\n"  # a background job of a script ignores it
    )
    perf.chmod(0o755)
    ran = []
    with pytest.raises(UnavailableError, match=r"script --no-inline .* exited with status 1"):
        PerfProfiler(journal, [0], [Poller(0, 1, 1)], program=str(perf))(lambda: ran.append("work"))
    assert ran == ["work"]
    assert list(journal.directory.glob("perf*")) == []


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf")
def test_a_polling_thread_is_profiled_alone(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps: two threads of one process poll; perf samples one. Verify: no sample of another, nothing in ~/.debug."""
    monkeypatch.setenv("HOME", str(tmp_path))
    code = (
        "import pathlib, threading\n"
        "def poll(name):\n"
        "    pathlib.Path(f'/proc/self/task/{threading.get_native_id()}/comm').write_text(name)\n"
        "    if name != 'other': print(threading.get_native_id(), flush=True)\n"
        "    while True: pass\n"
        "threading.Thread(target=poll, args=['pmd-c00/id:7']).start()\n"
        "poll('other')\n"
    )
    polling = spawn(journal, "polling", [sys.executable, "-c", code], log=tmp_path / "log", pipes=True)
    try:
        assert polling.popen.stdout is not None
        thread = int(polling.popen.stdout.readline())
        profiler = PerfProfiler(journal, [0], [Poller(0, polling.pid, thread)], own_cpus=[0])
        try:
            profile = profiler(lambda: time.sleep(0.3))
        except UnavailableError as error:
            pytest.skip(str(error))
    finally:
        polling.stop()
    assert profile.samples > 0
    assert {stack[0] for stack, _ in profile.folded} == {"pmd-c00"}
    assert profile.counts.keys() <= {"cycles", "instructions", "cache-misses"}
    assert not (tmp_path / ".debug").exists()
    assert list(journal.directory.glob("perf*")) == []


def test_a_machine_without_perf_is_told_the_package(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ran = []
    with pytest.raises(UnavailableError, match=r"^perf is not installed: apt-get install linux-perf$"):
        PerfProfiler(journal, [0])(lambda: ran.append("work"))
    assert ran == []


SUITE = """
import pytest_nfvperf as nfv
from pytest_nfvperf import Dut, StreamSpec
from pytest_nfvperf.parts import pod_node

SPEC = StreamSpec(streams=1, duration_s=0.8, omit_s=0.2, buffer_bytes=1460)

def test_streams(streams, deploy):
    live = deploy(pod_node(3, kind="acme:veth"), dut=Dut("netdev"))
    run = streams.run(live, SPEC, ends=("pod3", "outside"))
    assert run.result.goodput_bps > 0
    assert run.cost_values()["cpu_per_gigabit"] > 0

def test_no_such_pod(streams, deploy):
    live = deploy(pod_node(2), dut=Dut("netdev"))
    streams.run(live, SPEC, ends=("pod1", "pod3"))
"""

MAKERS = """
from pytest_nfvperf.extend import NIC_MAKERS

def make(nic, making):
    made = NIC_MAKERS["veth"](nic, making)
    print("made", nic.namespace)
    return made

def pytest_nfvperf_nic_makers(config):
    return {"acme:veth": make}
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Pytester]:
    with run_base() as base:
        monkeypatch.setenv("NFVPERF_RUN_DIR", str(base))
        monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE.parent))
        build.build()
        made = make_project(pytester, SUITE)
        conftest = made.path / "conftest.py"
        conftest.write_text(conftest.read_text() + MAKERS)
        yield made
        assert [path for path in base.iterdir() if path.is_dir()] == []


def test_streams_between_chosen_pods_by_a_third_partys_interface(project: pytest.Pytester) -> None:
    """Steps: a maker by the hook; streams between named ends. Verify: made, measured; a wrong end is told."""
    result = project.runpytest_subprocess("mine", "-s", "--nfv-profile-cpu", "--nfv-report", "none")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*made pod3*",
            "*ends: topology 'node-2-veth' has no namespace 'pod3' with an address*There are outside, host*",
        ]
    )
    run = records(project.path, "stream")[-1]  # a disturbed one is repeated
    sources = [one["before"]["source"] for one in run["data"]["result"]["evidence"]]
    assert [source.split("-")[-1] for source in sources if ":" in source] == ["pod3", "outside"]
    (told,) = [one["data"] for one in records(project.path, "attachment") if "CPU profile" in one["data"]["name"]]
    assert told["name"] == f"CPU profile of {run['id']}, node-3-acme:veth on netdev"
    picture = project.path / "reports/latest/profiles" / f"{run['id']}.svg"
    if picture.exists():
        assert picture.read_text().startswith("<svg ")
        assert " samples of c" in told["text"]
    else:
        assert told["text"].startswith("not possible here: perf ")
    cpu = run["data"]["cpu"]
    parts = {part["role"]: part["ns"] for part in cpu["parts"]}
    assert min(parts["vswitchd"], parts["sender"], parts["receiver"]) > 0
    assert sum(parts.values()) <= 2 * cpu["machine_ns"]
    assert run["data"]["datapath_cores"] > 0
