"""Pods on two nodes with a tunnel between: TCP passes, and who is told when the other node's OVS has gone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_nfvperf.adapters.generators.iperf3 import Iperf3Engine
from pytest_nfvperf.adapters.ovs.nodes_datapath import NodesDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.streams import StreamSpec
from pytest_nfvperf.model.testbed.testbed import Dut, StreamsSpec
from pytest_nfvperf.model.topology.workloads import NODES, pod_nodes
from pytest_nfvperf.ports.generator import StreamEnd
from tests.functional.ovs_support import needs_root, send_tcp, testbed, until

pytestmark = needs_root

TEXT = bytes(range(256)) * 2000


@pytest.fixture
def nodes(journal: Journal) -> Iterator[NodesDatapath]:
    datapath = NodesDatapath.start(testbed("netdev"), journal, Dut(nodes=NODES))
    yield datapath
    datapath.close()


def test_a_pod_reaches_the_other_node_until_its_ovs_has_gone(nodes: NodesDatapath, journal: Journal) -> None:
    """Steps: TCP without overlay and by Geneve; then streams, and the other node's OVS killed. Verify: it is named."""
    for overlay, ip, address in (("none", 4, "198.18.1.2"), ("geneve", 6, "2001:2::1:2"), ("geneve", 4, "198.18.1.2")):
        built = nodes.build(pod_nodes(overlay, ip=ip))
        built.wait_ready(10)
        assert send_tcp(built.netns("pod1"), built.netns("pod2"), address, TEXT) == TEXT, (overlay, ip)
        if (overlay, ip) != ("geneve", 4):
            built.close()
    pod1, pod2 = (StreamEnd(built.netns(f"pod{n}"), f"198.18.1.{n}", "eth0") for n in (1, 2))
    engine = Iperf3Engine(journal, StreamsSpec())
    with ThreadPoolExecutor(1) as other:
        running = other.submit(engine.run, StreamSpec(duration_s=2.8, omit_s=0.2), pod1, pod2)
        assert until(lambda: len([one for one in journal.entries if one.name.startswith("iperf3")]) >= 2)
        vswitchd = nodes.node("node2").instance.vswitchd  # type: ignore[attr-defined]
        vswitchd.popen.kill()
        vswitchd.popen.wait()
        assert running.exception(30) is not None or not running.result().valid or running.result().goodput_bps < 1e6
    with pytest.raises(TestbedError, match=r"node node2: ovs-vswitchd \(pid \d+\) was killed by SIGKILL"):
        nodes.check_alive()
