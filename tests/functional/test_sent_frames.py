"""What really goes over a wire, read by scapy: every field, length and checksum of every kind of frame and flow.

The wire is a veth pair in a namespace; a packet socket on its far end keeps what comes. Of the embedded generator
everywhere, of TRex where NFV_TREX_DIR names one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN

from pytest_nfvperf.adapters.generators.embedded.generator import EngineOptions
from pytest_nfvperf.adapters.generators.engine import Engine
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.net.packet_sockets import HostCapture
from pytest_nfvperf.model.traffic.traffic import Imix, Traffic, Vxlan
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from tests.frame_support import innermost, ip_of, rebuilt
from tests.functional.generator_support import embedded_in, run_dir
from tests.functional.ovs_support import clean_run, needs_root
from tests.functional.trex_support import needs_trex, trex_lab, veth

pytestmark = needs_root

MACS = ("02:00:00:00:00:0a", "02:00:00:00:00:0b")
DIRECTION = Direction("a", "b")
FLOWS = 50
FRAMES = 200
MTU = 9000
OVER_IPV6 = Vxlan(vni=7, src_ip="2001:db8::1", dst_ip="2001:db8::2")
TRAFFICS = [
    Traffic(frame_size=101, flows=FLOWS).over_ipv6(),
    Traffic(frame_size=Imix("odd", ((111, 3), (1518, 1))), flows=FLOWS, vxlan=Vxlan(vni=0xABCDEF)),
    Traffic(frame_size=200, flows=FLOWS, vxlan=Vxlan()).over_ipv6(),
    Traffic(frame_size=201, flows=FLOWS, vxlan=OVER_IPV6),
    Traffic(frame_size=1517, flows=FLOWS, vxlan=OVER_IPV6).over_ipv6(),
]
Send = Callable[..., tuple[bytes, ...]]
"""Sends a traffic, and where ``latency`` says so with latency frames in it."""


@contextmanager
def embedded_wire() -> Iterator[Send]:
    with clean_run() as journal, run_dir() as directory:
        space = LiveNamespace(journal, "wire")
        veth(space, MTU, "trex0", "trex1")
        inside = EngineOptions(
            start=lambda argv, log, env: Engine(["nsenter", f"--net=/run/netns/{space.name}", *argv], log, env)
        )
        with embedded_in(directory, options=inside) as generator:
            devices = [f"net_af_packet,iface=trex{end}" for end in (0, 1)]
            generator.attach(
                [
                    GeneratorPort(name, device, mac, mtu=1500)
                    for name, device, mac in zip("ab", devices, MACS, strict=True)
                ]
            )
            yield lambda traffic, latency=True: sent(generator, space.name, traffic, latency=latency)


@contextmanager
def trex_wire() -> Iterator[Send]:
    with trex_lab(mtu=MTU) as lab, closing(lab.generator()) as generator:
        generator.attach([GeneratorPort(name, str(number), MACS[number], mtu=MTU) for number, name in enumerate("ab")])
        # Its latency frames have numbers and times written over their payload, and over IPv6 no checksum for that.
        yield lambda traffic, latency=False: sent(generator, lab.namespace.name, traffic, latency=latency)


@pytest.fixture(scope="module", params=["embedded", pytest.param("trex", marks=needs_trex)])
def send(request: pytest.FixtureRequest) -> Iterator[Send]:
    with embedded_wire() if request.param == "embedded" else trex_wire() as made:
        yield made


def sent(generator: object, namespace: str, traffic: Traffic, *, latency: bool) -> tuple[bytes, ...]:
    """The frames of a trial without loss, as they came over the wire: all that a busy machine let it send."""
    spec = TrialSpec(traffic, FRAMES * 5, 0.2, (DIRECTION,), latency=latency, residual_s=0.3)
    for _ in range(60):
        with closing(HostCapture(namespace, "trex1")) as capture:
            capture.start()
            result = generator.run_trial(spec)  # type: ignore[attr-defined]
            caught = [frame for frame in capture.stop().samples if Ether(frame).src == MACS[0]]
        (counts,) = result.counts
        assert (counts.corrupted, counts.duplicated) == (0, 0)
        if counts.sent == counts.received == len(caught) > FLOWS:
            return tuple(caught)
    pytest.fail(f"no trial without loss on this machine: {result}")


@pytest.mark.parametrize("traffic", TRAFFICS, ids=lambda traffic: traffic.shape_label)
def test_frames_are_what_the_traffic_says(send: Send, traffic: Traffic) -> None:
    frames = send(traffic)
    for data in frames:
        check_frame(data, traffic)
    packets = [Ether(data) for data in frames]
    inner = [innermost(packet) for packet in packets]
    assert len({(ip_of(packet).src, packet[UDP].sport) for packet in inner}) == FLOWS
    if traffic.vxlan:
        # An outer port for each flow inside: RSS can tell them apart.
        ports = {(ip_of(packet).src, whole[UDP].sport) for packet, whole in zip(inner, packets, strict=True)}
        assert len(ports) == len({port for _, port in ports}) == FLOWS
        assert min(port for _, port in ports) >= 49152
    sizes = (
        {size for size, _ in traffic.frame_size.recipe}
        if isinstance(traffic.frame_size, Imix)
        else {traffic.frame_size}
    )
    assert {len(data) + 4 for data in frames} == sizes


@pytest.mark.parametrize(
    "traffic",
    [
        Traffic(flows=FLOWS),
        Traffic(frame_size=Imix("odd", ((111, 3), (1518, 1))), flows=FLOWS),
        Traffic(frame_size=200, flows=FLOWS, vxlan=Vxlan()),
    ],
    ids=lambda traffic: traffic.shape_label,
)
def test_every_flow_has_as_many_frames_latency_frames_included(send: Send, traffic: Traffic) -> None:
    frames = send(traffic, latency=True)
    for data in frames:
        check_frame(data, traffic)
    found = Counter(ip_of(innermost(Ether(data))).src for data in frames)
    each, one_more = divmod(len(frames), FLOWS)  # the flows take turns
    assert Counter(found.values()) == Counter([each + 1] * one_more + [each] * (FLOWS - one_more))


def check_frame(data: bytes, traffic: Traffic) -> None:
    """Addresses, and every length and checksum: scapy makes the same bytes of the fields."""
    packet = Ether(data)
    assert (packet.src, packet.dst) == MACS
    if traffic.vxlan:
        outer = ip_of(packet)
        assert (outer.src, outer.dst) == (traffic.vxlan.src_ip, traffic.vxlan.dst_ip)
        assert (packet[UDP].dport, packet[UDP].chksum, packet[VXLAN].vni) == (4789, 0, traffic.vxlan.vni)
        packet = packet[VXLAN].payload
        assert (packet.src, packet.dst) == (traffic.vxlan.inner_src_mac, traffic.vxlan.inner_dst_mac)
    assert ip_of(packet).dst == traffic.dst_ip
    assert (packet[UDP].chksum == 0) == (traffic.ip_version == 4)
    assert rebuilt(data) == data
