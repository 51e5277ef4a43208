"""What becomes of pods when OVS is restarted under them, or one is deleted while it is measured."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.iperf3 import Iperf3Engine
from pytest_nfvperf.adapters.generators.program_pairs import Iperf2Engine, SockperfEngine, watch_datagrams
from pytest_nfvperf.adapters.net.namespaces import remove_name
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.streams import ConnectSpec, RequestSpec, StreamSpec, longest_gap_ns
from pytest_nfvperf.model.testbed.testbed import StreamsSpec
from pytest_nfvperf.model.topology.workloads import pod_node
from pytest_nfvperf.ports.generator import StreamEnd
from tests.functional.ovs_support import needs_root, until

pytestmark = needs_root


@pytest.fixture
def node(ovs: OvsDatapath) -> Iterator[BuiltOvsTopology]:
    built = ovs.build(pod_node(2))
    built.wait_ready(10)
    yield built
    built.close()


def ends(built: BuiltOvsTopology) -> tuple[StreamEnd, StreamEnd]:
    pod1, pod2 = (StreamEnd(built.netns(f"pod{n}"), f"198.18.1.{n}", "eth0") for n in (1, 2))
    return pod1, pod2


@pytest.mark.parametrize("killed", [False, True], ids=["asked to exit", "killed"])
def test_pods_on_veth_reach_each_other_after_a_restart(ovs: OvsDatapath, node: BuiltOvsTopology, killed: bool) -> None:
    pid = ovs.instance.pid
    with watch_datagrams(*ends(node)) as watch:
        assert watch.await_one(5)
        before = watch.arrived()[-1]
        ovs.restart(killed=killed)
        assert watch.await_one(10), ovs.instance.problems()
        found = watch.arrived()
    assert ovs.instance.pid != pid
    assert watch.sent >= len(found)
    assert longest_gap_ns(found, before, found[-1]) > 10 * watch.interval_ns
    ovs.check_alive()


def test_datagrams_to_nowhere_are_none(node: BuiltOvsTopology) -> None:
    pod1, pod2 = ends(node)
    elsewhere = StreamEnd(pod2.namespace, "198.18.9.9", "eth0")
    said = r"no datagrams to 198.18.9.9: Cannot assign .* namespace nfv-.*-pod2"
    with pytest.raises(TestbedError, match=said), watch_datagrams(pod1, elsewhere):
        pass


def streams(journal: Journal, node: BuiltOvsTopology) -> None:
    Iperf3Engine(journal, StreamsSpec()).run(StreamSpec(duration_s=2.8, omit_s=0.2), *ends(node))


def requests(journal: Journal, node: BuiltOvsTopology) -> None:
    SockperfEngine(journal).run(RequestSpec(duration_s=3), *ends(node))


def connects(journal: Journal, node: BuiltOvsTopology) -> None:
    Iperf2Engine(journal).run(ConnectSpec(connects=25_000, duration_s=3), *ends(node))


@pytest.mark.parametrize(
    ("program", "act", "said"),
    [
        ("iperf client", connects, r"network namespace nfv-[\w-]+-pod2 was deleted during the connects"),
        ("iperf3", streams, r"the server's network namespace nfv-[\w-]+-pod2 was deleted during"),
        ("sockperf", requests, r"network namespace nfv-[\w-]+-pod2 was deleted during the requests"),
    ],
)
def test_a_pod_deleted_while_it_is_measured_is_named(
    ovs: OvsDatapath, journal: Journal, node: BuiltOvsTopology, program: str, act: object, said: str
) -> None:
    """Steps: delete a pod's namespace once the measuring program is at work. Verify: the engine and the DUT name it."""

    processes = 1 if act is connects else 2  # our own listener is a thread

    def at_work() -> bool:
        return len([one for one in journal.entries if one.name.startswith(program)]) >= processes

    with ThreadPoolExecutor(1) as other:
        running = other.submit(act, journal, node)  # type: ignore[arg-type]
        assert until(at_work, 5)
        assert remove_name(node.netns("pod2"))
        with pytest.raises(TestbedError, match=said):
            running.result(30)
    with pytest.raises(TestbedError, match=r"namespace 'pod2' \(nfv-[\w-]+-pod2\) is gone: somebody removed it during"):
        ovs.check_alive()
    assert not Path(f"/run/netns/{node.netns('pod2')}").exists()
