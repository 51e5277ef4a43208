"""The ``streams`` section of a testbed file, used by a suite of a user's own on the real testbed, over IPv6."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from user_project import make_project, records

from pytest_nfvperf.adapters.generators.embedded import build
from tests.functional.ovs_support import needs_root, run_base

pytestmark = needs_root

CACHE = build.default_cache_dir()  # now: pytester gives each test another home

SUITE = """
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.measure.streams import StreamSpec
from pytest_nfvperf.model.traffic.traffic import Traffic

def test_streams(streams, deploy):
    live = deploy(bridge_chain(2, link="veth", ends="namespace", ip=6))
    run = streams.run(live, StreamSpec(streams=2, duration_s=0.8, omit_s=0.2))
    assert run.result.goodput_bps > 0

def test_loss(search, deploy):
    live = deploy(bridge_chain(2, link="veth", ends="namespace", ip=6))
    search.loss_at(live, Traffic(frame_size=64), 1000, 0.5)
"""

OTHER_IPERF3 = """#!/bin/sh
echo "$@" >> "$0.calls"
exec iperf3 "$@"
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Pytester]:
    with run_base() as base:
        monkeypatch.setenv("NFVPERF_RUN_DIR", str(base))
        monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE.parent))
        build.build()
        yield make_project(pytester, SUITE)
        assert [path for path in base.iterdir() if path.is_dir()] == []


def run_with(project: pytest.Pytester, streams: dict[str, object]) -> pytest.RunResult:
    text = {"schema": 1, "name": "two ends", "dut": {"ovs": {"datapath": "netdev"}}, "streams": streams}
    (project.path / "lab.yaml").write_text(json.dumps(text))
    return project.runpytest_subprocess("mine", "--nfv-testbed", "lab.yaml", "--nfv-report", "none")


def test_streams_by_the_testbeds_own_iperf3(project: pytest.Pytester) -> None:
    """Steps: another iperf3, port and CPU in the file. Verify: all are used; a loss search is refused, with why."""
    other = project.path / "bin" / "iperf3"
    other.parent.mkdir()
    other.write_text(OTHER_IPERF3)
    other.chmod(0o755)
    result = run_with(project, {"engine": "iperf3", "path": "bin/iperf3", "ports": [5333], "server_cpus": [0]})
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["usage error: topology 'chain-2-veth' has no generator port: *no search for loss*by the fixture 'streams'*"]
    )
    assert "--server --one-off --bind 2001:2::2 --port 5333" in calls(other)
    assert "--client 2001:2::2 --bind 2001:2::1 --port 5333" in calls(other)
    (run,) = records(project.path, "stream")
    assert run["data"]["result"]["spec"]["server_cpus"] == [0]
    assert run["data"]["result"]["spec"]["client_cpus"] != []


def calls(program: Path) -> str:
    return Path(f"{program}.calls").read_text()


def test_a_program_that_is_none_is_told_before_anything_runs(project: pytest.Pytester) -> None:
    result = run_with(project, {"path": "bin/iperf4"})
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*streams.path: no program *bin/iperf4; write the path of an iperf3, or leave it out for the installed one"]
    )
