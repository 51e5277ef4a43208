"""iperf3 as a generator: what it counts on a way that loses, doubles or is cut, and what it refuses."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from pyroute2 import IPRoute

from pytest_nfvperf.adapters.generators.iperf3.engine import find_iperf3
from pytest_nfvperf.adapters.generators.iperf3.generator import Iperf3Generator
from pytest_nfvperf.adapters.net.inside import inside_named
from pytest_nfvperf.adapters.net.namespaces import Namespace
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, GeneratorError
from pytest_nfvperf.model.topology.topology import PortRole
from pytest_nfvperf.model.traffic.traffic import IMIXES, Traffic
from pytest_nfvperf.model.traffic.trial import Direction, Reason, RigHealth, TrialResult, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from tests.functional.ovs_support import needs_root
from tests.functional.stream_support import ADDRESSES, Pair, pair

pytestmark = needs_root

WAYS = (Direction("p0", "p1"), Direction("p1", "p0"))
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
ALL = 65536


@pytest.fixture
def ends() -> Iterator[Pair]:
    with pair() as made:
        yield made


@pytest.fixture
def generator(ends: Pair) -> Iterator[Iperf3Generator]:
    with contextlib.closing(Iperf3Generator(ends.journal)) as made:
        yield made


def ports(devices: tuple[str, ...]) -> list[GeneratorPort]:
    return [GeneratorPort(f"p{n}", device, mac) for n, (device, mac) in enumerate(zip(devices, MACS, strict=True))]


def trial(**changes: object) -> TrialSpec:
    values: dict[str, object] = {
        "traffic": Traffic(),
        "load_fps": 2000,
        "duration_s": 0.1,
        "directions": WAYS[:1],
        **changes,
    }
    return TrialSpec(**values)  # type: ignore[arg-type]


def threaded() -> bool:
    """Since 3.16 each thread sends until another stops it: some frames more than it was told, then intended, too."""
    return find_iperf3().threads == "one thread a stream"


def as_asked(frames: int, result: TrialResult) -> bool:
    """All directions together sent what was asked for; threads may send up to a twentieth more, and say so."""
    intended = sum(counts.intended for counts in result.counts)
    return result.sent == intended and frames <= result.sent <= (frames * 1.05 if threaded() else frames)


def reasons(result: TrialResult) -> dict[Reason, str]:
    """Why it is invalid, but for a busy machine, on which it may be late by some milliseconds."""
    return {reason.code: reason.detail for reason in result.invalid if reason.code is not Reason.FELL_BEHIND}


@dataclass
class Relay:
    """Passes frames between two interfaces, and passes every n-th 64-byte frame of a trial ``copies`` times."""

    copies: int
    every: int = 10
    met: int = 0
    seen: int = 0

    def times(self, frame: bytes) -> int:
        is_udp = frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_UDP
        if not is_udp or int.from_bytes(frame[38:40]) != 8 + 18:  # iperf3's own datagrams are shorter
            return 1
        self.seen += 1
        if self.seen % self.every:
            return 1
        self.met += 1
        return self.copies

    def run(self, sockets: tuple[socket.socket, socket.socket], stop: threading.Event) -> None:
        other = {sockets[0]: sockets[1], sockets[1]: sockets[0]}
        while not stop.is_set():
            for ready in select.select(sockets, [], [], 0.05)[0]:
                frame, address = ready.recvfrom(ALL)
                if address[2] != socket.PACKET_OUTGOING:
                    for _ in range(self.times(frame)):
                        other[ready].send(frame)


@contextlib.contextmanager
def relayed(ends: Pair, relay: Relay) -> Iterator[tuple[str, ...]]:
    """A way between two new namespaces through a relay; yields the devices of its ends."""
    middle, left, right = (Namespace(ends.journal, role) for role in ("middle", "left", "right"))
    for space, address in zip((left, right), ADDRESSES, strict=True):
        _join(middle, space, address)
    sockets = inside_named(middle.name, lambda: (_packets(f"m-{left.name}"), _packets(f"m-{right.name}")))
    stop = threading.Event()
    thread = threading.Thread(target=relay.run, args=(sockets, stop))
    thread.start()
    try:
        yield tuple(
            f"namespace={space.name},address={address},interface=e0"
            for space, address in zip((left, right), ADDRESSES, strict=True)
        )
    finally:
        stop.set()
        thread.join()
        for one in sockets:
            one.close()


def _join(middle: Namespace, space: Namespace, address: str) -> None:
    """An end ``e0`` whose peer is in the middle. The relay cannot fill in checksums that the kernel left open."""
    with IPRoute(netns=space.name) as links:
        peer = {"ifname": f"m-{space.name}"[:15], "net_ns_fd": str(middle.path)}
        links.link("add", ifname="e0", kind="veth", peer=peer)
        index = links.link_lookup(ifname="e0")[0]
        links.addr("add", index=index, address=address, prefixlen=24)
        links.link("set", index=index, state="up")
    with IPRoute(netns=middle.name) as links:
        links.link("set", index=links.link_lookup(ifname=f"m-{space.name}"[:15])[0], state="up")
    space.run(["ethtool", "-K", "e0", "tx", "off"])


def _packets(interface: str) -> socket.socket:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    raw.bind((interface[:15], 0))
    return raw


def test_frames_that_the_way_lost_are_counted_one_by_one(ends: Pair, generator: Iperf3Generator) -> None:
    relay = Relay(copies=0)
    with relayed(ends, relay) as devices:
        generator.attach(ports(devices))
        result = generator.run_trial(trial())
    assert reasons(result) == {}
    assert as_asked(200, result)
    assert (result.lost, relay.met) == (20, 20)
    assert result.health == RigHealth()
    assert result.latency is None


def test_frames_that_came_twice_make_it_invalid(ends: Pair, generator: Iperf3Generator) -> None:
    relay = Relay(copies=2)
    with relayed(ends, relay) as devices:
        generator.attach(ports(devices))
        result = generator.run_trial(trial())
    assert relay.met == 20
    found = reasons(result)
    assert set(found) == {Reason.MORE_RECEIVED_THAN_SENT, Reason.UNCLEAR_SEQUENCE}
    assert as_asked(200, result)
    assert found[Reason.MORE_RECEIVED_THAN_SENT] == f"p0->p1: sent {result.sent}, received {result.sent + 20}"
    assert "datagrams out of order or duplicated: iperf3 cannot tell which" in found[Reason.UNCLEAR_SEQUENCE]


def test_a_load_that_it_cannot_send_is_invalid(ends: Pair, generator: Iperf3Generator) -> None:
    generator.attach(ports(ends.devices))
    result = generator.run_trial(trial(load_fps=20_000_000, duration_s=0.01))
    assert [reason.code for reason in result.invalid] == [Reason.FELL_BEHIND]
    assert "they were due faster than sent" in result.invalid[0].detail


def test_flows_share_the_load(ends: Pair, generator: Iperf3Generator) -> None:
    generator.attach(ports(ends.devices))
    result = generator.run_trial(trial(traffic=Traffic(flows=4), directions=WAYS))
    assert reasons(result) == {}
    assert as_asked(400, result)
    assert [counts.received for counts in result.counts] == [counts.sent for counts in result.counts]


@pytest.mark.parametrize(
    ("traffic", "message"),
    [
        (Traffic(frame_size=IMIXES["simple"]), r"iperf3 sends frames of one size, not imix-simple \(7:4:1 of 64/594/"),
        (Traffic(flows=129), "iperf3 sends at most 128 flows, one a stream, not 129"),
        (Traffic(vlan=7), "iperf3 does not tag frames with VLAN 7; give it a VLAN interface"),
        (Traffic(dst_mac=MACS[0]), "iperf3 cannot send with dst_mac 02:00:00:00:00:01: the addresses are those of"),
        (Traffic(src_ip="10.0.0.1"), "iperf3 cannot send with src_ip 10.0.0.1: the addresses are those of the"),
    ],
)
def test_what_it_cannot_send_it_refuses_with_what_to_use(
    ends: Pair, generator: Iperf3Generator, traffic: Traffic, message: str
) -> None:
    generator.attach(ports(ends.devices))
    refusals: tuple[Callable[[], object], ...] = (
        lambda: generator.run_trial(trial(traffic=traffic)),
        lambda: generator.learn(traffic, WAYS),
    )
    for refusal in refusals:
        with pytest.raises(ConfigError, match=message) as caught:
            refusal()
        assert str(caught.value).endswith("use the embedded generator (generator.engine: embedded) or TRex")


@pytest.mark.parametrize("device", ["net_virtio_user,path=/run/p0.sock", "namespace=a,address=,interface=b", ""])
def test_a_device_that_is_no_interface_is_refused(generator: Iperf3Generator, device: str) -> None:
    with pytest.raises(ConfigError, match=r"port 'p0': iperf3 needs a device 'namespace=NAME,address=IPV4,interface="):
        generator.attach([GeneratorPort("p0", device, MACS[0])])


def test_ipv6_is_refused(generator: Iperf3Generator) -> None:
    port = GeneratorPort("p0", "namespace=n,address=2001:2::1,interface=i", "02:00:00:00:00:01")
    with pytest.raises(ConfigError, match=r"'p0': iperf3 counts frames of IPv4 only, not of 2001:2::1; .* streams"):
        generator.attach([port])


def test_ports_that_cannot_be_taken_are_refused(ends: Pair, generator: Iperf3Generator) -> None:
    first, second = ports(ends.devices)
    with pytest.raises(ConfigError, match="port 'p0' is a monitor: iperf3 has endpoints only"):
        generator.attach([replace(first, role=PortRole.MONITOR)])
    with pytest.raises(ConfigError, match="port 'p0': MTU 9000, but interface client0 has 1500"):
        generator.attach([replace(first, mtu=9000)])
    with pytest.raises(ConfigError, match=r"port 'p0': no interface 'client7' in namespace .* \(there: client0, lo\)"):
        generator.attach([replace(first, device=first.device.replace("client0", "client7"))])
    with pytest.raises(ConfigError, match=r"ports 'p0' and 'p1' share namespace .*: the kernel counts by namespace"):
        generator.attach([first, replace(second, device=first.device)])


def test_a_link_that_is_down_is_awaited_by_name(ends: Pair, generator: Iperf3Generator) -> None:
    generator.attach(ports(ends.devices))
    generator.wait_links_up(1.0)
    ends.set_down()
    with pytest.raises(DeadlineError, match=r"waited 0\.1 s for all interfaces to be up; last seen: down: p0, p1"):
        generator.wait_links_up(0.1)


def test_learning_that_does_not_come_through_is_said(ends: Pair, generator: Iperf3Generator) -> None:
    with relayed(ends, Relay(copies=0, every=1)) as devices:
        generator.attach(ports(devices))
        sent = r"\d{2,3}" if threaded() else "10"
        with pytest.raises(GeneratorError, match=f"none of {sent} learning frames p0->p1 came through"):
            generator.learn(Traffic(), WAYS[:1])
