"""Whatever an author gives to a call of the public API: it is taken, or refused as the author's mistake with advice."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, TypedDict, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_nfvperf as nfv
from pytest_nfvperf import parts
from pytest_nfvperf.measure.mirror_cost import CopyTrials
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.measure.soak import Soaker
from pytest_nfvperf.measure.streams import StreamRunner
from pytest_nfvperf.measure.study import Study
from pytest_nfvperf.model.arguments import NAME, checked, number, optional, shown_value, whole, word
from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT

PHY = nfv.phy2phy()
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Traffic": (
        nfv.Traffic,
        {
            "frame_size": 64,
            "flows": 1,
            "bidirectional": True,
            "vlan": 7,
            "src_mac": None,
            "dst_mac": "02:00:00:00:00:01",
            "src_ip": "198.18.0.1",
            "vxlan": None,
        },
    ),
    "Imix": (nfv.Imix, {"name": "mine", "recipe": ((64, 1),)}),
    "Vxlan": (nfv.Vxlan, {"vni": 1, "src_ip": "192.0.2.1", "inner_src_mac": "02:00:00:00:0d:01"}),
    "StreamSpec": (
        nfv.StreamSpec,
        {
            "protocol": "tcp",
            "streams": 1,
            "duration_s": 1.0,
            "omit_s": 0.0,
            "direction": "both",
            "window_bytes": None,
            "mss_bytes": None,
            "congestion": None,
            "client_cpus": (),
            "bitrate_bps": None,
            "buffer_bytes": None,
        },
    ),
    "Dut": (nfv.Dut, {"kind": None, "userspace_tso": False, "tuning": OVS_DEFAULT, "version": None}),
    "Tuning": (nfv.Tuning, {"smc": True, "rxq": 1, "rxq_assign": None, "other_config": (), "rxq_affinity": ()}),
    "Subject": (nfv.Subject, {"value": "1", "topology": PHY, "dut": TESTBED_DUT, "traffic": None}),
    "MirrorLoad": (nfv.MirrorLoad, {"share": 0.5, "share_of": "ndr"}),
    "phy2phy": (nfv.phy2phy, {"bidirectional": True, "mtu": 1500}),
    "pvp": (nfv.pvp, {"bidirectional": True, "mtu": 1500}),
    "bridge_chain": (
        nfv.bridge_chain,
        {"bridges": 2, "link": "patch", "ends": "generator", "mtu": 1500, "ip": 4, "offloads": parts.Offloads()},
    ),
    "vm_chain": (nfv.vm_chain, {"vms": 2, "kind": "loop", "mtu": 1500, "name": None}),
    "vm_receiving": (nfv.vm_receiving, {"mtu": 1500, "name": "mine"}),
    "vm_to_vm": (
        nfv.vm_to_vm,
        {"overlay": "vxlan", "ip": 4, "key": 1, "mtu": 1500, "bidirectional": False, "line_rate_bps": None, "vnis": 1},
    ),
    "mirror_output": (nfv.mirror_output, {"output": "virtual", "bridge": "br0", "mtu": 1500}),
    "pod_node": (parts.pod_node, {"pods": 1, "kind": "veth", "offloads": parts.Offloads(), "mtu": 1500, "ip": 4}),
    "pod_nodes": (parts.pod_nodes, {"overlay": "geneve", "kind": "veth", "mtu": 1500, "ip": 4}),
    "bridge": (parts.bridge, {"name": "br0"}),
    "bond": (
        parts.bond,
        {
            "name": "bond0",
            "bridge": "br0",
            "members": ("m0", "m1"),
            "mode": "balance-slb",
            "lacp": "off",
            "mtu": 9000,
            "vlan": 7,
        },
    ),
    "endpoint": (
        parts.endpoint,
        {
            "name": "p0",
            "bridge": "br0",
            "mac": "02:00:00:00:00:01",
            "mtu": 1500,
            "queues": 1,
            "kind": "tap",
            "vlan": 100,
            "eth_peer": None,
        },
    ),
    "monitor": (parts.monitor, {"name": "m0", "bridge": "br0", "mtu": 1500, "kind": "tap", "vm": False}),
    "mirror": (
        parts.mirror,
        {
            "name": "all",
            "bridge": "br0",
            "output": "m0",
            "select_src": (),
            "snaplen": None,
            "by": "flow",
            "select_vlan": (),
        },
    ),
    "vnf": (
        parts.vnf,
        {
            "name": "v1",
            "bridge": "br0",
            "far_bridge": None,
            "mode": "io",
            "eth_peers": None,
            "mtu": 1500,
            "queues": 1,
            "kind": "loop",
        },
    ),
    "one_armed": (parts.one_armed, {"name": "vm1", "bridge": "br0", "eth_peer": "02:00:00:00:00:02", "kind": "loop"}),
    "patch": (parts.patch, {"bridge_a": "a", "bridge_b": "b", "ports": None, "vlan": None}),
    "veth": (parts.veth, {"bridge_a": "a", "bridge_b": "b", "mtu": 1500, "offloads": parts.Offloads(), "vlan": 7}),
    "tunnel": (
        parts.tunnel,
        {
            "bridge": "a",
            "local": "10.0.0.1",
            "remote": "10.0.0.2",
            "kind": "gre",
            "key": 7,
            "underlay_mtu": 1500,
            "keys": 1,
            "port": None,
        },
    ),
    "underlay": (parts.underlay, {"bridge_a": "a", "bridge_b": "b", "ports": None, "line_rate_bps": None}),
    "nic": (parts.nic, {"namespace": "n", "bridge": "br0", "name": "eth0", "port": None, "kind": "veth", "mtu": 1500}),
    "namespace": (parts.namespace, {"name": "n", "bridge": "br0", "gateway": None, "routes": (), "vlan": None}),
    "namespaces": (parts.namespaces, {"bridge": "br0", "network": "198.18.0.0/24"}),
    "behind": (parts.behind, {"port": "p0", "name": "n", "vlan": None, "mac": None, "gateway": None}),
    "router": (parts.router, {"name": "r", "addresses": {"brA": "10.1.0.254/24"}, "routes": ()}),
    "rules": (parts.rules, {"bridge": "br0", "acl": 0, "zone": None}),
    "meter": (
        parts.meter,
        {"bridge": "br0", "in_ports": "p0", "kbps": 1, "pktps": None, "burst": 1, "more": (), "number": 1, "match": ""},
    ),
    "snat": (parts.snat, {"addresses": "198.51.100.1", "ports": 5000}),
    "dnat": (parts.dnat, {"addresses": "198.51.100.1", "ports": (1, 2)}),
    "connections": (parts.connections, {"bridge": "br0", "client": "p0", "server": "p1", "zone": 1, "nat": None}),
    "load_balancer": (
        parts.load_balancer,
        {
            "bridge": "br0",
            "client": "p0",
            "server": "p1",
            "backends": 4,
            "port": None,
            "by": "group",
            "zone": 1,
            "source": None,
        },
    ),
    "policer": (parts.policer, {"port": "p0", "kbps": 1, "burst": None}),
    "egress_policer": (parts.egress_policer, {"port": "p0", "cir": 1, "cbs": 1}),
    "trtcm": (parts.trtcm, {"port": "p0", "committed": (1, 1), "excess": (1, 1), "queues": None}),
    "linux_shaper": (parts.linux_shaper, {"port": "p0", "bps": 1, "burst": None, "kind": "hfsc"}),
    "Vlan": (parts.Vlan, {"tag": 7, "trunks": ()}),
    "Offloads": (parts.Offloads, {"tso": None, "gso": True}),
    "BgpPathPlan": (
        nfv.BgpPathPlan,
        {
            "vlan": 177,
            "frr": "12.12.12.1/30",
            "frr_asn": 1,
            "timers": nfv.BgpTimers(),
            "bfd": None,
            "vm": "172.16.101.10",
        },
    ),
    "BgpTimers": (nfv.BgpTimers, {"keepalive_s": 1, "hold_s": 3}),
    "BfdTimers": (nfv.BfdTimers, {"interval_ms": 300, "multiplier": 3}),
    "Event": (nfv.Event, {"name": "pull", "at_s": 1.0, "act": print}),
    "sweep": (nfv.sweep, {"name": "size", "values": [64, 1518], "quick": None}),
    "chosen": (nfv.chosen, {"names": "a, b", "cases": [(1, 2)], "quick": None}),
    "compares": (nfv.compares, {"name": "n", "values": (1, 2), "quick": None}),
}

METHODS = {
    "search.ndr_pdr": (Search.ndr_pdr, {"live": None, "traffic": None, "latency": False}),
    "search.throughput": (Search.throughput, {"live": None, "traffic": None, "algorithm": "rfc2544"}),
    "search.loss_curve": (Search.loss_curve, {"live": None, "traffic": None}),
    "search.back_to_back": (Search.back_to_back, {"live": None, "traffic": None, "throughput_fps": None}),
    "search.loss_at": (Search.loss_at, {"live": None, "traffic": None, "load_fps": 1e6, "duration_s": 1.0}),
    "search.limits": (Search.limits, {"live": None, "traffic": None, "load_fps": None, "of": None}),
    "soak.run": (Soaker.run, {"live": None, "traffic": None, "load_fps": 1e6, "duration_s": 1.0, "also": ()}),
    "streams.run": (StreamRunner.run, {"live": None, "spec": None, "ends": None}),
    "copies": (CopyTrials.__call__, {"live": None, "traffic": None, "load_fps": 50_000}),
    "study.forwarding_rate": (Study.forwarding_rate, {"per": "n", "subjects": [], "traffic": None, "larger": ()}),
    "study.tcp_throughput": (Study.tcp_throughput, {"per": "n", "subjects": [], "streams": 1, "ends": None}),
    "study.response_time": (Study.response_time, {"per": "n", "subjects": [], "message_bytes": 64}),
    "study.connect_rate": (Study.connect_rate, {"per": "n", "subjects": [], "connects": 100}),
    "study.reconnect_time": (Study.reconnect_time, {"per": "n", "subjects": [], "killed": False}),
    "study.compare": (Study.compare, {"per": "n", "subjects": [], "figure": None}),
}
"""Each is called without what it must have: it is refused before it looks at itself."""


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.sampled_from(["", " ", "4 Mpps", "02:00", "10.0.0.1", "br0", "veth", 1e6, math.nan, math.inf]),
    st.sampled_from([print, Odd, object]),
    st.builds(Odd),
    st.just(PHY),
    st.just(nfv.phy2phy),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.tuples(st.integers(), st.text(max_size=2)),
)


@pytest.mark.parametrize("name", CALLS)
@given(data=st.data())
def test_a_wrong_argument_is_the_authors_mistake(name: str, data: st.DataObject) -> None:
    call, good = CALLS[name]
    argument = data.draw(st.sampled_from(sorted(good)))
    value = data.draw(ANYTHING)
    with suppress(ConfigError):
        call(**{**good, argument: value})


@pytest.mark.parametrize("name", CALLS)
def test_the_good_arguments_are_good(name: str) -> None:
    call, good = CALLS[name]
    call(**good)


@pytest.mark.parametrize("name", [*CALLS, *METHODS])
def test_an_argument_that_a_call_does_not_have_is_answered_with_those_that_it_has(name: str) -> None:
    call, good = (CALLS | METHODS)[name]
    given_self = (None,) if name in METHODS else ()
    with pytest.raises(ArgumentError, match=r"\(\) has no argument 'nonesuch'.* It has "):
        call(*given_self, **good, nonesuch=1)


@pytest.mark.parametrize("name", METHODS)
@given(data=st.data())
def test_a_measurement_refuses_what_is_no_live_topology_or_subject(name: str, data: st.DataObject) -> None:
    call, good = METHODS[name]
    argument = data.draw(st.sampled_from(sorted(good)))
    with pytest.raises(ArgumentError, match=rf"^{name}\(\): "):
        call(None, **{**good, argument: data.draw(ANYTHING)})


def test_every_call_of_an_author_is_tried() -> None:
    """Each public function that authors call is in the table, or is tried by tests of its own."""
    results = {"check_frames", "compose", "pvvp"}
    functions = {one for one in nfv.__all__ if inspect.isfunction(getattr(nfv, one))}
    assert functions - results <= set(CALLS)
    assert {one for one in parts.__all__ if inspect.isfunction(getattr(parts, one))} - {"node", "path"} <= set(CALLS)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (whole(1, 4), [1, 4], [0, 5, True, 2.0, "2", None, math.nan]),
        (number(0, above=True), [0.5, 3], [0, -1, True, math.inf, math.nan, "1", None]),
        (optional(whole(1)), [None, 1], [0, False, ""]),
        (word("patch", "veth"), ["patch"], ["Patch", None, 1, ["patch"]]),
        (NAME, ["br0"], ["", " ", None, 1]),
    ],
)
def test_what_rules_allow(rule, good, bad):
    assert all(rule.accepts(value) for value in good)
    assert not any(rule.accepts(value) for value in bad)


def test_a_value_is_shown_short_whatever_it_is():
    assert shown_value(Odd()) == "<Odd whose repr raises RuntimeError>"
    assert shown_value(PHY) == "Topology(...)"
    assert shown_value(nfv.phy2phy) == "the function phy2phy"
    assert len(shown_value("x" * 5000)) < 100


class _Settings(TypedDict, total=False):
    size: Annotated[int, whole(1)]


def test_arguments_of_settings_are_checked_too():
    @checked()
    def call(name: str, **settings: Unpack[_Settings]) -> str:
        return f"{name}{settings}"

    assert call("a", size=1) == "a{'size': 1}"
    with pytest.raises(ArgumentError, match=r"^call\(\): size is 0: write a whole number from 1$"):
        call("a", size=0)
    with pytest.raises(
        ArgumentError, match=r"^call\(\) has no argument 'sise', did you mean 'size'\? It has name, size$"
    ):
        call("a", sise=1)
    with pytest.raises(ArgumentError, match=r"^call\(\): missing a required argument: 'name'\. It has name, size$"):
        call()
