"""Traffic of any kind through a real OVS, read at the far port by a packet socket of this test and parsed by scapy.

The generator's own parser has no say: a frame is right if scapy, which parses it, builds the same bytes again, and if
its fields are those that the test asked for.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet

from pytest_nfvperf.adapters.ovs.ovsdb import value_of
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.measure.ledger import BY_RULE, ledger_text
from pytest_nfvperf.model.topology.bridges import rules
from pytest_nfvperf.model.topology.compose import bridge_chain, compose, pvp
from pytest_nfvperf.model.topology.parts import endpoint, namespace, nic, patch, path, tunnel
from pytest_nfvperf.model.topology.ports import Namespace
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.packet_program import Vary
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction
from tests.functional.loss_rig import LiveLoss, LossRig, loss_rig
from tests.functional.ovs_support import far_ends, needs_root, phy2phy, started
from tests.unit.test_packet_stacks import STACKS, built_again

pytestmark = needs_root

SOL_PACKET, PACKET_AUXDATA, ETH_P_ALL, VLAN_VALID, TPID_VALID = 263, 8, 3, 1 << 4, 1 << 6
SO_RCVBUFFORCE = 33
FRAMES, LOAD = 240, 4000
SIGNATURE_BYTES, FCS_BYTES = 14, 4
THERE, BACK = Direction("p0", "p1"), Direction("p1", "p0")


UNDERLAY = ("172.31.0.1", "172.31.0.2")
ROUTER_MACS = ("02:00:00:00:00:a0", "02:00:00:00:00:b0")
ENDS = endpoint("p0", "br0"), endpoint("p1", "br0")


def tunnelled(kind: str) -> Topology:
    """p0 is inside, p1 on the underlay."""
    return compose(
        f"tunnel-{kind}",
        endpoint("p0", "br-int"),
        tunnel("br-int", local=UNDERLAY[0], remote=UNDERLAY[1], kind=kind, key=7),
        namespace("far", "br0", f"{UNDERLAY[1]}/24"),
        endpoint("p1", "br0"),
    )


TOPOLOGIES: dict[str, Topology] = {
    "phy2phy": phy2phy(),
    "patches": bridge_chain(3),
    "veths": bridge_chain(2, link="veth"),
    "learning": compose("learning", *ENDS),
    "learning over a patch": compose("over", ENDS[0], patch("br0", "br1"), endpoint("p1", "br1")),
    "access ports on a path": compose("ap", *(endpoint(end, "br0", vlan=7) for end in ("p0", "p1")), path("p0", "p1")),
    "pvp": pvp(),
    "vxlan": tunnelled("vxlan"),
    "geneve": tunnelled("geneve"),
    "routed": compose(
        "routed",
        endpoint("p0", "br0", eth_peer=ROUTER_MACS[0]),
        endpoint("p1", "br1", eth_peer=ROUTER_MACS[1]),
        Namespace("r", routing=True),
        nic("r", "br0", "10.1.0.254/24", "2001:db8:1::fe/64", name="eth0", mac=ROUTER_MACS[0]),
        nic("r", "br1", "10.2.0.254/24", "2001:db8:2::fe/64", name="eth1", mac=ROUTER_MACS[1]),
        rules("br0", answers="p0"),
        rules("br1", answers="p1"),
    ),
}


@pytest.fixture(scope="module")
def rig(journal: Journal) -> Iterator[LossRig]:
    with started(journal, "netdev") as ovs, loss_rig(journal, ovs) as made:
        yield made


@pytest.fixture(scope="module")
def live(request: pytest.FixtureRequest, rig: LossRig) -> Iterator[LiveLoss]:
    """The topology of this name, until a test asks for another one."""
    with rig.deployment(TOPOLOGIES[request.param]) as made:
        yield made


def some_of(names: Iterable[str], *always: str) -> list[Any]:
    """These in ``make test``, the others where there is time."""
    rest = pytest.mark.thorough("more of the same")
    return [name if name in always else pytest.param(name, marks=rest) for name in names]


def on(*shapes: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("live", shapes, indirect=True)


class Tap:
    """A packet socket of this test on an interface: what came in, VLAN tags included."""

    def __init__(self, interface: str) -> None:
        self._raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._raw.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self._raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        self._raw.bind((interface, ETH_P_ALL))
        self._raw.settimeout(0.05)
        self._ends = threading.Event()
        self.frames: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data, auxiliary, _, address = self._raw.recvmsg(65536, 64)
            except TimeoutError:
                if self._ends.is_set():
                    return
                continue
            if address[2] != socket.PACKET_OUTGOING:
                self.frames.append(tagged(data, auxiliary))

    def close(self) -> None:
        self._ends.set()
        self._reader.join()
        self._raw.close()


def tagged(data: bytes, auxiliary: Sequence[tuple[int, int, bytes]]) -> bytes:
    """The frame with the tag that the kernel took off it (packet(7), PACKET_AUXDATA)."""
    for level, kind, content in auxiliary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", content)
            if status & VLAN_VALID:
                return data[:12] + struct.pack("!HH", tpid if status & TPID_VALID else 0x8100, tci) + data[12:]
    return data


@contextmanager
def tapped(live: LiveLoss, port: str) -> Iterator[list[bytes]]:
    ends = dict(zip(live.built.attachments(), far_ends(live.built), strict=True))
    tap = Tap(ends[port])
    try:
        yield tap.frames
    finally:
        tap.close()


def lossless(live: LiveLoss, traffic: Traffic, direction: Direction = THERE) -> list[bytes]:
    """The frames at the far port of a trial in which nothing else took the generator's CPU for long.

    Every frame that was sent is counted there and known again.
    """
    for _ in range(40):
        with tapped(live, direction.rx) as frames:
            trial = live.trial(LOAD, FRAMES / LOAD, replace(traffic, bidirectional=False), (direction,))
            time.sleep(0.1)
        (counts,) = trial.result.counts
        if counts.sent == counts.received >= FRAMES // 2:
            break
    assert counts.received == counts.sent >= FRAMES // 2, f"{counts}\n{trial.result.invalid}"
    assert (counts.corrupted, counts.duplicated) == (0, 0), counts
    assert trial.ledger is not None
    assert (trial.ledger.lost, trial.ledger.unexplained) == (0, 0), ledger_text(trial.ledger)
    own = own_frames(frames, counts.sent)
    assert_in_order(own, traffic)
    return own


BURST = 32
"""Frames that OVS's datapath takes at once from a port (NETDEV_MAX_BURST)."""


def assert_in_order(frames: Sequence[bytes], traffic: Traffic) -> None:
    """Frames of one flow are in their order, and no other overtakes more than two passes' bursts.

    OVS sends what a burst brought by datapath flow, one after the other (packet_batch_per_flow of dpif-netdev.c), and
    has one for each VLAN: of frames with ten outer tags in turn, numbers 168 and 178 came in front of 169.
    """
    assert isinstance(traffic.frame_size, int)
    last, highest = dict[bytes, int](), 0
    for frame in frames:
        at = traffic.header_bytes + len(frame) + FCS_BYTES - traffic.frame_size  # tags come and go in front of it
        headers, number = frame[:at], int.from_bytes(frame[at + 4 : at + 8], "little")
        assert frame[at : at + 2] == b"\x4e\x66"
        assert last.get(headers, -1) < number, f"{number} came behind {last[headers]} of its own flow"
        assert highest - number < 2 * BURST, f"{number} came behind {highest}"
        last[headers], highest = number, max(highest, number)


def assert_lost(
    live: LiveLoss, traffic: Traffic, number: int, every: int, direction: Direction = THERE
) -> tuple[str, int]:
    """Of the frames that were sent, one of so many is lost, this one first, and the ledger has a rule for each of them.

    A busy machine keeps the generator from sending all, and the fields go on with the next that is sent. Returns the
    ledger's text, and how many were lost.
    """
    for _ in range(40):
        trial = live.trial(LOAD, FRAMES / LOAD, replace(traffic, bidirectional=False), (direction,))
        (counts,) = trial.result.counts
        if counts.sent >= FRAMES // 2:
            break
    lost = len(range(number, counts.sent, every))
    assert (counts.sent - counts.received, counts.corrupted) == (lost, 0), counts
    assert lost >= FRAMES // 2 // every
    assert trial.ledger is not None
    found = trial.ledger.lost, trial.ledger.unexplained, trial.ledger.dropped(BY_RULE)
    assert found == (lost, 0, lost), ledger_text(trial.ledger)
    return ledger_text(trial.ledger), lost


def own_frames(frames: list[bytes], sent: int) -> list[bytes]:
    """Those of the trial: hosts' own, such as router solicitations, are of other sizes, and few."""
    (size, number), *_ = Counter(map(len, frames)).most_common(1)
    assert number == sent, Counter(map(len, frames))
    return [frame for frame in frames if len(frame) == size]


# Byte for byte what the specification says.


@on("phy2phy")
@pytest.mark.parametrize(
    "name", some_of(STACKS, "udp", "qinq", "tcp-options", "gtpu", "geneve", "ipv6-many", "sctp", "payload")
)
def test_frames_are_what_scapy_builds(live: LiveLoss, name: str) -> None:
    packet, vary = STACKS[name]
    vary = tuple(replace(field, count=min(field.count, 1 << 20)) for field in vary)
    traffic = Traffic(packet=packet, vary=vary, frame_size=300)
    headers = traffic.header_bytes
    wanted = {field.field: values_of(packet, field) for field in vary}
    numbers = []
    for frame in lossless(live, traffic):
        assert len(frame) == 300 - FCS_BYTES
        assert built_again(frame, packet, headers) == frame
        assert frame[headers + SIGNATURE_BYTES :] == bytes(
            n % 256 for n in range(headers + SIGNATURE_BYTES, len(frame))
        )
        parsed = type(packet)(frame)
        assert_as_given(parsed, packet, vary)
        number, every = 0, 1
        for field in vary:
            index = wanted[field.field][value_in(parsed, field.field)]  # KeyError: no value of the field's
            number += every * index
            every *= field.count
        numbers.append(number)
    if all(field.order == "up" for field in vary):
        steps = [(after - before) % every for before, after in pairwise(numbers)]
        assert numbers[0] == 0
        # A frame that another process's work on the CPU prevented is left out, and its values with it.
        assert all(0 < step < FRAMES for step in steps) or every < FRAMES, steps
    elif vary[0].order == "random":
        assert len(set(numbers)) == min(len(numbers), every), "a value came again before all had been"


def layer_of(packet: Packet, field: str) -> tuple[Packet, str]:
    layer, _, attribute = field.partition(".")
    kind, _, number = layer.removesuffix("]").partition("[")
    return packet.getlayer(kind, int(number or 1)), attribute


def value_in(packet: Packet, field: str) -> int:
    layer, attribute = layer_of(packet, field)
    return as_number(layer.getfieldval(attribute))


def as_number(value: object) -> int:
    if not isinstance(value, str):
        return int(value)  # type: ignore[call-overload,no-any-return]
    if re.fullmatch(r"(\w\w:){5}\w\w", value):
        return int(value.replace(":", ""), 16)
    family = socket.AF_INET6 if ":" in value else socket.AF_INET
    return int.from_bytes(socket.inet_pton(family, value), "big")


INNER_MACS = "02:00:00:00:0d:01", "02:00:00:00:0d:02"
DEFAULTS = {"IP.src": "198.18.0.1", "IP.dst": "198.19.0.1", "IPv6.src": "2001:2::1", "IPv6.dst": "2001:2:0:8000::1"}


def values_of(packet: Packet, field: Vary) -> dict[int, int]:
    """The number of each value that the field takes; the first is the packet's where the test gives none."""
    layer, attribute = layer_of(packet, field.field)
    first = field.first if field.first is not None else layer.fields.get(attribute)
    if first is None:
        first = default_of(packet, layer, attribute)
    return {as_number(first) + field.step * index: index for index in range(field.count)}


def default_of(packet: Packet, layer: Packet, attribute: str) -> object:
    """What the documents say for an address that a packet leaves open; scapy's own value for other fields."""
    if type(layer).__name__ in {"IP", "IPv6"} and attribute in {"src", "dst"}:
        inner = [each for each in packet.iterpayloads() if type(each).__name__ in {"IP", "IPv6"}][-1]
        if layer is not inner and type(layer).__name__ == "IP":
            return {"src": "192.0.2.1", "dst": "192.0.2.2"}[attribute]
        return DEFAULTS[f"{type(layer).__name__}.{attribute}"]
    if type(layer).__name__ == "ARP" and attribute in {"psrc", "pdst"}:
        return {"psrc": "198.18.0.1", "pdst": "198.19.0.1"}[attribute]
    if type(layer).__name__ in {"Ether", "Dot3"}:
        macs = [port.mac for port in phy2phy().ports] if layer is packet else INNER_MACS
        return dict(zip(("src", "dst"), macs, strict=True))[attribute]
    return layer.getfieldval(attribute)


def assert_as_given(parsed: Packet, packet: Packet, vary: Sequence[Vary]) -> None:
    """Every field that the test's packet sets, and does not vary, is as it was set."""
    varied = {(id(layer_of(packet, field.field)[0]), layer_of(packet, field.field)[1]) for field in vary}
    layers = list(packet.iterpayloads())
    for wanted, seen in zip(layers, parsed.iterpayloads(), strict=False):
        if type(wanted).__name__ in {"Raw", "DNS"} or type(wanted) is not type(seen):
            break
        for name, value in wanted.fields.items():
            if (id(wanted), name) not in varied and isinstance(value, (int, str)):
                assert seen.getfieldval(name) == value, (type(wanted).__name__, name)


# One flow in the datapath for each combination of the fields.


@on("phy2phy")
@pytest.mark.parametrize(
    ("packet", "vary", "together", "moved", "flows"),
    [
        (IP() / UDP(), [Vary("IP.dst", 100, order="random")], True, ["IP_DST"], 100),
        (IP() / UDP(), [Vary("IP.dst", 20), Vary("UDP.sport", 5, 1024)], True, ["IP_DST", "UDP_SRC"], 100),
        (IP() / UDP(), [Vary("IP.dst", 20), Vary("UDP.sport", 5, 1024)], False, ["IP_DST", "UDP_SRC"], 20),
        (IP() / TCP(), [Vary("IP.src", 8), Vary("TCP.dport", 9, 80, 7, "random")], True, ["IP_SRC", "TCP_DST"], 72),
        (IPv6() / UDP(), [Vary("IPv6.dst", 60, step=1 << 16, order="random")], True, ["IPV6_DST"], 60),
        (Dot1Q(vlan=7) / IP() / UDP(), [Vary("Dot1Q.vlan", 50)], True, ["VLAN_TCI"], 50),
        (MPLS(label=16) / IP() / UDP(), [Vary("MPLS.label", 40, order="random")], True, ["MPLS_LABEL"], 40),
        (IP() / UDP() / GTP_U_Header() / IP() / UDP(), [Vary("GTP_U_Header.teid", 100)], True, ["IP_DST"], 1),
    ],
    ids=lambda value: value.summary()[:24] if isinstance(value, Packet) else str(value)[:20],
)
def test_the_datapath_has_a_flow_for_each_combination(
    live: LiveLoss, packet: Packet, vary: list[Vary], together: bool, moved: list[str], flows: int
) -> None:
    names = {
        "IP_DST": ("NXM_OF_IP_DST[]", "NXM_NX_REG0[]"),
        "IP_SRC": ("NXM_OF_IP_SRC[]", "NXM_NX_REG1[]"),
        "UDP_SRC": ("NXM_OF_UDP_SRC[]", "NXM_NX_REG2[0..15]"),
        "TCP_DST": ("NXM_OF_TCP_DST[]", "NXM_NX_REG3[0..15]"),
        "IPV6_DST": ("NXM_NX_IPV6_DST[]", "NXM_NX_XXREG0[]"),
        "VLAN_TCI": ("NXM_OF_VLAN_TCI[]", "NXM_NX_REG4[0..15]"),
        "MPLS_LABEL": ("OXM_OF_MPLS_LABEL[]", "NXM_NX_REG5[0..19]"),
    }
    match = {"Dot1Q": "vlan_tci=0x1000/0x1000", "MPLS": "mpls", "IPv6": "udp6"}.get(type(packet).__name__)
    match = match or ("tcp" if TCP in packet else "udp")
    # What an action reads has to be in the match of each flow in the datapath.
    moves = ",".join(f"move:{source}->{register}" for source, register in (names[each] for each in moved))
    actions = f"{moves},output:{live.number('p1')}"
    traffic = Traffic(packet=Ether() / packet, vary=vary, together=together, frame_size=128)
    with flow(live, f"priority=200,in_port={live.number('p0')},{match},actions={actions}"):
        lossless(live, traffic)
        made = live.rig.ovs.instance.ctl.call("dpctl/dump-flows").splitlines()
    assert traffic.combinations == max(flows, traffic.combinations if flows == 1 else 0)
    own = [line for line in made if f"actions:{dp_port(live, 'p1')}" in line and "packets:0," not in line]
    assert len(own) == flows, "\n".join(made)


def dp_port(live: LiveLoss, port: str) -> str:
    """The datapath's number of a port."""
    shown = live.rig.ovs.instance.ctl.call("dpctl/show").splitlines()
    line = next(line for line in shown if f": {port} " in f"{line} ")
    return line.split()[1].rstrip(":")


@contextmanager
def flow(live: LiveLoss, text: str) -> Iterator[None]:
    live.add_flow(text)
    try:
        yield
    finally:
        match = text.partition(",actions=")[0].replace("priority=200,", "")
        live.ofctl("del-flows", match)
        live.ofctl("add-flow", f"priority=100,in_port={live.number('p0')},actions=output:{live.number('p1')}")
        live.forget_flows()


@contextmanager
def dropping(live: LiveLoss, bridge: str, match: str) -> Iterator[None]:
    instance = live.rig.ovs.instance
    command, target = [*instance.ofctl, "-O", "OpenFlow14"], f"unix:{instance.directory}/{bridge}.mgmt"
    run([*command, "add-flow", target, f"priority=999,{match},actions=drop"])
    live.forget_flows()
    try:
        yield
    finally:
        run([*command, "del-flows", target, match])
        live.forget_flows()


# What the DUT pushes, pops and rewrites.


TAGGED, INNER = "vlan_tci=0x1000/0x1000", IP() / UDP()
LABEL = "push_mpls:0x8847,set_field:%d->mpls_label"
REWRITES = {
    "push a tag": (INNER, "", "push_vlan:0x8100,set_field:4106->vlan_vid", Dot1Q),
    "push a service tag": (Dot1Q(vlan=20) / INNER, TAGGED, "push_vlan:0x88a8,set_field:4106->vlan_vid", Dot1AD),
    "pop a tag": (Dot1Q(vlan=20) / INNER, TAGGED, "pop_vlan", IP),
    "pop both tags": (Dot1AD(vlan=10) / Dot1Q(vlan=20) / IP() / TCP(), TAGGED, "", IP),
    "push a label": (INNER, "ip", LABEL % 77, MPLS),
    "push two labels": (INNER, "ip", f"{LABEL % 77},{LABEL % 78}", MPLS),
    "pop a label": (MPLS(label=16, s=1) / INNER, "mpls", "pop_mpls:0x0800", IP),
    "rewrite addresses": (INNER, "udp", "set_field:10.9.8.7->nw_src,set_field:10.9.8.6->nw_dst", IP),
    "rewrite a port": (IP() / TCP(), "tcp", "set_field:4711->tcp_dst,set_field:10.9.8.7->nw_src", IP),
    "rewrite macs": (IPv6() / UDP(), "udp6", "set_field:02:00:00:00:99:99->eth_dst,dec_ttl", IPv6),
}


SENDERS = [f"02:00:00:00:77:{number:02x}" for number in range(16)]


@on("phy2phy")
@pytest.mark.parametrize("name", some_of(REWRITES, "push a tag", "pop both tags", "rewrite a port"))
def test_frames_that_the_dut_changes_are_known_again(live: LiveLoss, name: str) -> None:
    """And if it drops one of sixteen senders behind the change, each of their frames is counted as lost."""
    packet, match, actions, first = REWRITES[name]
    fields = {"rewrite addresses": ("IP.src", "IP.dst"), "rewrite a port": ("TCP.dport", "IP.src")}.get(name, ())
    vary = [Vary("Ether.src", 16, first=SENDERS[0]), Vary("IP.src" if IP in packet else "IPv6.src", 16)]
    traffic = Traffic(packet=Ether() / packet, vary=vary, together=False, frame_size=200, rewritten=fields)
    matched = ",".join(filter(None, ["priority=200", f"in_port={live.number('p0')}", match]))
    live.ofctl("add-flow", f"table=2,priority=1,actions=output:{live.number('p1')}")
    if name == "pop both tags":
        live.vsctl("set", "open", ".", "other_config:vlan-limit=2")  # by default OVS sees one (ovs-vswitchd.conf.db(5))
        live.ofctl("add-flow", f"table=1,{TAGGED},actions=pop_vlan,resubmit(,2)")
        actions = "pop_vlan,resubmit(,1)"
    behind = "" if "resubmit" in actions else ",resubmit(,2)"
    with flow(live, f"{matched},actions={actions}{behind}"):
        try:
            frames = lossless(live, traffic)
            live.add_flow(f"table=2,priority=9,dl_src={SENDERS[5]},actions=drop")
            assert_lost(live, traffic, 5, every=16)
        finally:
            live.ofctl("del-flows", "table=2")
    assert {type(Ether(frame).payload) for frame in frames} == {first}
    if name.startswith("rewrite a"):
        assert {Ether(frame)[IP].src for frame in frames if IP in Ether(frame)} == {"10.9.8.7"}


@on("phy2phy")
def test_loss_is_known_to_the_frame_by_one_value_of_a_field(live: LiveLoss) -> None:
    packet = Ether() / Dot1AD(vlan=10) / Dot1Q(vlan=20) / IP() / UDP()
    traffic = Traffic(packet=packet, vary=[Vary("Dot1AD.vlan", 4), Vary("IP.src", 10)], frame_size=128)
    with flow(live, f"priority=200,in_port={live.number('p0')},dl_vlan=12,actions=drop"):
        text, lost = assert_lost(live, traffic, 2, every=4)
    row = next(row for row in text.splitlines() if "vlan_vid=0x100c" in row)  # the value
    assert f"{lost:,} lost: drop_action_of_pipeline" in row


@on("vxlan", "geneve")
def test_a_tunnel_that_begins_or_ends_in_the_dut(live: LiveLoss) -> None:
    """Frames come out with new headers in front, or without those that they had; what is dropped there is lost."""
    topology, db = live.built.topology, live.rig.ovs.instance.db
    kind = topology.tunnels[0].kind
    macs = {port.name: port.mac for port in topology.ports}
    db.refresh()
    bridge = str(value_of(db.rows("Interface")["br0"].mac_in_use))
    live.add_flow(f"priority=200,in_port=LOCAL,udp,actions=output:{live.number('p1')}")
    inside = Ether(src=macs["p0"], dst=macs["p1"]) / IP() / UDP()
    traffic = Traffic(packet=inside, vary=[Vary("IP.src", 16)], frame_size=128)
    begun = lossless(live, traffic)
    with dropping(live, "br-int", "ip,nw_src=198.18.0.6"):
        assert_lost(live, traffic, 5, 16)
    shim = {"vxlan": VXLAN, "geneve": GENEVE}[kind]
    parsed = [Ether(frame) for frame in begun]
    assert {(frame[IP].src, frame[IP].dst, frame[shim].vni) for frame in parsed} == {(*UNDERLAY, 7)}
    assert len({frame[shim][IP].src for frame in parsed}) == 16
    outer = Ether(src=macs["p1"], dst=bridge) / IP(src=UNDERLAY[1], dst=UNDERLAY[0]) / UDP(sport=5000, chksum=0)
    header = VXLAN(vni=7, flags="Instance") if kind == "vxlan" else GENEVE(vni=7)
    ended = outer / header / Ether(src="02:00:00:00:55:55", dst=macs["p0"]) / IP() / UDP()
    traffic = Traffic(packet=ended, vary=[Vary("IP[2].src", 16)], frame_size=200)
    frames = lossless(live, traffic, BACK)
    with dropping(live, "br-int", "ip,nw_src=198.18.0.6"):
        assert_lost(live, traffic, 5, 16, BACK)
    assert {Ether(frame).src for frame in frames} == {"02:00:00:00:55:55"}
    assert {len(frame) for frame in frames} == {200 - FCS_BYTES - 50}


# Topologies forward any frame.


KINDS = [
    *("qinq", "mpls-two", "arp", "nd", "multicast", "multicast6", "broadcast", "igmp"),
    *("ipv6-many", "ipv6-fragment", "srv6", "gtpu", "geneve", "pppoe-qinq", "plain-type", "snap"),
]


@on("patches", "veths", "learning", "learning over a patch", "access ports on a path", "pvp")
@pytest.mark.parametrize("name", some_of(KINDS, "qinq", "ipv6-fragment"))
def test_any_frame_goes_through(live: LiveLoss, name: str) -> None:
    packet, vary = STACKS[name]
    traffic = Traffic(packet=packet, vary=vary, frame_size=300)
    for frame in lossless(live, traffic):
        assert len(frame) == 300 - FCS_BYTES
        assert built_again(frame, packet, traffic.header_bytes) == frame


@on("routed")
@pytest.mark.parametrize(
    "packet", [IP(src="10.1.0.1", dst="10.2.0.1"), IPv6(src="2001:db8:1::1", dst="2001:db8:2::1")], ids=["ipv4", "ipv6"]
)
def test_a_router_forwards_to_any_address_behind_an_endpoint(live: LiveLoss, packet: Packet) -> None:
    """The bridge answers its ARP requests and neighbour solicitations with the endpoint's MAC."""
    kind = type(packet)
    field = f"{kind.__name__}.dst"
    for direction, source in ((THERE, ROUTER_MACS[1]), (BACK, ROUTER_MACS[0])):
        sent = packet if direction == THERE else kind(src=packet.dst, dst=packet.src)
        traffic = Traffic(packet=Ether() / sent / UDP(), vary=[Vary(field, 16)], frame_size=128)
        frames = [Ether(frame) for frame in lossless(live, traffic, direction)]
        assert {frame.src for frame in frames} == {source}
        assert {frame[kind].ttl if kind is IP else frame[kind].hlim for frame in frames} == {63}
        assert len({frame[kind].dst for frame in frames}) == 16
