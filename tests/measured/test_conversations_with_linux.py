"""Linux's TCP stack accepts the engine's client, and the engine's server accepts Linux's clients.

What stands between them, and what it translates, is said in linux_peer.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pytest_nfvperf import Conversation
from pytest_nfvperf.adapters.generators.embedded.generator import EngineOptions
from pytest_nfvperf.adapters.generators.engine import Engine
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace, NamespacePlan
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, DirectionCounts, TrialSpec
from pytest_nfvperf.ports.generator import Generator, GeneratorPort
from tests.functional.generator_support import embedded_in, run_dir
from tests.functional.linux_peer import LinuxPeer, packet_wires
from tests.functional.ovs_support import clean_run, needs_root
from tests.functional.trex_support import veth

pytestmark = needs_root

PORTS = [("client", "wire0", "02:00:00:00:00:0a"), ("server", "wire2", "02:00:00:00:00:0b")]
FAR_ENDS = ("wire1", "wire3")
SIX = {"client_ip": "2001:2::1", "server_ip": "2001:2:0:8000::1"}
ENDS = {4: {"mss": 536}, 6: {"mss": 1220, **SIX}}
"""The engine offers no MSS, so Linux sends what each version's least MTU allows."""
OF_NOTHING = (
    *("Tcp.AttemptFails", "Tcp.EstabResets", "Tcp.InErrs", "Tcp.InCsumErrors", "Tcp.OutRsts"),
    *("Ip.InHdrErrors", "Ip.InAddrErrors", "IpExt.InCsumErrors"),
    *("TcpExt.TCPChallengeACK", "TcpExt.TCPSYNChallenge", "TcpExt.TCPACKSkippedSeq", "TcpExt.TCPOFOQueue"),
    *("TcpExt.TCPAbortOnData", "TcpExt.TCPAbortOnClose", "TcpExt.ListenDrops", "TcpExt.TCPDSACKRecv"),
)
"""Counters of Linux's stack that stay 0 where each frame is what TCP allows at that moment."""
RATES = {300: 200, 10_000: 400}
"""Connections a second by how many there are. Each costs the translator half a millisecond of CPU."""
ATTEMPTS = 3
"""A translator that waits for a CPU for a second makes Linux send again, and then begin with one segment (RFC 5681,
3.1). The engine acknowledges the whole response only, so such a connection never ends. With a wrong frame none of the
attempts is without that."""


@pytest.fixture(scope="module")
def journal() -> Iterator[Journal]:
    with clean_run() as made:
        yield made


@pytest.fixture(scope="module")
def wired(journal: Journal) -> Iterator[tuple[Generator, str]]:
    """An engine, whose ports are at cables, and the namespace of both cables."""
    with run_dir() as directory:
        space = LiveNamespace(journal, "wires")
        for (_, interface, _), far in zip(PORTS, FAR_ENDS, strict=True):
            veth(space, 9000, interface, far)
        inside = EngineOptions(start=lambda argv, log, env: Engine(["nsenter", f"--net={space.path}", *argv], log, env))
        with embedded_in(directory, options=inside) as generator:
            generator.attach(
                [
                    GeneratorPort(name, f"net_af_packet,iface={link},framecnt=4096", mac, mtu=1500)
                    for name, link, mac in PORTS
                ]
            )
            yield generator, space.name


def counted(generator: Generator, traffic: Traffic, connections: int) -> DirectionCounts:
    """A trial of so many connections and a few more, without those that a busy machine made the engine skip."""
    rate, forward = RATES[connections], (Direction("client", "server"),)
    running = generator.start_trial(TrialSpec(traffic, rate, 4 * connections / rate, forward, residual_s=5.0), 0.1)
    while (interval := running.next_interval()) is not None:
        if interval.directions[0].received >= connections:
            running.stop()
    (count,) = running.result().counts
    return count


def connected(
    wired: tuple[Generator, str], journal: Journal, traffic: Traffic, connections: int, linux_serves: bool
) -> tuple[DirectionCounts, LinuxPeer]:
    """A trial with a Linux in a namespace of its own, again where a busy machine kept Linux waiting: see ATTEMPTS."""
    generator, wires = wired
    for _ in range(ATTEMPTS):
        (space,) = LiveNamespace.several(journal, [NamespacePlan("linux", ipv6=True)])
        with (
            closing(space),
            packet_wires(wires, FAR_ENDS) as far_ends,
            LinuxPeer(space, traffic.packet, far_ends, linux_serves=linux_serves) as peer,
        ):
            count = counted(generator, traffic, connections)
        assert [peer.counters[f"{group}.InCsumErrors"] for group in ("Tcp", "IpExt")] == [0, 0]
        if peer.counters["Tcp.RetransSegs"] == 0:
            break
    return count, peer


@pytest.mark.parametrize("linux_serves", [True, False], ids=["engine's client", "engine's server"])
@pytest.mark.parametrize("version", [4, 6], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize(
    "connections", [300, pytest.param(10_000, marks=pytest.mark.daily("the same with 10,000 connections"))]
)
def test_linux_accepts_every_connection(
    wired: tuple[Generator, str], journal: Journal, version: int, linux_serves: bool, connections: int
) -> None:
    # Linux's clients keep a closed connection's port for a minute, its server does not.
    ends = {"clients": 2, "ports": range(2000, 3000)} if linux_serves else {"clients": 2, "ports": range(2000, 32000)}
    traffic = Conversation.tcp(response=3000, **ENDS[version], **ends)
    count, peer = connected(wired, journal, traffic, connections, linux_serves)
    translator, sockets = peer.translator, peer.sockets
    swallowed, stuck = dict(translator.swallowed), translator.stuck()[:5]
    said = f"{count.skipped} skipped, {swallowed} swallowed, {stuck} stuck, {count.steps}"
    assert (translator.unexpected[:5], sockets.faults[:5]) == ([], []), said
    assert count.sent >= connections, said
    assert (count.lost, count.corrupted, count.duplicated, count.misdirected) == (0, 0, 0, 0), said
    assert {(step.due, step.sent, step.received) for step in count.steps} == {(count.sent,) * 3}, said
    assert (sockets.finished, stuck) == (count.sent, [])
    assert peer.open_sockets == []
    opened = peer.counters["Tcp.PassiveOpens" if linux_serves else "Tcp.ActiveOpens"]
    assert opened == count.sent
    assert peer.counters["Tcp.RetransSegs"] == 0
    assert {name: peer.counters[name] for name in OF_NOTHING if peer.counters[name]} == {}
