"""Check the lab's cables against the testbed file before anything is measured.

Each generator port sends learning frames (RFC 2544 section 23) from an address of its own. One bridge over all linked
ports notes every port at which that address arrives. Over a wrong cable we would measure another NIC.

The bridge forwards nothing meanwhile: the switch inside a NIC returns what one of its functions sends to the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pytest_nfvperf.measure.rig import LINK_DEADLINE_S, generator_ports
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.testbed.lab_cables import CABLING, CabledEnd, cabled_ends
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.model.topology.compose import generator_mac
from pytest_nfvperf.model.topology.links import Node
from pytest_nfvperf.model.topology.ports import Port, PortRole
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.datapath import BuiltTopology, Datapath
from pytest_nfvperf.ports.generator import Generator

_BROADCAST = "ff:ff:ff:ff:ff:ff"


def linked_ends(testbed: Testbed) -> tuple[CabledEnd, ...]:
    return tuple(end for end in cabled_ends(testbed) if end.generator_port is not None)


def cabling_topology(ends: Sequence[CabledEnd]) -> Topology:
    """One bridge a node with all of its ends as ports, named as in the testbed file. Each end sends to the next."""
    names = dict.fromkeys(end.members[0].node for end in ends)
    bridges = {node: CABLING if node is None else f"{CABLING}{number}" for number, node in enumerate(names, 1)}
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
        CABLING,
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

    A single link cannot be confused with another, so it is not checked. Neither are links that share a wire, as two
    functions of one NIC do: frames that arrive at the right port and at others are no sign of a wrong cable.
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
            seen, by_broadcast = _arrived(built, generator, topology)
        finally:
            generator.detach([port.name for port in ports])
    finally:
        built.close()
    if seen is not None:
        refuse_filtered([end for end, port in zip(ends, topology.ports, strict=True) if port.mac in by_broadcast])
        refuse_wrong_cables(ends, {port.name: seen.get(port.mac, ()) for port in topology.ports})


def _arrived(
    built: BuiltTopology, generator: Generator, topology: Topology
) -> tuple[Mapping[str, Collection[str]] | None, set[str]]:
    """Where frames of each generator's address arrived, and the addresses of which only broadcast frames did.

    None on a datapath that does not say.
    """
    macs = [port.mac for port in topology.ports]
    if not built.note_sources(macs):
        return None, set()
    generator.learn(Traffic(frame_size=64), topology.directions)
    seen = built.sources()
    if seen.keys() >= set(macs):
        return seen, set()
    generator.learn(Traffic(frame_size=64, dst_mac=_BROADCAST), topology.directions)
    return seen, built.sources().keys() - seen.keys()


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


def refuse_wrong_cables(ends: Sequence[CabledEnd], arrived: Mapping[str, Collection[str]]) -> None:
    """Raise TestbedError that lists every generator port with another cable.

    ``arrived``: by end, the ports of the DUT at which its frames arrived.
    """
    wrong = [
        f"port {end.generator_port} of the generator is not connected to {end.name}"
        + (f" but to {where}" if where else ", nor to another port of the DUT: its frames arrived nowhere")
        for end in ends
        if end.name not in arrived[end.name]
        for where in [" and ".join(sorted(arrived[end.name]))]
    ]
    if not wrong:
        return
    found_at = {end: end.name if end.name in arrived[end.name] else min(arrived[end.name], default="") for end in ends}
    links = ", ".join(
        f"[generator.{end.generator_port}, dut.{dut_port}]" for end, dut_port in found_at.items() if dut_port
    )
    advice = f"change the cables, or write in the testbed file: links: [{links}]" if links else "look at the cables"
    raise TestbedError(f"the cabling differs from the testbed file: {'; '.join(wrong)}; {advice}")
