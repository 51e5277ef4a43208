"""Port mirrors: which frames of a bridge are copied, and where the copies go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from pytest_nfvperf.model.arguments import checked
from pytest_nfvperf.model.display import WordChoice, how_many
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.links import Crossing, Tunnel

MOST_ACL_RULES = 1 << 22
"""One for each address of 100.64.0.0/10."""

VLAN_NUMBERS = range(1, 4095)
_SNAPLENS = range(14, 65536)  # an Ethernet header at least, ovs-vswitchd.conf.db(5)
_ZONES = 1 << 16


class MirrorMethod(WordChoice):
    """Who copies: a row of OVS's Mirror table, or an output action more in every OpenFlow flow."""

    OVSDB = "ovsdb"
    FLOW = "flow"


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror of a bridge, in the words of ovs-vswitchd.conf.db(5), table Mirror.

    A frame that several of the selections fit is copied once for each time it crosses the bridge. Frames that come
    in by the output port are dropped: OVS keeps the port for the mirror.

    Attributes:
        name: of the mirror, not used twice in a topology.
        bridge: whose frames are copied.
        output: port that copies leave by, or None.
        output_vlan: VLAN that copies are sent in (RSPAN), 1..4094; or None. One of the two is given.
        select_all: every frame that crosses the bridge.
        select_src: frames that come in by these ports.
        select_dst: frames that leave by these ports.
        select_vlan: of the frames selected only those in these VLANs, 0 being none; with no other selection, all
            frames in them.
        snaplen: bytes that a copy has at most, 14..65535; None for whole frames.
        by: who copies.
    """

    name: str
    bridge: str
    output: str | None = None
    output_vlan: int | None = None
    select_all: bool = False
    select_src: tuple[str, ...] = ()
    select_dst: tuple[str, ...] = ()
    select_vlan: tuple[int, ...] = ()
    snaplen: int | None = None
    by: MirrorMethod = MirrorMethod.OVSDB

    def copies(self, entry: str, leaving: str, vlan: int = 0) -> bool:
        """True when a frame of this VLAN is copied that comes in by one port and leaves by the other."""
        if self.output in {entry, leaving}:
            return False
        if self.select_vlan and vlan not in self.select_vlan:
            return False
        by_port = bool(self.select_src or self.select_dst)
        everything = self.select_all or (bool(self.select_vlan) and not by_port)
        return everything or entry in self.select_src or leaving in self.select_dst


# Checks of a topology's mirrors, before anything is built.


def wrong_mirrors(
    mirrors: Sequence[Mirror], ports: Mapping[str, Sequence[str]], crossings: Sequence[Crossing]
) -> Iterator[str]:
    """Mistakes, for a person, with what would be right. ``ports``: those of each bridge, by its name."""
    outputs: dict[str, str] = {}
    names: set[str] = set()
    for mirror in mirrors:
        if mirror.name in names:
            yield f"mirror {mirror.name!r} is used twice"
        names.add(mirror.name)
        for problem in _problems(mirror, ports, [one for one in crossings if one.bridge == mirror.bridge]):
            yield f"mirror {mirror.name!r}: {problem}"
        if mirror.output is None:
            continue
        other = outputs.setdefault(mirror.output, mirror.name)
        if other != mirror.name:
            yield (
                f"mirrors {other!r} and {mirror.name!r} both put copies on {mirror.output!r}, where nobody could tell "
                "them apart: give each an output of its own, or make one mirror of both"
            )


def _problems(mirror: Mirror, ports: Mapping[str, Sequence[str]], crossings: Sequence[Crossing]) -> Iterator[str]:
    if mirror.bridge not in ports:
        yield f"its bridge {mirror.bridge!r} is unknown; there are: {', '.join(ports)}"
    yield from _wrong_output(mirror, ports, crossings)
    yield from _wrong_selection(mirror, ports)
    if mirror.snaplen is not None and mirror.snaplen not in _SNAPLENS:
        yield f"snaplen {mirror.snaplen} is not in 14..65535 bytes"
    if mirror.by is not MirrorMethod.FLOW:
        return
    if mirror.output is None or mirror.select_vlan or mirror.snaplen is not None:
        yield "a mirror by flows copies whole frames of ports to a port: VLANs and snaplen need one by OVSDB"
    if mirror.select_dst and not crossings:
        yield (
            f"bridge {mirror.bridge!r} learns MAC addresses, so no flow knows where a frame leaves: select by "
            "select_src, or mirror by OVSDB"
        )


def _wrong_output(mirror: Mirror, ports: Mapping[str, Sequence[str]], crossings: Sequence[Crossing]) -> Iterator[str]:
    if (mirror.output is None) == (mirror.output_vlan is None):
        yield "say either the output port or the output VLAN of its copies"
    if mirror.output_vlan is not None and mirror.output_vlan not in VLAN_NUMBERS:
        yield f"output VLAN {mirror.output_vlan} is not in 1..4094"
    if mirror.output is not None:
        yield from _not_on_bridge(mirror, ports, (mirror.output,), "its output")
    if mirror.output in {*mirror.select_src, *mirror.select_dst}:
        yield f"it selects frames of {mirror.output!r}, its own output: it would copy its copies"
    for crossing in crossings:
        if mirror.output in {crossing.in_port, crossing.out_port}:
            yield (
                f"frames cross to or from {mirror.output!r}, its output, which OVS keeps for copies: take a port "
                "that no path uses"
            )


def _wrong_selection(mirror: Mirror, ports: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if not (mirror.select_all or mirror.select_src or mirror.select_dst or mirror.select_vlan):
        yield "it selects nothing: say select_all, select_src, select_dst or select_vlan"
    yield from _not_on_bridge(mirror, ports, (*mirror.select_src, *mirror.select_dst), "it selects")
    for vlan in mirror.select_vlan:
        if vlan != 0 and vlan not in VLAN_NUMBERS:
            yield f"it selects VLAN {vlan}, which is not in 1..4094 (0 for frames without one)"


def _not_on_bridge(
    mirror: Mirror, ports: Mapping[str, Sequence[str]], names: Sequence[str], what: str
) -> Iterator[str]:
    own = ports.get(mirror.bridge, ())
    for port in names:
        if port in own:
            continue
        elsewhere = next((bridge for bridge, there in ports.items() if port in there), None)
        if elsewhere is not None:
            yield f"{what} {port!r}, which is on bridge {elsewhere!r}, and a mirror sees {mirror.bridge!r} alone"
        yield f"{what} {port!r}, which is no port of {mirror.bridge!r}; there are: {', '.join(own) or 'none'}"


# Rules: tables ahead of a bridge's MAC learning (an access list, conntrack), and the author's own OpenFlow.


@dataclass(frozen=True, slots=True)
class BridgeRules:
    """OpenFlow of a bridge: the arguments of ``rules``."""

    bridge: str
    acl: int = 0
    zone: int | None = None
    by_address: bool = False
    answers: str | None = None
    flows: tuple[str, ...] = ()

    @property
    def learns(self) -> bool:
        """True where the bridge forwards by MAC addresses behind these rules."""
        return bool(self.acl or self.by_address or self.answers) or self.zone is not None or not self.flows

    def __str__(self) -> str:
        """``access list of 1,000 rules, conntrack zone 7``."""
        said = [f"access list of {how_many(self.acl, 'rule')}"] if self.acl else []
        said += [] if self.zone is None else [f"conntrack zone {self.zone}"]
        said += ["reads both addresses"] if self.by_address else []
        said += [f"answers ARP and ND for {self.answers}"] if self.answers else []
        return ", ".join(said) or "no rules"


@checked()
def rules(
    bridge: str,
    *,
    acl: int = 0,
    zone: int | None = None,
    by_address: bool = False,
    answers: str | None = None,
    flows: str | Sequence[str] = (),
) -> BridgeRules:
    """OpenFlow of a bridge: flows, groups and meters of your own; what frames pass before it learns MAC addresses.

    Args:
        bridge: its name.
        acl: rules of an access list that drop what no traffic of ours is: UDP to addresses of 100.64.0.0/10.
        zone: of connection tracking; None for none.
        by_address: a rule reads both IP addresses. So the datapath's caches and classifier have a flow for each pair of
            addresses, where the access list needs few.
        answers: an endpoint of the bridge. The generator answers no ARP request and no neighbour solicitation; the
            bridge does, with that endpoint's MAC, so that a router forwards to any address behind it.
        flows: added to what the bridge has, a line each, as add-flow of ovs-ofctl(8) reads it; as add-group if it
            begins with ``group_id=``, as add-meter with ``meter=``. Ports have their names in the topology. Flows of a
            path have priority 100, MAC learning has 0.
    """
    text = flows if isinstance(flows, str) else "\n".join(flows)
    lines = [line for each in text.splitlines() if (line := each.partition("#")[0].strip())]
    for line in lines:
        if not line.startswith(("meter=", "group_id=")) and "actions=" not in line:
            raise ArgumentError(f"rules({bridge!r}): {line!r} has no 'actions=': write a flow as ovs-ofctl(8) reads it")
    return BridgeRules(bridge, acl, zone, by_address, answers, tuple(lines))


class RuleSettings(TypedDict, total=False):
    """Optional fields of ``BridgeRules``."""

    acl: int
    zone: int | None


def wrong_rules(
    rules: Sequence[BridgeRules],
    bridges: Sequence[str],
    tunnels: Sequence[Tunnel],
    crossings: Sequence[Crossing],
    endpoints: Mapping[str, str],
) -> Iterator[str]:
    """What is wrong with a topology's rules, or with its tunnels of many keys, and what to do.

    ``endpoints``: the bridge of each, by its name.
    """
    with_rules = [one.bridge for one in rules]
    for number, one in enumerate(rules):
        if one.bridge not in bridges:
            yield f"rules are for unknown bridge {one.bridge!r}"
        if one.bridge in with_rules[:number]:
            yield f"bridge {one.bridge!r} has rules twice: give acl and zone in one rules(...)"
        if not 0 <= one.acl <= MOST_ACL_RULES:
            yield f"bridge {one.bridge!r}: an access list has 0..{MOST_ACL_RULES} rules, not {one.acl}"
        if one.answers is not None and endpoints.get(one.answers) != one.bridge:
            yield f"bridge {one.bridge!r} answers for {one.answers!r}, which is no endpoint on it"
        if one.zone is not None and not 0 <= one.zone < _ZONES:
            yield f"bridge {one.bridge!r}: conntrack has no zone {one.zone}: 0..{_ZONES - 1}"
    spread = [tunnel.bridge for tunnel in tunnels if tunnel.keys > 1]
    for bridge in spread:
        # The flow sets the key before the bridge decides by which tunnel the frame leaves.
        if sum(tunnel.bridge == bridge for tunnel in tunnels) > 1:
            yield f"bridge {bridge!r} has a tunnel of many keys, and another one: put them on bridges of their own"
    crossed = {crossing.bridge for crossing in crossings} & {*(one.bridge for one in rules if one.learns), *spread}
    if crossed:
        yield (
            f"bridge {min(crossed)!r} has a path, and rules or a tunnel of many keys, which need MAC learning: leave "
            "one of them out"
        )
