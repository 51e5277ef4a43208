"""A lab's recording played again: the same trials, outcome and verdict, without a generator, a DUT or rights."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap
from user_project import ordinary_user, records

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


CLASSES = Path(__file__).parents[1] / "data" / "embedded" / "kinds.jsonl"
"""Three trials through OVS-DPDK by the embedded engine: a packet, a capture and a mix, at 1,000 frames/s for 400 ms."""

KINDS = """
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from pytest_nfvperf import Traffic, TrafficMix, Vary

QINQ = Ether() / Dot1AD(vlan=10) / Dot1Q(vlan=20) / IP() / TCP(dport=80, flags="S")
PACKET = Traffic(packet=QINQ, vary=[Vary("IP.dst", 100, order="random"), Vary("TCP.sport", 8, step=2)], frame_size=128)
VOICE = Traffic(packet=Ether() / IP(tos=184) / UDP(), vary=[Vary("IP.src", 10)], frame_size=128)
KINDS = {
    "packet": lambda: PACKET,
    "capture": lambda: Traffic.from_pcap("mine/two.pcap"),
    "mix": lambda: TrafficMix(voice=(VOICE, "10 %"), bulk=(Traffic(frame_size=512, vlan=30), "90 %")),
}

@pytest.mark.parametrize("kind", KINDS)
def test_loss(kind, phy2phy, search, sla):
    sla.check(search.loss_at(phy2phy, KINDS[kind](), 1_000, 0.4))
"""

SHORT_WARM_UP = """
from dataclasses import replace
from pytest_nfvperf.model.measure.profile import PROFILES, QUICK

PROFILES["quick"] = replace(QUICK, warmup_s=0.02)
"""

LIMITS = """\
schema: 1
rules:
  - where: {test: test_loss}
    require: {lost_frames: "<= 0"}
  - where: {test: test_loss, class: voice}
    require: {lost_frames: "<= 0"}
  - where: {test: test_loss, class: bulk}
    require: {latency_p50: {at: 1 kpps, limit: "<= 100 ns"}}
"""


def play(suite: pytest.Pytester, rate: str) -> pytest.RunResult:
    shutil.copy(RECORDING, suite.path)
    (suite.path / "mine" / "conftest.py").write_text(AS_RECORDED)
    (suite.path / "lab.yaml").write_text(TESTBED.replace("RATE", rate))
    (suite.path / "mine" / "sla.yaml").write_text(
        "schema: 1\nrules: [{where: {topology: phy2phy}, require: {ndr: '>= 70 kpps'}}]\n"
    )
    words = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    return suite.run(*(ordinary_user() or ()), *words, "--nfv-testbed", "lab.yaml")


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


def test_packets_captures_and_mixes_get_the_same_verdicts_again(suite: pytest.Pytester) -> None:
    folder = suite.path / "mine"
    first = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2")
    wrpcap(str(folder / "two.pcap"), [first / UDP(sport=7, dport=9) / (b"a" * size) for size in (60, 400)])
    shutil.copy(CLASSES, suite.path)
    (folder / "test_mine.py").write_text(KINDS)
    (folder / "conftest.py").write_text(SHORT_WARM_UP)
    (folder / "sla.yaml").write_text(LIMITS)
    testbed = "schema: 1\nname: seen\ngenerator: {engine: replay, recording: kinds.jsonl}\n"
    (suite.path / "lab.yaml").write_text(testbed)
    result = suite.runpytest_subprocess("--nfv-testbed", "lab.yaml", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=1)
    failed = "FAIL*test_loss?mix?: class bulk: latency_p50 <= 100 ns at 1.00 kpps: 2.09 us"
    result.stdout.fnmatch_lines([failed])
    verdicts = [(each["data"]["requirement"], each["data"]["judgement"]) for each in records(suite.path, "verdict")]
    assert sorted(verdicts) == [
        ("class bulk: latency_p50 <= 100 ns at 1.00 kpps", "FAIL"),
        ("class voice: lost_frames <= 0", "PASS"),
        ("lost_frames <= 0", "PASS"),
        ("lost_frames <= 0", "PASS"),
        ("lost_frames <= 0", "PASS"),
    ]
