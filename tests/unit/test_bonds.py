"""Bonds of generator ports: what a topology refuses, what a generator attaches, and what LACP's partner says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scapy.contrib.lacp import LACP
from scapy.layers.l2 import Ether

from pytest_nfvperf.adapters.generators.embedded.trial_results import trial_result
from pytest_nfvperf.adapters.generators.frames import LACPDU_BYTES, SIGNATURE_BYTES, lacp_streams, trial_request
from pytest_nfvperf.adapters.ovs.ports import PortMaker
from pytest_nfvperf.measure.rig import generator_ports
from pytest_nfvperf.model.errors import ArgumentError, ConfigError
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd
from pytest_nfvperf.model.testbed.testbed import DutPort
from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import bond, endpoint
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort

BONDED = compose("bonded", endpoint("p0", "br0"), bond("bond0", "br0", ("m0", "m1"), "balance-tcp", lacp="active"))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: bond("b", "br0", ("m0",)), "a list or tuple of 2 or more"),
        (lambda: bond("b", "br0", ("m0", "m1"), "802.3ad"), "one of active-backup, balance-slb, balance-tcp"),
        (lambda: bond("b", "br0", ("m0", "m1"), lacp="on"), "one of off, active, passive"),
        (lambda: bond("b", "br0", ("m0", "m1"), "balance-tcp"), "without LACP: give lacp='active'"),
        (lambda: compose("t", bond("b", "br0", ("m0", "m0"))), "port 'm0' is used twice"),
        (lambda: compose("t", endpoint("m1", "br0"), bond("b", "br0", ("m0", "m1"))), "port 'm1' is used twice"),
        (lambda: compose("t", bond("b", "br0", ("b", "m1"))), "port 'b' is used twice"),
        (
            lambda: compose("t", endpoint("p", "br0"), bond("b", "br0", ("m0", "m1")), Direction("p", "m0")),
            "uses 'm0', not an endpoint",
        ),
    ],
)
def test_a_mistake_is_told(make: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        make()


def test_it_is_one_end_of_two_directions() -> None:
    assert [str(each) for each in BONDED.directions] == ["p0->bond0", "bond0->p0"]
    assert "bond0  port  generator, bond of m0, m1 (balance-tcp, LACP)" in topology_text(BONDED)


@pytest.mark.parametrize(("devices", "members"), [("a b", ("m0", "m1")), ("0000:3b:00.0", ())])
def test_the_generator_has_a_device_for_each_member_and_one_for_a_labs_bond(
    devices: str, members: tuple[str, ...]
) -> None:
    built: Any = SimpleNamespace(attachments=lambda: {"p0": "x", "bond0": devices})
    ports = {port.name: port for port in generator_ports(BONDED, built)}
    assert (ports["bond0"].members, ports["bond0"].device) == (members, devices)
    assert (ports["bond0"].lacp, ports["p0"].lacp, ports["bond0"].learns) == (True, False, False)


MEMBERS = {
    name: GeneratorPort(name, "ring", "02:4e:46:00:00:11", lacp=True, members=members)
    for name, members in (("m0", ()), ("m1", ()), ("bond0", ("m0", "m1")))
}


def test_each_member_is_told_that_its_partner_is_in_sync() -> None:
    made = lacp_streams(MEMBERS, 3)
    assert [(one["tx"], one["fps"], one["frames"]) for one in made] == [("m0", 1, 3), ("m1", 1, 3)]
    frames = [Ether(bytes.fromhex(one["templates"][0])) for one in made]
    for frame, stream in zip(frames, made, strict=True):
        assert len(frame) == LACPDU_BYTES
        assert frame.dst == "01:80:c2:00:00:02"
        said = frame[LACP]
        assert (said.actor_type, said.actor_length, said.partner_type, said.partner_length) == (1, 20, 2, 20)
        assert (said.collector_type, said.collector_length) == (3, 16)
        assert (said.actor_system, said.actor_key) == ("02:4e:46:00:00:11", 1)
        assert said.actor_state & 0x08  # synchronization
        # The signature is written over bytes that nobody reads.
        assert stream["signatures"] == [LACPDU_BYTES - SIGNATURE_BYTES]
        assert not any(bytes(frame)[-50:])
    assert [frame[LACP].actor_port_number for frame in frames] == [1, 2]


def test_the_partners_frames_are_no_streams_of_the_trial() -> None:
    ports = {"p0": GeneratorPort("p0", "ring", "02:4e:46:00:00:10"), **MEMBERS}
    spec = TrialSpec(Traffic(), 1000, 1.5, (Direction("p0", "bond0"),), latency=False)
    streams = trial_request(spec, ports)["streams"]
    assert [(one["tx"], one["rx"], one["frames"]) for one in streams] == [
        ("p0", "bond0", 1500),
        ("m0", "m0", 2),
        ("m1", "m1", 2),
    ]
    none = (
        "refused",
        "skipped",
        "duplicated",
        "out_of_order",
        "corrupted",
        "sent_bytes",
        "received_bytes",
        "elapsed_ns",
    )
    more = ("longest_lateness_ns", "largest_burst", "fell_behind", "unbuilt", "beyond_window", "truncated")
    row = dict.fromkeys(none + more, 0) | dict.fromkeys(("intended", "sent", "received", "highest_seq"), 1500)
    worker = dict.fromkeys(["longest_poll_gap_ns", "preemptions", "elapsed_ns", "busy_ns", "absences", "absent_ns"], 1)
    foreign = {"m0": {"foreign": {"lldp": 1}}, "m1": {"foreign": {"lldp": 2}}, "p0": {"foreign": {}}}
    answer = {"streams": [row, {**row, "received": 0}, {**row, "received": 0}], "workers": [worker], "ports": foreign}
    result = trial_result(spec, answer, ports, dict.fromkeys(ports, True))
    assert [str(each.direction) for each in result.counts] == ["p0->bond0"]
    assert (result.lost, result.counts[0].foreign) == (0, 3)


def test_a_cable_of_a_lab_that_leads_to_no_bond_is_refused() -> None:
    maker = PortMaker.__new__(PortMaker)
    maker.cabled = {"bond0": CabledEnd("dpdk0", (DutPort("dpdk0", pci="0000:3b:00.0"),))}
    with pytest.raises(ConfigError, match="is a bond, and its cable in this testbed leads to 'dpdk0', which is none"):
        maker._bond(BONDED.port("bond0"))
