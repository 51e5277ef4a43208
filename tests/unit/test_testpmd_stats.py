"""testpmd's statistics, as DPDK 22.11 printed them here: read to the letter, or refused."""

from __future__ import annotations

import pytest

from pytest_nfvperf.adapters.testpmd.console import ForwardStats, parse_forward_stats
from pytest_nfvperf.adapters.vnf.testpmd import command, forward_counts
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.topology.ports import VnfMode
from pytest_nfvperf.model.traffic.trial import VnfCounts
from pytest_nfvperf.ports.generator import GeneratorPort, VnfSpec

PRINTED = """
  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 105280         RX-dropped: 0             RX-total: 105280
  TX-packets: 571712         TX-dropped: 288           TX-total: 572000
  ----------------------------------------------------------------------------

  ---------------------- Forward statistics for port 1  ----------------------
  RX-packets: 572000         RX-dropped: 3             RX-total: 572003
  RX-error: 0
  RX-nombufs: 3
  TX-packets: 105270         TX-dropped: 10            TX-total: 105280
  ----------------------------------------------------------------------------

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 677280         RX-dropped: 3             RX-total: 677283
  TX-packets: 676982         TX-dropped: 298           TX-total: 677280
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++
"""
ENDS = (
    GeneratorPort(
        "v1a", "net_virtio_user,path=/run/v1a.sock,server=1", "02:00:00:00:00:01", eth_peer="02:00:00:00:00:0a"
    ),
    GeneratorPort(
        "v1b", "net_virtio_user,path=/run/v1b.sock,server=1", "02:00:00:00:00:02", eth_peer="02:00:00:00:00:0b"
    ),
)


def test_every_port_with_both_sides() -> None:
    assert parse_forward_stats(PRINTED, "22.11.11") == {
        0: ForwardStats(105280, 0, 571712, 288),
        1: ForwardStats(572000, 3, 105270, 10),
    }


def test_what_came_in_by_a_port_left_by_the_other() -> None:
    assert forward_counts(VnfSpec("v1", ENDS), PRINTED, "22.11.11") == (
        VnfCounts("v1a", "v1b", 105280, 105270, 10, 0),
        VnfCounts("v1b", "v1a", 572000, 571712, 288, 0),
    )


def test_a_port_that_is_missing_is_an_error() -> None:
    with pytest.raises(TestbedError, match=r"gives statistics of ports 0, 1; VNF 'v1' has 1: "):
        forward_counts(VnfSpec("v1", ENDS[:1]), PRINTED, "22.11.11")
    with pytest.raises(TestbedError, match=r"gives statistics of ports none; VNF 'v1' has 2: ''"):
        forward_counts(VnfSpec("v1", ENDS), "", "22.11.11")


@pytest.mark.parametrize(
    ("was", "line", "told"),
    [
        ("RX-dropped: 0 ", "RX-lost: 0 ", "RX-packets: 105280         RX-lost: 0             RX-total: 105280"),
        ("105280 ", "105,280 ", "RX-packets: 105,280         RX-dropped: 0             RX-total: 105280"),
        ("RX-error: 0", "Bad-ipcsum: 7", "Bad-ipcsum: 7"),
        ("statistics for port 1", "statistics for port 0", "Forward statistics for port 0  -"),
        ("  TX-packets: 105270         TX-dropped: 10            TX-total: 105280\n", "", "port 1 with lines for RX"),
    ],
)
def test_another_format_is_an_error_that_names_the_version(was: str, line: str, told: str) -> None:
    with pytest.raises(TestbedError) as caught:
        parse_forward_stats(PRINTED.replace(was, line, 1), "99.11")
    assert "dpdk-testpmd of DPDK 99.11 prints statistics that are not understood: " in caught.value.message
    assert told in caught.value.message


def test_the_command_of_a_vnf_in_mode_mac() -> None:
    given = command(["--lcores", "0@0,1@1"], VnfSpec("v1", ENDS, VnfMode.MAC, queues=2, mtu=9000))
    assert given[:4] == ["stdbuf", "-oL", "dpdk-testpmd", "--lcores"]
    assert "net_virtio_user1,path=/run/v1b.sock,server=1" in given
    assert given[given.index("--") + 1 :] == [
        "-i",
        "--forward-mode=mac",
        "--port-topology=paired",
        "--rxq=2",
        "--txq=2",
        "--txd=512",
        "--rxd=1024",
        "--total-num-mbufs=16384",
        "--eth-peer=0,02:00:00:00:00:0a",
        "--eth-peer=1,02:00:00:00:00:0b",
        "--max-pkt-len=9018",
    ]


def test_a_vnf_with_one_port_sends_back_by_it() -> None:
    assert "--port-topology=loop" in command([], VnfSpec("v1", ENDS[:1], VnfMode.MAC))
