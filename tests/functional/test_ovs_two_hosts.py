"""Tunnels between two private OVS, each in its namespace as on a host of its own, with a cable between them.

Both ends are OVS's own in userspace: the kernel here has neither Geneve nor GRE.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.trial_ledger import flat_ledger
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.measure.rig import generator_ports
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.measure.ledger import CounterSnapshot, Ledger
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.links import TunnelKind
from pytest_nfvperf.model.topology.parts import endpoint, namespace, tunnel
from pytest_nfvperf.model.topology.ports import PortKind
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from tests.functional.generator_support import embedded_in
from tests.functional.lab_support import lab_testbed, veth_cables
from tests.functional.loss_rig import losses
from tests.functional.ovs_support import needs_root, send_tcp, started_on

pytestmark = needs_root
MORE = pytest.mark.thorough("another kind of tunnel")

MEGABYTE = bytes(range(256)) * 4096
HOSTS = (1, 2)
DIRECTIONS = (Direction("p1", "p2"), Direction("p2", "p1"))


def host(number: int, kind: TunnelKind, key: int = 42) -> Topology:
    """Namespace and generator port - br-int - tunnel - br-phy - cable."""
    other = 3 - number
    return compose(
        f"host-{number}",
        namespace(f"pod{number}", f"int{number}", f"10.1.0.{number}/24", mtu=1400),
        endpoint(f"p{number}", f"int{number}", kind=PortKind.AF_PACKET, mac=f"02:00:00:00:00:0{number}"),
        tunnel(
            f"int{number}",
            local=f"172.31.0.{number}",
            remote=f"172.31.0.{other}",
            kind=kind,
            key=key,
            port=f"tun{number}",
        ),
        endpoint(f"up{number}", f"phy{number}", mac=f"02:00:00:00:01:0{other}"),
    )


@dataclass(frozen=True)
class Hosts:
    """Two OVS without topologies."""

    ovs: tuple[OvsDatapath, OvsDatapath]

    def build(self, kind: TunnelKind, keys: Sequence[int] = (42, 42)) -> list[BuiltOvsTopology]:
        """The two topologies; each finds the other's address by ARP, as it would on a wire."""
        built = [ovs.build(host(number, kind, key)) for ovs, number, key in zip(self.ovs, HOSTS, keys, strict=True)]
        for one, ovs in zip(built, self.ovs, strict=True):
            one.wait_ready(5)
            ovs.instance.ctl.call("tnl/neigh/flush")
        return built

    def counters(self) -> CounterSnapshot:
        """Of both as if they were one."""
        found = Counter[str]()
        for ovs in self.ovs:
            found.update(ovs.collector.snapshot().as_dict())
        return CounterSnapshot("ovs", 0, tuple(sorted(found.items())))


@pytest.fixture(scope="module")
def hosts(journal: Journal) -> Iterator[Hosts]:
    with ExitStack() as stack:
        ((local, peer),) = stack.enter_context(veth_cables(1))
        beds = (lab_testbed([local], []), lab_testbed([peer], []))
        ovs = [stack.enter_context(started_on(bed, journal, f"host{n}")) for bed, n in zip(beds, HOSTS, strict=True)]
        yield Hosts((ovs[0], ovs[1]))


@pytest.fixture(autouse=True)
def _clean(hosts: Hosts) -> Iterator[None]:
    yield
    for ovs in hosts.ovs:
        ovs.remove_topologies()


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=MORE) if kind is not TunnelKind.VXLAN else kind for kind in TunnelKind]
)
def test_tcp_passes_a_tunnel_between_two_ovs(hosts: Hosts, kind: TunnelKind) -> None:
    one, two = hosts.build(kind)
    assert send_tcp(one.netns("pod1"), two.netns("pod2"), "10.1.0.2", MEGABYTE) == MEGABYTE
    assert f"port tun1: type={kind}" in one.configuration()
    assert "172.31.0.2" in hosts.ovs[0].instance.ctl.call("tnl/neigh/show")


def trial(hosts: Hosts, built: Sequence[BuiltOvsTopology], journal: Journal) -> tuple[TrialResult, Ledger]:
    """Frames of the generator both ways, and where they were lost."""
    ports = [port for one in built for port in generator_ports(one.topology, one)]
    spec = TrialSpec(Traffic(frame_size=256), 2_000, 0.5, DIRECTIONS, latency=False, residual_s=0.2)
    with embedded_in(journal.directory, "two") as generator:
        generator.attach(ports)
        generator.wait_links_up(5)
        generator.run_trial(dataclasses.replace(spec, duration_s=0.05))  # the first frames wait for ARP, and are lost
        before = hosts.counters()
        result = generator.run_trial(spec)
    one, two = (host.topology for host in built)
    both = dataclasses.replace(one, bridges=(*one.bridges, *two.bridges), ports=(*one.ports, *two.ports))
    return result, flat_ledger(result.offered, result.received, before, hosts.counters(), both)


@pytest.mark.parametrize("kind", [TunnelKind.GENEVE, pytest.param(TunnelKind.GRE, marks=MORE)])
def test_every_frame_passes_encapsulated_and_the_ledger_is_closed(
    hosts: Hosts, journal: Journal, kind: TunnelKind
) -> None:
    result, ledger = trial(hosts, hosts.build(kind), journal)
    assert all(counts.received == counts.sent > 100 for counts in result.counts), result.counts
    assert ledger.unexplained == 0
    assert losses(ledger) == {}
    moved = {delta.name: delta.delta for delta in ledger.deltas}
    assert moved["up1.tx_packets"] >= result.sent // 2
    assert moved["up2.rx_packets"] >= result.sent // 2
    assert moved["up1.tx_bytes"] > moved["p1.rx_bytes"], "they are longer on the cable"


def test_frames_of_a_key_that_the_other_end_does_not_have_are_named(hosts: Hosts, journal: Journal) -> None:
    result, ledger = trial(hosts, hosts.build(TunnelKind.GENEVE, keys=(42, 43)), journal)
    assert result.received == 0
    assert {hop for hop, _ in losses(ledger)} == {"datapath"}
    assert {reason for _, reason in losses(ledger)} <= {"datapath_drop_upcall_error", "upcalls_failed"}
    # Every frame has its reason. Upcalls are handled late: those of learning frames just before may be counted, too.
    assert -0.2 * ledger.offered <= ledger.unexplained <= 0
