"""Connection tracking on a real OVS: frames of TCP by hand, what the DUT remembers of them, and what is left behind."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6ND_NS, IPv6
from scapy.layers.l2 import ARP, Ether

from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.measure.ledger import deltas
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.connections import Connections, connections, dnat, load_balancer, snat
from pytest_nfvperf.model.topology.parts import endpoint, path
from pytest_nfvperf.model.topology.topology import Topology
from tests.functional.lab_support import system_ovs
from tests.functional.ovs_support import MACS, far_ends, needs_root, started, until
from tests.functional.test_lab_system_ovs import system_testbed

pytestmark = needs_root

CLIENT, SERVER = "198.18.0.1", "198.18.0.2"
BETWEEN = {"client": "p0", "server": "p1"}


@pytest.fixture(scope="module")
def ovs(journal: Journal) -> Iterator[OvsDatapath]:
    with started(journal, "netdev", "ct") as running:
        yield running


class Wire:
    """Both ends of a bridge that tracks connections. ``send`` says what arrived at the other end."""

    def __init__(self, built: BuiltOvsTopology, ends: tuple[socket.socket, socket.socket]) -> None:
        self.built = built
        self._ends = ends

    def send(self, layer: object, side: int = 0, wait_s: float = 3.0) -> IP | None:
        sent, other = self._ends[side], self._ends[1 - side]
        sent.send(bytes(Ether(src=MACS[side], dst=MACS[1 - side]) / layer))
        other.settimeout(wait_s)
        try:
            return Ether(other.recv(2000)).payload
        except TimeoutError:
            return None

    def client(self, flags: str, port: int = 1024, seq: int = 100, ack: int = 0) -> IP | None:
        return self.send(IP(src=CLIENT, dst=SERVER) / TCP(sport=port, dport=80, flags=flags, seq=seq, ack=ack))

    def answer(self, to: IP, flags: str, seq: int = 500, ack: int = 101, wait_s: float = 3.0) -> IP | None:
        back = TCP(sport=to[TCP].dport, dport=to[TCP].sport, flags=flags, seq=seq, ack=ack)
        return self.send(IP(src=to.dst, dst=to.src) / back, 1, wait_s)

    def handshake(self, port: int = 1024) -> tuple[IP, IP]:
        """What the server gets of the SYN, and the client of the SYN-ACK."""
        asked = self.client("S", port)
        assert asked is not None
        answered = self.answer(asked, "SA")
        assert answered is not None
        assert self.client("A", port, 101, 501) is not None
        return asked, answered


def tracked(*parts: Connections, name: str = "p", bridge: str = "br0") -> Topology:
    ends = [endpoint(f"{name}{number}", bridge, mac=MACS[number]) for number in (0, 1)]
    return compose("tracked", *ends, path(f"{name}0", f"{name}1"), *parts)


@contextmanager
def reading(interface: str, ethertype: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ethertype)) as raw:
        raw.bind((interface, ethertype))
        yield raw


@contextmanager
def wired(ovs: OvsDatapath, *parts: Connections) -> Iterator[Wire]:
    built = ovs.build(tracked(*parts))
    with ExitStack() as stack:
        stack.callback(built.close)
        built.wait_ready(10)
        ends = [stack.enter_context(reading(name, 0x0800)) for name in far_ends(built)]
        yield Wire(built, (ends[0], ends[1]))


def counters(ovs: OvsDatapath) -> dict[str, int]:
    return ovs.collector.snapshot().as_dict()


def test_a_handshake_is_one_connection_and_a_flush_leaves_none(ovs: OvsDatapath) -> None:
    with wired(ovs, connections("br0", **BETWEEN, zone=7, second_zone=8, mark=5, label=1 << 70)) as wire:
        before = ovs.collector.snapshot()
        wire.handshake()
        assert wire.built.connections() == {7: 1, 8: 1}
        after = ovs.collector.snapshot()
        assert ovs.samplers()[0].read().gauges["ovs.connections"] == 2
        moved = {change.name: change for change in deltas(before, after)}
        assert [moved[name].delta for name in ("connections", "connections.zone7", "connections.zone8")] == [2, 1, 1]
        assert all("mark=5" in line for line in wire.built.ovs("appctl", "dpctl/dump-conntrack").splitlines())
        wire.built.flush_connections()
        assert wire.built.connections() == {7: 0, 8: 0}
        assert not any(change.went_back for change in deltas(after, ovs.collector.snapshot()))


def test_a_server_opens_nothing_and_what_is_invalid_is_told_by_its_flow(ovs: OvsDatapath) -> None:
    with wired(ovs, connections("br0", **BETWEEN, zone=7)) as wire:
        opening = IP(src=SERVER, dst=CLIENT) / TCP(sport=80, dport=1024, flags="S")
        assert wire.send(opening, 1, 0.3) is None
        stray = IP(src=SERVER, dst=CLIENT) / TCP(sport=80, dport=9, flags="SA", ack=7)
        assert wire.send(stray, 1, 0.3) is None
        assert wire.built.connections() == {7: 0}
        flow = "flow.br0.table=101,priority={},in_port=p1,ct_state=+{}+trk"
        names = [flow.format(9, "new"), flow.format(40, "inv")]
        assert until(lambda: [counters(ovs).get(name) for name in names] == [1, 1], 3), counters(ovs)


def test_what_is_no_ip_and_other_ports_pass_untracked(ovs: OvsDatapath) -> None:
    with wired(ovs, connections("br0", **BETWEEN, server_ports=(443,))) as wire:
        assert wire.client("S") is not None
        arp = bytes(Ether(src=MACS[1], dst="ff:ff:ff:ff:ff:ff") / ARP(psrc=SERVER, pdst=CLIENT)).ljust(60, b"\0")
        with reading(far_ends(wire.built)[0], 0x0806) as reader:
            reader.settimeout(3)
            wire._ends[1].send(arp)
            assert reader.recv(100) == arp
        assert wire.built.connections() == {1: 0}
        assert wire.send(IP(src=CLIENT, dst=SERVER) / TCP(sport=9, dport=443, flags="S")) is not None
        assert wire.built.connections() == {1: 1}


def test_both_ends_are_translated_each_in_its_zone(ovs: OvsDatapath) -> None:
    nat = snat("198.51.100.1-198.51.100.8", (5000, 6000)), dnat("203.0.113.5", 8080)
    with wired(ovs, connections("br0", **BETWEEN, nat=nat, second_zone=2)) as wire:
        asked, answered = wire.handshake()
        assert asked.src in {f"198.51.100.{number}" for number in range(1, 9)}
        assert 5000 <= asked[TCP].sport <= 6000
        assert (asked.dst, asked[TCP].dport) == ("203.0.113.5", 8080)
        back = answered[TCP]
        assert (answered.src, back.sport, answered.dst, back.dport) == (SERVER, 80, CLIENT, 1024)
        assert wire.built.connections() == {1: 1, 2: 1}


def test_ipv6_is_translated_and_its_neighbour_discovery_passes(ovs: OvsDatapath) -> None:
    nat = connections("br0", **BETWEEN, nat=snat("fd00::1-fd00::4", (5000, 6000)))
    with wired(ovs, nat) as over_ipv4, ExitStack() as stack:
        ends = [stack.enter_context(reading(name, 0x86DD)) for name in far_ends(over_ipv4.built)]
        wire = Wire(over_ipv4.built, (ends[0], ends[1]))
        asked = wire.send(IPv6(src="fd01::1", dst="fd01::2") / UDP(sport=9, dport=53))
        assert asked is not None
        assert asked.src in {f"fd00::{number}" for number in range(1, 5)}
        back = wire.send(IPv6(src=asked.dst, dst=asked.src) / UDP(sport=53, dport=asked.sport), 1)
        assert back is not None
        assert (back.dst, back.dport) == ("fd01::1", 9)
        assert wire.send(IPv6(src="fd01::2", dst="ff02::1:ff00:1") / ICMPv6ND_NS(tgt="fd01::1"), 1) is not None
        assert wire.built.connections() == {1: 1}


@pytest.mark.parametrize("by", ["group", "range"])
def test_a_load_balancer_uses_all_its_backends(ovs: OvsDatapath, by: str) -> None:
    balancer = load_balancer("br0", **BETWEEN, by=by, zone=3, second_zone=4, source=snat("198.51.100.9"))
    with wired(ovs, balancer) as wire:
        pairs = [wire.handshake(port) for port in range(2000, 2032)]
        assert {asked.dst for asked, _ in pairs} == {f"198.19.0.{number}" for number in range(1, 5)}
        assert {(asked.src, answered.src) for asked, answered in pairs} == {("198.51.100.9", SERVER)}
        assert wire.built.connections() == {3: 32, 4: 32}


@pytest.mark.parametrize("settings", [{"limit": 3}, {"most_connections": 3}])
def test_a_limit_is_met_exactly_and_the_frame_above_it_is_told(ovs: OvsDatapath, settings: dict[str, int]) -> None:
    with wired(ovs, connections("br0", **BETWEEN, zone=9, **settings)) as wire:
        before = counters(ovs)
        for port in (1, 2, 3):
            wire.handshake(port)
        above = wire.client("S", 4)  # which OVS forwards, and forgets
        assert above is not None
        assert wire.answer(above, "SA", wait_s=0.3) is None
        assert wire.built.connections() == {9: 3}
        if "most_connections" in settings:
            name = "coverage.conntrack_full"
            assert until(lambda: counters(ovs)[name] == before[name] + 1, 3)
        invalid = "flow.br0.table=101,priority=40,in_port=p1,ct_state=+inv+trk"
        assert until(lambda: counters(ovs)[invalid] == 1, 3)


def test_timeouts_of_a_zone_are_applied(ovs: OvsDatapath) -> None:
    with wired(ovs, connections("br0", **BETWEEN, zone=6, timeouts={"tcp_syn_sent": 1, "udp_first": 9})) as wire:
        assert "tcp_syn_sent=1" in wire.built.ovs("vsctl", "list-zone-tp", "netdev")
        asked = wire.client("S")
        assert asked is not None
        time.sleep(1.2)
        assert wire.answer(asked, "SA", wait_s=0.3) is None  # nobody has asked


def test_nothing_is_left_of_it_for_the_next_topology(ovs: OvsDatapath) -> None:
    other = ovs.build(compose("other", endpoint("q0", "br9")))  # keeps the datapath
    try:
        settings = {"limit": 3, "most_connections": 5, "timeouts": {"tcp_close": 1}}
        with wired(ovs, connections("br0", **BETWEEN, zone=9, **settings)) as wire:  # type: ignore[arg-type]
            wire.handshake()
            lines = ["dpctl/ct-get-maxconns: 5", "dpctl/ct-get-limits: default limit=0, zone=9,limit=3,count=1"]
            assert "\n".join(lines) in wire.built.configuration()
            ovs.restart(killed=True)
            assert "\n".join(lines).replace("count=1", "count=0") in wire.built.configuration()
        asked = {command: other.ovs("appctl", f"dpctl/{command}") for command in ("ct-get-maxconns", "ct-get-limits")}
        assert asked == {"ct-get-maxconns": "3000000\n", "ct-get-limits": "default limit=0\n"}
        assert other.ovs("vsctl", "list", "CT_Zone") == other.ovs("vsctl", "list", "Datapath") == ""
        assert other.ovs("appctl", "dpctl/dump-conntrack") == ""
        assert other.connections() == {}
    finally:
        other.close()


def test_the_systems_ovs_takes_no_setting_and_no_zone_of_others(journal: Journal) -> None:
    with system_ovs(journal) as directory:
        testbed = system_testbed(directory)
        running = OvsDatapath.start(testbed, journal, name="system")
        try:
            for setting in ({"limit": 3}, {"most_connections": 5}, {"timeouts": {"tcp_close": 1}}):
                name = next(iter(setting))
                with pytest.raises(UnavailableError, match=f"{name}= is not set on the system's OVS"):
                    running.build(tracked(connections("br0", **BETWEEN, **setting)))  # type: ignore[arg-type]
            with wired(running, connections("br0", **BETWEEN, zone=5)) as wire:
                wire.handshake()
                with pytest.raises(UnavailableError, match="zone 5 of the system's OVS has 1 connections"):
                    running.build(tracked(connections("br9", client="q0", server="q1", zone=5), name="q", bridge="br9"))
                assert wire.built.connections() == {5: 1}
                wire.built.flush_connections()
                assert wire.built.connections() == {5: 0}
        finally:
            running.close()
