"""Pods with IPv6 addresses on a real node: TCP, streams, requests and connects between them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.generators.iperf3 import Iperf3Engine
from pytest_nfvperf.adapters.generators.program_pairs import Iperf2Engine, SockperfEngine, check_family
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.measure.streams import ConnectSpec, RequestSpec, StreamSpec
from pytest_nfvperf.model.testbed.testbed import StreamsSpec
from pytest_nfvperf.model.topology.workloads import pod_node
from pytest_nfvperf.ports.generator import StreamEnd
from tests.functional.ovs_support import needs_root, send_tcp

pytestmark = needs_root

TEXT = bytes(range(256)) * 2000


@pytest.fixture
def node(ovs: OvsDatapath) -> Iterator[BuiltOvsTopology]:
    built = ovs.build(pod_node(2, ip=6))
    built.wait_ready(10)
    yield built
    built.close()


def ends(node: BuiltOvsTopology) -> tuple[StreamEnd, StreamEnd]:
    one, other = (StreamEnd(node.netns(f"pod{number}"), f"2001:2::1:{number}", "eth0") for number in (1, 2))
    return one, other


def test_tcp_passes_to_a_pod_and_to_the_outside(node: BuiltOvsTopology) -> None:
    for name, address in (("pod2", "2001:2::1:2"), ("outside", "2001:2::1")):
        assert send_tcp(node.netns("pod1"), node.netns(name), address, TEXT) == TEXT


def test_streams_pass(node: BuiltOvsTopology, journal: Journal) -> None:
    found = Iperf3Engine(journal, StreamsSpec()).run(StreamSpec(duration_s=0.8, omit_s=0.2), *ends(node))
    assert found.valid, found.invalid
    assert found.goodput_bps > 0


def test_requests_are_answered_or_the_tool_is_told_to_be_too_old(node: BuiltOvsTopology, journal: Journal) -> None:
    try:
        found = SockperfEngine(journal).run(RequestSpec(), *ends(node))
    except UnavailableError as error:
        assert re.search(  # noqa: PT017 - which of the two happens is the machine's affair
            r"sockperf 3\.[0-7]\S* knows no IPv6, and 2001:2::1:2 is such an address: .+ need sockperf 3\.8", str(error)
        )
    else:
        assert found.times.total > 100
        assert found.unanswered == 0


@pytest.mark.parametrize("version", ["sockperf 3.8-0.git737d1e3e5576", "sockperf 3.10-0.gitunknown", "sockperf 4.0"])
def test_a_newer_tool_may_use_ipv6(version: str) -> None:
    check_family(version, "2001:2::1:2")


def test_connects_succeed(node: BuiltOvsTopology, journal: Journal) -> None:
    found = Iperf2Engine(journal).run(ConnectSpec(connects=500), *ends(node))
    assert found.accepted == found.times.total >= 500
    assert found.failed == 0
