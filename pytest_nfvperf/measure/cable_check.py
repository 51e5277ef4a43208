"""Check the lab's cables against the testbed file before anything is measured.

Each generator port sends learning frames (RFC 2544 section 23) from an address of its own. One bridge over all linked
ports reports where it saw that address. Over a wrong cable we would measure another NIC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from pytest_nfvperf.measure.rig import LINK_DEADLINE_S, generator_ports
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.testbed.lab_cables import CabledEnd, cabled_ends
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.model.topology.compose import generator_mac
from pytest_nfvperf.model.topology.links import Node
from pytest_nfvperf.model.topology.ports import Port, PortRole
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.datapath import Datapath
from pytest_nfvperf.ports.generator import Generator

NAME = "cabling"
_BROADCAST = "ff:ff:ff:ff:ff:ff"


@runtime_checkable
class Learning(Protocol):
    """A live topology that knows on which port it saw a MAC address."""

    def learned(self) -> Mapping[str, str]:
        """Names of ports by MAC address."""
        ...


def linked_ends(testbed: Testbed) -> tuple[CabledEnd, ...]:
    return tuple(end for end in cabled_ends(testbed) if end.generator_port is not None)


def cabling_topology(ends: Sequence[CabledEnd]) -> Topology:
    """One bridge a node with all of its ends as ports, named as in the testbed file. Each end sends to the next."""
    names = dict.fromkeys(end.members[0].node for end in ends)
    bridges = {node: NAME if node is None else f"{NAME}{number}" for number, node in enumerate(names, 1)}
    ports = tuple(
        Port(
            end.name,
            bridges[end.members[0].node],
            PortRole.ENDPOINT,
            generator_mac(number),
            mtu=end.members[0].mtu or 1500,
        )
        for number, end in enumerate(ends)
    )
    ring = zip(ends, [*ends[1:], ends[0]], strict=True)
    return Topology(
        NAME,
        tuple(bridges.values()),
        ports,
        crossings=(),
        directions=tuple(Direction(end.name, other.name) for end, other in ring),
        nodes=tuple(Node(node, (bridge,)) for node, bridge in bridges.items() if node is not None),
    )


def check_cabling(
    testbed: Testbed, datapath: Datapath, generator: Generator, link_deadline_s: float = LINK_DEADLINE_S
) -> None:
    """Raise TestbedError if a cable is not where the testbed file says, or has no link.

    A single link cannot be confused with another, so it is not checked.
    """
    ends = linked_ends(testbed)
    if len(ends) < 2:
        return
    topology = cabling_topology(ends)
    built = datapath.build(topology)
    try:
        ports = generator_ports(topology, built)
        generator.attach(ports)
        try:
            try:
                generator.wait_links_up(link_deadline_s)
                built.wait_ready(link_deadline_s)
            except DeadlineError as error:
                links = ", ".join(f"generator.{end.generator_port} - {end.name}" for end in ends)
                raise TestbedError(
                    f"a cable of the testbed file has no link ({links}): {error.message}; is it plugged in, and the "
                    "port at its other end up?",
                    evidence=error.evidence,
                ) from error
            generator.learn(Traffic(frame_size=64), topology.directions)
            seen, by_broadcast = _arrived(built, generator, topology)
        finally:
            generator.detach([port.name for port in ports])
    finally:
        built.close()
    if seen is not None:
        refuse_filtered([end for end, port in zip(ends, topology.ports, strict=True) if port.mac in by_broadcast])
        refuse_wrong_cables(ends, {port.name: seen.get(port.mac) for port in topology.ports})


def _arrived(built: object, generator: Generator, topology: Topology) -> tuple[Mapping[str, str] | None, set[str]]:
    """Where the bridge saw each generator's address, and the addresses that it saw after broadcast frames only.

    None on a datapath that does not say. Of broadcast only the arrival counts, not the port: the switch inside a NIC
    returns it to the NIC's other functions.
    """
    if not isinstance(built, Learning):
        return None, set()
    seen = built.learned()
    if {port.mac for port in topology.ports} <= seen.keys():
        return seen, set()
    generator.learn(Traffic(frame_size=64, dst_mac=_BROADCAST), topology.directions)
    return seen, built.learned().keys() - seen.keys()


def refuse_filtered(ends: Sequence[CabledEnd]) -> None:
    """Raise TestbedError if there are ends whose frames arrive by broadcast only."""
    if ends:
        names = ", ".join(f"generator.{end.generator_port} - {end.name}" for end in ends)
        raise TestbedError(
            f"a MAC filter of the DUT's port drops what is sent to other addresses than its own ({names}): frames to "
            "the broadcast address arrive, and those to another station's do not. Virtual functions have such a "
            "filter, which promiscuous mode opens only for trusted ones: ip link set PF vf NUMBER trust on; or take a "
            "physical function"
        )


def refuse_wrong_cables(ends: Sequence[CabledEnd], seen: Mapping[str, str | None]) -> None:
    """Raise TestbedError that lists every generator port with another cable.

    ``seen``: by end, the port of the DUT on which the bridge saw its frames; None for none.
    """
    wrong = [
        f"port {end.generator_port} of the generator is not connected to {end.name}"
        + (f" but to {where}" if where else ", nor to another port of the DUT: its frames arrived nowhere")
        for end in ends
        if (where := seen[end.name]) != end.name
    ]
    if not wrong:
        return
    found = ", ".join(
        f"[generator.{end.generator_port}, dut.{seen[end.name]}]" for end in ends if seen[end.name] is not None
    )
    advice = f"change the cables, or write in the testbed file: links: [{found}]" if found else "look at the cables"
    raise TestbedError(f"the cabling differs from the testbed file: {'; '.join(wrong)}; {advice}")
