"""A lab's recording played again: the same trials, outcome and verdict, without a generator, a DUT or rights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from user_project import records

RECORDING = Path(__file__).parents[1] / "data" / "trex" / "ndr.jsonl"
"""An NDR search of the quick profile through OVS-DPDK, by a TRex v3.08 on veth, ports of 50 Mbit/s.

It was recorded when that profile confirmed for 5 s.
"""

AS_RECORDED = """
from dataclasses import replace
from pytest_nfvperf.model.measure.profile import PROFILES, QUICK

PROFILES["quick"] = replace(QUICK, confirmation_s=5.0)
"""

TESTBED = """\
schema: 1
name: what the lab saw
dut:
  ports:
    - {name: dpdk0, interface: ens1f0, driver: kernel, line_rate: RATE}
    - {name: dpdk1, interface: ens1f1, driver: kernel, line_rate: RATE}
generator: {engine: replay, recording: ndr.jsonl}
links: [[generator.0, dut.dpdk0], [generator.1, dut.dpdk1]]
"""


def play(suite: pytest.Pytester, rate: str) -> pytest.RunResult:
    shutil.copy(RECORDING, suite.path)
    (suite.path / "mine" / "conftest.py").write_text(AS_RECORDED)
    (suite.path / "lab.yaml").write_text(TESTBED.replace("RATE", rate))
    (suite.path / "mine" / "sla.yaml").write_text(
        "schema: 1\nrules: [{where: {topology: phy2phy}, require: {ndr: '>= 70 kpps'}}]\n"
    )
    return suite.runpytest_subprocess("--nfv-testbed", "lab.yaml", "-p", "no:cacheprovider")


def test_a_recording_gives_the_same_outcome_again(suite: pytest.Pytester) -> None:
    result = play(suite, "50 Mbps")
    result.stdout.fnmatch_lines(
        ["  DUT:       none, a recording is played", "  generator: trex, from *ndr.jsonl", "*0.0744*PASS*"]
    )
    result.assert_outcomes(passed=1)
    (outcome,) = records(suite.path, "outcome")
    assert [goal["load_fps"] for goal in outcome["data"]["goals"]] == [74405, 74405]
    assert outcome["data"]["goals"][0]["confirmation"]["offered_frames"] == 744_050


def test_another_load_was_never_recorded(suite: pytest.Pytester) -> None:
    result = play(suite, "40 Mbps")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*testbed error: the recording *ndr.jsonl does not answer this: 'trial' was recorded*"]
    )
