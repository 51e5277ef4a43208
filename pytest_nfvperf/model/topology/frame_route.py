"""Which ports and bridges the frames of a direction pass, as the topology says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.links import Patch, Underlay, encapsulation_bytes, overlays, shortest
from pytest_nfvperf.model.topology.ports import PortRole, VnfMode
from pytest_nfvperf.model.topology.topology import Topology, all_ports, node_of_bridge
from pytest_nfvperf.model.traffic.mix import AnyTraffic, classes_of
from pytest_nfvperf.model.traffic.traffic import VLAN_TAG_BYTES
from pytest_nfvperf.model.traffic.trial import Direction, DirectionCounts


@dataclass(frozen=True, slots=True)
class RouteHop:
    """One pass of the datapath: in by port ``entry``, over bridges that patch ports join, out by port ``exit``.

    A frame that enters a tunnel leaves by the underlay's end, encapsulated. In the next pass it comes out of the
    tunnel's other end. ``tunnel``: the port by which it entered one; None for plain frames.
    """

    entry: str
    bridges: tuple[str, ...]
    exit: str
    tunnel: str | None = None


def route(topology: Topology, direction: Direction) -> tuple[RouteHop, ...] | None:
    """All passes of the datapath in their order; between two of them is a VNF, a veth pair or an underlay.

    None where the topology does not say it: a port that nothing crosses from, a tunnel whose other end is on no node,
    or, on a bridge that learns, VNFs that leave MAC addresses as they are: it sees one address at several ports.
    """
    return _Follower(topology, direction).route()


class _Follower:
    def __init__(self, topology: Topology, direction: Direction) -> None:
        self._topology = topology
        self._direction = direction
        self._bridge_of = {port: bridge for bridge, port in all_ports(topology)}
        self._patched = {end.port: end.peer_port for patch in topology.patches for end in patch.ends}
        self._joined = {port.name: port.peer for port in topology.ports if port.role is PortRole.FORWARDER}
        wires = [link for link in topology.links if not isinstance(link, Patch)]
        self._joined |= {end.port: end.peer_port for wire in wires for end in wire.ends}
        self._overlays = overlays(topology.nodes, topology.tunnels, topology.underlays)
        self._tunnelled = {end.port: (end.peer_port, one) for one in self._overlays for end in one.ends}
        self._inside: str | None = None
        """Frames are in a tunnel, and will come out of it by this port."""
        self._rewritten = {port.name: port.eth_peer for port in topology.ports if port.vnf_mode is VnfMode.MAC}
        self._destination = topology.port(direction.tx).eth_peer or topology.port(direction.rx).mac

    def route(self) -> tuple[RouteHop, ...] | None:
        crossed: list[RouteHop] = []
        entry: str | None = self._direction.tx
        while entry is not None and all(entry != one.entry for one in crossed):
            one = self._cross(entry)
            if one is None:
                return None
            crossed.append(one)
            if one.exit == self._direction.rx:
                return tuple(crossed)
            self._destination = self._rewritten.get(one.exit) or self._destination
            entry = self._joined.get(one.exit)
        return None

    def _cross(self, entry: str) -> RouteHop | None:
        bridges: list[str] = []
        at = entry
        if self._inside is not None:
            bridges.append(self._bridge_of[entry])
            at, self._inside = self._inside, None
        while True:
            bridge = self._bridge_of[at]
            leaves = self._leaves_by(bridge, at)
            if leaves is None or bridge in bridges:
                return None
            bridges.append(bridge)
            if leaves in self._tunnelled:
                # Out by the underlay's end on this node.
                self._inside, overlay = self._tunnelled[leaves]
                nodes = node_of_bridge(self._topology)
                below = next(end for end in overlay.underlay.ends if nodes[end.bridge] == nodes[bridge])
                return RouteHop(entry, (*bridges, below.bridge), below.port, leaves)
            if leaves not in self._patched:
                return RouteHop(entry, tuple(bridges), leaves)
            at = self._patched[leaves]

    def _leaves_by(self, bridge: str, entered: str) -> str | None:
        crossings = [crossing for crossing in self._topology.crossings if crossing.bridge == bridge]
        if crossings:  # a topology has one exit for each port
            return next((crossing.out_port for crossing in crossings if crossing.in_port == entered), None)
        return self._learnt(bridge, entered)

    def _learnt(self, bridge: str, entered: str) -> str | None:
        """The exit on a bridge that learns: towards the destination, as long as each address is at one port."""
        ports = self._topology.ports
        vnfs = [port for port in ports if port.bridge == bridge and port.role is PortRole.FORWARDER]
        if any(port.vnf_mode is not VnfMode.MAC for port in vnfs):
            return None
        goal = next((port for port in ports if port.mac == self._destination), None)
        if goal is None or goal.name == entered:
            return None
        if goal.bridge == bridge:
            return goal.name
        path = shortest(bridge, goal.bridge, [*self._topology.links, *self._overlays])
        return path[0].port if path else None


# Line rate in frames/s: of the ports and the underlays that frames cross.


def line_rate_fps(
    topology: Topology, traffic: AnyTraffic, directions: int, ports_bps: float | None, underlays_bps: float | None
) -> float | None:
    """Frames/s per direction at which the slowest link is full; None where no link has a line rate.

    ``traffic``: frames as the generator sends them, on so many of the topology's directions at once. ``ports_bps``,
    ``underlays_bps``: layer-1 bit/s of the generator's ports, and of underlays that say none themselves; None: none.
    """
    rates = [traffic.line_rate_fps(ports_bps)] if ports_bps else []
    crossings = [one for direction in topology.directions[:directions] for one in _underlays(topology, direction)]
    # Directions that enter an underlay by the same end share its rate.
    sharing = Counter(end for end, _, _ in crossings)
    for end, link, extra in crossings:
        rate = link.line_rate_bps or underlays_bps
        if rate is not None:
            rates.append(traffic.line_rate_fps(rate, extra) / sharing[end])
    return min(rates, default=None)


def _underlays(topology: Topology, direction: Direction) -> Sequence[tuple[str, Underlay, int]]:
    """Each underlay that a direction's frames cross: the end they enter, the link, and the bytes added to a frame.

    Empty where the topology does not define the route.
    """
    links = {end.port: link for link in topology.underlays for end in link.ends}
    passes = route(topology, direction) or () if links else ()
    # A frame that enters by an access port carries a VLAN tag until it leaves by another (802.1Q).
    vlan = topology.port(direction.tx).vlan
    tag = VLAN_TAG_BYTES if vlan is not None and vlan.tag is not None else 0
    # An overlay adds as much to a frame as to the underlay's packet, for its FCS is made again: outer Ethernet 14, IP,
    # UDP and so on, outer FCS 4, less the inner FCS 4; of the packet, the inner Ethernet header 14 for the outer one.
    outer = {tunnel.port: encapsulation_bytes(tunnel.kind, tunnel.local) for tunnel in topology.tunnels}
    return [(one.exit, links[one.exit], tag + outer.get(one.tunnel or "", 0)) for one in passes if one.exit in links]


# Copies of a trial's frames: how many mirrors should have made, and what became of them.


@dataclass(frozen=True, slots=True)
class CopyCounts:
    """Copies of one trial, over all mirrors whose outputs are counted.

    Attributes:
        crossings: how often frames crossed a mirrored bridge, selected or not.
        expected: one for each time that a frame crossed a mirrored bridge and was selected.
        received: by the generator's monitors.
        truncated: of those, the ones cut by a snaplen.
        corrupted: of those, the ones that were otherwise not as sent.
        dropped: given up at the outputs, by the counter that says so.
        uncounted: counters that are missing, so that nobody knows how often frames crossed: ``vm1.rx_packets``.
    """

    crossings: int
    expected: int
    received: int
    truncated: int
    corrupted: int
    dropped: Mapping[str, int]
    uncounted: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """Why these counts say nothing of a mirror, for a person; empty where they do say something."""
        if self.uncounted:
            return f"the datapath has no counter {', '.join(self.uncounted)}: nobody knows how many copies are due"
        if not self.crossings:
            return "no frame crossed a mirrored bridge: the topology has no mirror there, or nothing was sent"
        return ""

    @property
    def unexplained(self) -> int:
        """Expected, but neither received nor dropped by anyone who counts."""
        return self.expected - self.received - sum(self.dropped.values())

    def __str__(self) -> str:
        lost = [f"{frames:,} lost: {name}" for name, frames in self.dropped.items()]
        odd = {"unexplained": self.unexplained, "truncated": self.truncated, "corrupted": self.corrupted}
        lost += [f"{frames:,} {what}" for what, frames in odd.items() if frames]
        received = f"{self.received:,} of {self.expected:,} copies received"
        return "; ".join([f"{received}, of frames that crossed {self.crossings:,} times", *lost])


def copy_counts(topology: Topology, result: TrialResult, moved: Mapping[str, int]) -> CopyCounts:
    """Compare what mirrors should have copied with what came.

    Crossings are counted where frames enter a bridge: by the generator that put them on a port, by the VNF that did,
    or, where that does not count, by the port of the DUT.

    ``moved``: moves of counters by name: ``<port>.rx_packets``, ``<port>.tx_dropped``, ``<port>.far.ring_drops``.
    ValueError if the topology does not define the path of a direction, if the traffic is a mix, since copies are not
    told apart by class, or if a mirror selects by VLAN, and frames are in several.
    """
    (only,) = classes_of(result.spec.traffic)
    outputs = [mirror.output for mirror in topology.mirrors if mirror.output is not None]
    vlan, *others = only.traffic.vlans
    if others and any(mirror.select_vlan for mirror in topology.mirrors):
        raise ArgumentError(
            f"frames are in {len(others) + 1} VLANs, and a mirror of {topology.name!r} selects by VLAN: send one VLAN, "
            "or let the mirror select by port"
        )
    mirrored = [
        (crossed.entry, mirror.copies(crossed.entry, crossed.exit, vlan), frames)
        for crossed, frames in _crossings(topology, result, moved)
        for mirror in topology.mirrors
        if mirror.bridge in crossed.bridges
    ]
    monitors = [monitor for monitor in result.monitors if monitor.port in outputs]
    # Copies that an output dropped because its queue, or the far end's socket or ring, was full.
    counters = ("tx_dropped", "far.socket_drops", "far.ring_drops", "far.xdp_drops")
    drops = [f"{port}.{counter}" for port in outputs for counter in counters]
    return CopyCounts(
        crossings=sum(frames or 0 for _, _, frames in mirrored),
        expected=sum(frames or 0 for _, copied, frames in mirrored if copied),
        received=sum(monitor.copies for monitor in monitors),
        truncated=sum(monitor.truncated for monitor in monitors),
        corrupted=sum(monitor.corrupted for monitor in monitors),
        dropped={name: moved[name] for name in drops if moved.get(name)},
        uncounted=tuple(dict.fromkeys(f"{entry}.rx_packets" for entry, _, frames in mirrored if frames is None)),
    )


def frames_entered(port: str, moved: Mapping[str, int]) -> int | None:
    """Frames that the datapath got from a port, past its ingress policer; None if the port does not count.

    A DPDK port's ``rx_packets`` has those that its policer dropped: a NIC counts earlier, and so does vhost-user since
    OVS 3.1. The versions before counted the rest there (``netdev_dpdk_vhost_rxq_recv()``), and nothing by queue.
    """
    counted = moved.get(f"{port}.rx_packets")
    counts_rest = f"{port}.ovs_tx_retries" in moved and f"{port}.rx_q0_good_packets" not in moved
    if counted is None or counts_rest:
        return counted
    return max(0, counted - moved.get(f"{port}.ovs_rx_qos_drops", 0))


def _crossings(
    topology: Topology, result: TrialResult, moved: Mapping[str, int]
) -> Iterator[tuple[RouteHop, int | None]]:
    """Each pass of frames through the datapath, and how many there were; None where nobody counts."""
    by_vnfs: Counter[str] = Counter()
    for vnf in result.vnfs:
        by_vnfs[vnf.peer] += vnf.sent
    offered: Counter[str] = Counter()
    for count in result.counts:
        offered[count.direction.tx] += count.sent
    for count in result.counts:
        passes = route(topology, count.direction)
        if passes is None:
            raise ValueError(f"topology {topology.name!r} does not define the path of {count.direction}")
        for number, crossed in enumerate(passes):
            entered = frames_entered(crossed.entry, moved)
            if number == 0:
                yield crossed, _entered(count, offered[crossed.entry], entered, moved)
            else:
                yield crossed, by_vnfs.get(crossed.entry, entered)


def _entered(count: DirectionCounts, offered: int, entered: int | None, moved: Mapping[str, int]) -> int:
    """Frames of a direction that its first bridge got: nobody owes a copy of one that was lost before it.

    A port may count frames of others, and late. So what it did not take of all ``offered`` to it is believed only as
    far as frames of this direction are missing at the end.
    """
    outside = moved.get(f"{count.direction.tx}.ovs_rx_qos_drops", 0)
    if entered is not None and count.sent:
        share = max(0, offered - entered) * count.sent // offered
        outside = max(outside, min(share, count.sent - count.received))
    return max(0, count.sent - outside)
