"""A run that sent a packet, read back from evidence: its page shows the packet."""

from __future__ import annotations

from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.model.evidence.records import TestEndData
from pytest_nfvperf.model.traffic.packet import RecordedFrames
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.sample_run import SampleRun, write_sample

TRAFFIC = Traffic(
    packet=Ether() / Dot1AD(vlan=10) / Dot1Q(vlan=20) / IP() / TCP(dport=80, flags="S"),
    frame_size=128,
    vary=[Vary("IP.dst", 10_000, order="random")],
    rewritten=["TCP.sport"],
)


def test_the_page_draws_the_packet(tmp_path: Path) -> None:
    records = SampleRun()
    records.begin()
    labels = records.labels("throughput", "test_qinq", "phy2phy", TRAFFIC)
    records.start_test("test_qinq.py::test_qinq", labels, "QinQ.")
    records.trial(TRAFFIC, 1_000_000, 2e6, "throughput")
    records.trial(TRAFFIC, 2_000_000, 2e6, "throughput")
    records.add(TestEndData("passed", 2.0))
    records.end()
    run = read_run(write_sample(tmp_path, records.records))
    sent = {trial.result.spec.traffic for trial in run.trials.values()}
    assert [type(traffic.packet) for traffic in sent] == [RecordedFrames]
    page = render_report(run, tmp_path / "out").read_text()
    assert page.count("│ Ether │ Dot1AD │ Dot1Q │ IP │ TCP │ signature │ pattern │") == 1
    assert "IP.dst: 10,000 values, in a fixed random order" in page
    assert "the DUT may rewrite TCP.sport" in page
    assert "0000  02 00 00 00 00 02 02 00 00 00 00 01 88 a8 00 0a" in page
