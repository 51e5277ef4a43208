"""On a testbed whose generator is TRex, topologies that want more of it than to send and receive are skipped."""

from __future__ import annotations

import pytest
from user_project import CONFTEST, make_project, records

REASON = (
    "TRex only sends and receives: VNF vnf1 of 'pvp' would run in the generator. Write 'vnf: {kind: testpmd}' "
    "(or qemu) in the testbed file, or use the embedded engine"
)
SIMULATED = """
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6))
"""
TESTBED = """\
schema: 1
name: lab
dut:
  ports:
    - {name: dpdk0, interface: ens1f0, driver: kernel}
    - {name: dpdk1, interface: ens1f1, driver: kernel}
generator: {engine: trex, server: tgen1, client: /opt/trex, ports: [0, 1]}
links: [[generator.0, dut.dpdk0], [generator.1, dut.dpdk1]]
"""
SUITE = """
from pytest_nfvperf.model.traffic.traffic import Traffic

def test_p2p(phy2phy, search):
    search.loss_at(phy2phy, Traffic(frame_size=64), 1000.0, 1.0)

def test_pvp(pvp, search):
    search.loss_at(pvp, Traffic(frame_size=64), 1000.0, 1.0)

def test_pvvp(pvvp, search):
    search.loss_at(pvvp, Traffic(frame_size=64), 1000.0, 1.0)
"""


@pytest.fixture
def lab(pytester: pytest.Pytester) -> pytest.Pytester:
    made = make_project(pytester, SUITE, CONFTEST + SIMULATED)
    (made.path / "lab.yaml").write_text(TESTBED)
    return made


def test_vnfs_are_a_skip_that_says_why(lab: pytest.Pytester) -> None:
    result = lab.runpytest_subprocess("--nfv-testbed", "lab.yaml", "--nfv-report", "none")

    result.assert_outcomes(passed=1, skipped=2)
    ends = [record["data"] for record in records(lab.path, "test_end")]
    reasons = [end["reason"] for end in ends if end["status"] == "skipped"]
    assert reasons[0] == REASON
    assert "VNF vnf1, vnf2 of 'pvvp' would run in the generator" in reasons[1]


def test_a_plan_says_so_and_does_not_count_them(lab: pytest.Pytester) -> None:
    result = lab.runpytest_subprocess("--nfv-testbed", "lab.yaml", "--nfv-plan")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*::test_p2p: about *",
            f"*::test_pvp: skipped: {REASON}",
            "*::test_pvvp: skipped: TRex only sends and receives: *",
            "1 test (2 more are skipped), 2 trials, about *",
        ]
    )


def test_vnfs_that_are_processes_are_no_reason_to_skip(lab: pytest.Pytester) -> None:
    (lab.path / "lab.yaml").write_text(TESTBED + "vnf: {kind: testpmd}\n")
    result = lab.runpytest_subprocess("--nfv-testbed", "lab.yaml", "--nfv-plan")

    result.stdout.fnmatch_lines(["3 tests, 6 trials, about *"])


def test_a_plan_says_what_trex_cannot_send_and_skips_it(lab: pytest.Pytester) -> None:
    (lab.path / "mine/test_packets.py").write_text(
        """
import pytest
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from pytest_nfvperf import Traffic
from pytest_nfvperf.model.traffic.packet_program import Vary

@pytest.mark.parametrize(
    ("packet", "dst"),
    [(Ether() / IP() / TCP(), 10_000), (Ether() / MPLS(label=16) / IP() / TCP(), 10), (Ether() / IP() / TCP(), 90_000)],
    ids=["tcp", "mpls", "many"],
)
def test_packet(phy2phy, search, packet, dst):
    traffic = Traffic(packet=packet, vary=[Vary("IP.dst", dst, order="random")], frame_size=128)
    search.loss_at(phy2phy, traffic, 1000.0, 1.0)
"""
    )
    result = lab.runpytest_subprocess("--nfv-testbed", "lab.yaml", "--nfv-plan", "mine/test_packets.py")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*::test_packet[[]tcp[]]: about *",
            "*::test_packet[[]mpls[]]: skipped: TRex counts a frame by its first IPv4 or IPv6 header *",
            "*::test_packet[[]many[]]: skipped: TRex cannot send 90,000 different frames of this packet: IP.dst *",
            "1 test (2 more are skipped), 2 trials, about *",
        ]
    )
