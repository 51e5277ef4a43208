"""The tables of docs/reference/suite-words.md: all that a suite can write, with an example a row.

What a word means comes from its docstring, so it cannot differ from what the program says. The examples are here; a
test runs every one of them (tests/unit/test_docs_reference.py).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest_nfvperf as nfv

TRAFFIC = {
    "frame_size": 'Traffic(frame_size=IMIXES["simple"])',
    "bidirectional": "Traffic(bidirectional=False)",
    "flows": "Traffic(flows=10_000)",
    "vlan": "Traffic(frame_size=68, vlan=100)",
    "src_mac, dst_mac": 'Traffic(dst_mac="02:00:00:00:00:99")',
    "src_ip, dst_ip": 'Traffic(src_ip="10.0.0.1", dst_ip="10.1.0.1")',
    "vxlan": "Traffic(frame_size=128, vxlan=Vxlan(vni=42))",
    "packet": "Traffic(frame_size=128, packet=Ether() / Dot1Q(vlan=20) / IP() / TCP(dport=80))",
    "vary": 'Traffic(frame_size=128, packet=Ether() / IP() / UDP(), vary=[Vary("IP.dst", count=100)])',
    "together": "Traffic(frame_size=128, packet=Ether() / IP() / UDP(), together=False, "
    'vary=[Vary("IP.src", count=10), Vary("IP.dst", count=10)])',
    "checksums": 'Traffic(frame_size=128, packet=Ether() / IP(chksum=1) / UDP(), checksums="as given")',
    "rewritten": 'Traffic(frame_size=128, packet=Ether() / IP() / TCP(), rewritten=["IP.src", "TCP.sport"])',
}
"""By the fields of ``Traffic`` that stand together."""

MORE_TRAFFIC: dict[str, tuple[str, Callable[..., Any]]] = {
    "over_ipv6": ("Traffic(frame_size=80).over_ipv6()", nfv.Traffic.over_ipv6),
    "from_pcap": ('Traffic.from_pcap("customer.pcapng")', nfv.Traffic.from_pcap),
    "from_trex": ('Traffic.from_trex("stl/imix.py")', nfv.Traffic.from_trex),
    "Conversation.tcp": ('Conversation.tcp(request=64, response=2000, nat="source")', nfv.Conversation.tcp),
    "Conversation.udp": ("Conversation.udp(clients=100, server_port=53)", nfv.Conversation.udp),
    "Conversation.icmp": ("Conversation.icmp(payload=56)", nfv.Conversation.icmp),
    "Imix": ('Traffic(frame_size=Imix("mine", ((64, 5), (1400, 2))))', nfv.Imix),
    "Vary": ('Vary("IP.dst", count=100, first="10.0.0.1", order="random")', nfv.Vary),
    "Vxlan": ('Vxlan(vni=42, src_ip="2001:db8::1", dst_ip="2001:db8::2")', nfv.Vxlan),
    "TrafficMix": ('TrafficMix(voice=(Traffic(frame_size=128), "10 %"), bulk=(Traffic(), 0.9))', nfv.TrafficMix),
}

PARTS = {
    "bridge": 'bridge("br0")',
    "endpoint": 'endpoint("p0", "br0", vlan=100)',
    "bond": 'bond("bond0", "br0", ("m0", "m1"), "balance-tcp", lacp="active")',
    "monitor": 'monitor("m0", "br0")',
    "mirror": 'mirror("copy", "br0", "m0", select_src=("p0",))',
    "vnf": 'vnf("v1", "br0", kind="testpmd")',
    "one_armed": 'one_armed("v1", "br0", eth_peer="02:00:00:00:00:01")',
    "patch": 'patch("br0", "br1")',
    "veth": 'veth("br0", "br1", offloads=Offloads(tso=False))',
    "tunnel": 'tunnel("br0", local="192.0.2.1", remote="192.0.2.2", kind="geneve", key=7)',
    "rules": 'rules("br0", acl=100)',
    "meter": 'meter("br0", "p0", kbps=100_000, burst=10_000)',
    "policer": 'policer("p0", kbps=100_000, burst=10_000)',
    "egress_policer": 'egress_policer("p1", cir=12_500_000, cbs=1_250_000)',
    "trtcm": 'trtcm("p1", (12_500_000, 125_000), (1_250_000, 125_000))',
    "linux_shaper": 'linux_shaper("p1", bps=100_000_000)',
    "connections": 'connections("br0", client="p0", server="p1", zone=7, limit=100_000)',
    "load_balancer": 'load_balancer("br0", client="p0", server="p1", backends=8)',
    "snat": 'connections("br0", client="p0", server="p1", nat=snat("198.51.100.1-198.51.100.8", (1024, 65535)))',
    "dnat": 'connections("br0", client="p0", server="p1", nat=dnat("203.0.113.5", 8080))',
    "path": 'path("p0", "v1", "p1")',
    "Port": 'Port("p0", "br0", PortRole.ENDPOINT, "02:00:00:00:00:01")',
    "Vlan": 'endpoint("p0", "br0", vlan=Vlan(trunks=(100, 200)))',
    "namespace": 'namespace("pod1", "br0", "198.18.0.1/24")',
    "namespaces": 'namespaces("pod1", "pod2", bridge="br0")',
    "nic": 'nic("pod1", "br1", "198.19.0.1/24", name="eth1")',
    "behind": 'behind("p0", "host", "198.18.0.9/24")',
    "router": 'router("gw", {"br0": "198.18.0.254/24", "br1": "198.19.0.254/24"})',
    "Offloads": 'veth("br0", "br1", offloads=Offloads(gro=False))',
    "node": 'node("node1", endpoint("p0", "br-int1"))',
    "underlay": 'underlay("br-phy1", "br-phy2", mtu=9000)',
    "pod_node": "pod_node(pods=4)",
    "pod_nodes": 'pod_nodes(overlay="vxlan")',
}
"""By the names of ``pytest_nfvperf.parts``."""

MEASUREMENTS = {
    "search.ndr_pdr": "sla.check(search.ndr_pdr(phy2phy, Traffic(), latency=True))",
    "search.throughput": 'sla.check(search.throughput(phy2phy, Traffic(), "rfc2544"))',
    "search.loss_curve": "sla.check(search.loss_curve(phy2phy, Traffic()))",
    "search.back_to_back": "sla.check(search.back_to_back(phy2phy, Traffic()))",
    "search.loss_of": "sla.check(search.loss_of(phy2phy, Traffic(), 1000))",
    "search.loss_at": "sla.check(search.loss_at(pvp, Traffic(), 100e3, 2.0))",
    "search.connection_rate": "sla.check(search.connection_rate(phy2phy, Conversation.tcp()))",
    "search.concurrent": "sla.check(search.concurrent(phy2phy, Conversation.tcp(), most=60_000))",
    "search.limits": "sla.check(search.limits(deploy(policed), Traffic()))",
    "study.forwarding_rate": 'sla.check_each(study.forwarding_rate("bridges", chains, Traffic()))',
    "study.connection_rate": 'sla.check_each(study.connection_rate("bridges", chains, Conversation.tcp()))',
    "study.tcp_throughput": 'sla.check_each(study.tcp_throughput("bridges", hosts, streams=4))',
    "study.response_time": 'sla.check_each(study.response_time("bridges", hosts))',
    "study.connect_rate": 'sla.check_each(study.connect_rate("bridges", hosts))',
    "study.reconnect_time": 'sla.check_each(study.reconnect_time("bridges", hosts))',
    "study.outage": 'sla.check_each(study.outage("bridges", chains, nfv.events.restart, Traffic(), 100_000))',
    "study.instructions_per_packet": 'sla.check_each(study.instructions_per_packet("bridges", chains, Traffic()))',
    "soak.run": "sla.check(soak.run(phy2phy, Traffic(), load_fps=1e6, duration_s=10))",
    "outage": "sla.check(outage(phy2phy, Traffic(), 100_000, nfv.events.restart))",
    "flood.run": "sla.check(flood.run(phy2phy, Traffic(), Traffic(flows=1 << 20), victim_fps=9999, attacker_fps=999))",
    "flood.new_flow_rate": "sla.check(flood.new_flow_rate(phy2phy, Traffic(flows=1 << 20, bidirectional=False)))",
    "streams.run": 'streams.run(deploy(nfv.bridge_chain(1, ends="namespace")), StreamSpec(streams=4))',
}
"""By fixture and method. Names that are fixtures are arguments of the test."""
CLASSES = {
    "search": nfv.Search,
    "study": nfv.Study,
    "soak": nfv.Soaker,
    "outage": nfv.Outages,
    "flood": nfv.Floods,
    "streams": nfv.StreamRunner,
}


def traffic_table() -> str:
    """Each argument of ``Traffic``, and what else makes or goes into one."""
    meant = _attributes(nfv.Traffic)
    rows = [(f"`{names}`", _code(example), _cell(meant[names])) for names, example in TRAFFIC.items()]
    rows += [(f"`{name}`", _code(example), _cell(_first(about))) for name, (example, about) in MORE_TRAFFIC.items()]
    return _table(("word", "example", "what it says"), rows)


def parts_table() -> str:
    rows = [(f"`{name}`", _code(text), _cell(_first(getattr(nfv.parts, name)))) for name, text in PARTS.items()]
    return _table(("part", "example", "what it is"), rows)


def measurements_table() -> str:
    def about(name: str) -> str:
        fixture, _, method = name.partition(".")
        return _first(getattr(CLASSES[fixture], method or "__call__"))

    rows = [(f"`{name}`", _code(text), _cell(about(name))) for name, text in MEASUREMENTS.items()]
    return _table(("call", "example", "what it measures"), rows)


def _attributes(kind: type) -> dict[str, str]:
    """The section "Attributes" of a docstring: the first sentence of each."""
    section = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {names: _sentence(text) for names, text in found}


def _first(documented: object) -> str:
    return _sentence((inspect.getdoc(documented) or "").partition("\n\n")[0])


def _sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s+(?=[A-Z])", " ".join(text.split()))[0].rstrip(".")


def _cell(text: str) -> str:
    return re.sub(r":\w+:`(\w+)`", r"`\1`", text.replace("``", "`")).replace("|", r"\|")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", r"\|")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
