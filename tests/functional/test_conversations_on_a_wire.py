"""Whole connections as they go over a wire, read by scapy and followed as a TCP stack would.

The wire is a veth pair in a namespace; a packet socket on each end keeps what arrives there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from scapy.layers.inet import TCP, UDP
from scapy.layers.l2 import Ether

from pytest_nfvperf import Conversation
from pytest_nfvperf.adapters.generators.embedded.generator import EngineOptions
from pytest_nfvperf.adapters.generators.engine import Engine
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.net.packet_sockets import HostCapture
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import Generator, GeneratorPort
from tests.frame_support import ip_of, rebuilt
from tests.functional.generator_support import embedded_in, run_dir
from tests.functional.ovs_support import clean_run, needs_root
from tests.functional.trex_support import veth

pytestmark = needs_root

MACS = ("02:00:00:00:00:0a", "02:00:00:00:00:0b")
FORWARD = Direction("a", "b")
SIX = {"client_ip": "2001:2::1", "server_ip": "2001:2:0:8000::1"}


@pytest.fixture(scope="module")
def wire() -> Iterator[tuple[Generator, str]]:
    with clean_run() as journal, run_dir() as directory:
        space = LiveNamespace(journal, "wire")
        veth(space, 9000, "wire0", "wire1")
        inside = EngineOptions(
            start=lambda argv, log, env: Engine(["nsenter", f"--net=/run/netns/{space.name}", *argv], log, env)
        )
        with embedded_in(directory, options=inside) as generator:
            devices = [f"net_af_packet,iface=wire{end}" for end in (0, 1)]
            ports = [GeneratorPort(*port, mtu=1500) for port in zip("ab", devices, MACS, strict=True)]
            generator.attach(ports)
            yield generator, space.name


def connections(wire: tuple[Generator, str], traffic: Traffic) -> list[list[Any]]:
    """The packets of each connection of a trial without loss: each side's as they came, by the script."""
    generator, namespace = wire
    spec = TrialSpec(traffic, 1000, 0.2, (FORWARD,), residual_s=0.3)
    for _ in range(30):
        with ExitStack() as closed:
            captures = [closed.enter_context(closing(HostCapture(namespace, f"wire{end}"))) for end in (1, 0)]
            for capture in captures:
                capture.start()
            (counts,) = generator.run_trial(spec).counts
            caught = [data for capture in captures for data in capture.stop().samples]
        assert (counts.corrupted, counts.duplicated) == (0, 0)
        caught = [data for data in caught if Ether(data).src in MACS]
        if counts.received == counts.sent > 50 and len(caught) == counts.sent * len(counts.steps):
            break
    else:
        pytest.fail(f"no trial without loss on this machine: {counts.sent} sent, {len(caught)} frames caught")
    sides = defaultdict[Any, dict[str, list[Any]]](lambda: {mac: [] for mac in MACS})
    for data in caught:
        packet = Ether(data)
        assert rebuilt(data) == data
        layer, ip = packet[TCP if TCP in packet else UDP], ip_of(packet)
        client = (ip.src, layer.sport) if packet.src == MACS[0] else (ip.dst, layer.dport)
        sides[client][packet.src].append(packet)
    assert len(sides) == counts.sent
    return [[side[MACS[step.from_server]].pop(0) for step in counts.steps] for side in sides.values()]


@pytest.mark.parametrize(
    "traffic",
    [
        Conversation.tcp(clients=10, ports=range(2000, 2050), response=3000),
        Conversation.tcp(close="rst", vlan=42, **SIX),
        Conversation.tcp(request=0, response=0),
    ],
    ids=["fin", "rst over ipv6", "no data"],
)
def test_a_tcp_stack_would_take_every_frame(wire: tuple[Generator, str], traffic: Traffic) -> None:
    conversation = traffic.packet
    for packets in connections(wire, traffic):
        expected: dict[str, int] = {}  # the next byte of each side
        sent = dict.fromkeys(MACS, 0)
        for packet in packets:
            tcp, own, other = packet[TCP], packet.src, packet.dst
            payload = len(ip_of(packet).payload) - 4 * tcp.dataofs
            flags = set(str(tcp.flags))
            if "S" in flags:
                assert own not in expected
                expected[own] = tcp.seq
            assert tcp.seq == expected[own]
            if "A" in flags:
                assert tcp.ack == expected[other]
            sent[own] += payload
            expected[own] = (tcp.seq + payload + ("S" in flags) + ("F" in flags)) % (1 << 32)
        assert [str(packet[TCP].flags) for packet in packets] == [step.kind for step in conversation.steps]
        assert sent == {MACS[0]: conversation.request, MACS[1]: conversation.response}


def test_datagrams_are_answered(wire: tuple[Generator, str]) -> None:
    for asked, answer in connections(wire, Conversation.udp(request=100, response=200)):
        assert (asked.src, asked[UDP].dport, len(asked[UDP].payload)) == (MACS[0], 53, 100)
        assert (answer.src, answer[UDP].sport, len(answer[UDP].payload)) == (MACS[1], 53, 200)
        assert answer[UDP].dport == asked[UDP].sport
