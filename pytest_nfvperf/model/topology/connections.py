"""Connection tracking between two ports of a bridge: who may open connections, NAT, limits and timeouts of zones.

Its pipeline is the usual one of ovs-actions(7), ct: each frame is looked up in the zone. One of a known connection, or
related to one, goes on; a client's new one is committed; a server's new one, and an invalid frame, are dropped.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal, TypedDict, Unpack

from pytest_nfvperf.model.arguments import Allowed, Ip, Name, checked, either, optional, several, whole, word
from pytest_nfvperf.model.display import listed
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.bridges import BridgeRules

TIMEOUTS = (
    *("tcp_syn_sent", "tcp_syn_recv", "tcp_established", "tcp_fin_wait", "tcp_close_wait", "tcp_last_ack"),
    *("tcp_time_wait", "tcp_close", "tcp_syn_sent2", "tcp_retransmit", "tcp_unack"),
    *("udp_first", "udp_single", "udp_multiple", "icmp_first", "icmp_reply"),
)
"""Keys of a timeout policy (ovs-vswitchd.conf.db(5), CT_Timeout_Policy)."""

_FIRST_BACKEND, _MOST_BACKENDS = ipaddress.ip_address("198.19.0.1"), 256
"""Of the range that RFC 2544 keeps for benchmarks; to as many buckets OVS spreads by the datapath's hash."""

_PRIORITY = 39_000
"""Of the flows that lead frames to a lookup: below a meter's, above those of paths and of most authors."""
_FIRST_TABLE, _TABLES_EACH, MOST_ON_BRIDGE = 100, 5, 30
_FIRST_GROUP = 0x4E460000
_DONE = "load:1->NXM_NX_REG14[0],resubmit(,0)"
"""What comes after: the bridge forwards the frame as it would without connection tracking."""
_COMMIT = "commit"
_ONCE = "OVS translates once in a zone: give a second_zone=... for the other NAT"
_FAMILIES = {4: "ip", 6: "ipv6"}
_LAYER_4 = {4: ("tcp", "udp"), 6: ("tcp6", "udp6")}
_DISCOVERY = range(133, 138)
"""ICMPv6 types of RFC 4861."""


@dataclass(frozen=True, slots=True)
class Nat:
    """A translation of source or destination to a range of addresses, and of ports if ``ports`` are given."""

    what: Literal["src", "dst"]
    first: str
    last: str
    ports: tuple[int, int] | None = None

    @property
    def version(self) -> int:
        return ipaddress.ip_address(self.first).version

    def __str__(self) -> str:
        """As an argument of ct: ``nat(src=198.51.100.1-198.51.100.8:1024-65535)``."""
        ends = dict.fromkeys((self.first, self.last))
        addresses = "-".join(f"[{each}]" if self.version == 6 else each for each in ends)
        ports = "" if self.ports is None else ":" + "-".join(dict.fromkeys(map(str, self.ports)))
        return f"nat({self.what}={addresses}{ports})"


@dataclass(frozen=True, slots=True)
class Connections:
    """Connection tracking between a client's and a server's port of a bridge: ``connections``, ``load_balancer``.

    Attributes:
        stages: zones that a client's frame passes, with the NAT of each; a server's frame passes them backwards.
        backends: that a client's connections are spread over, by a select group in the first zone.
        server_ports: of the connections that are tracked; none: all.
        timeouts: seconds, by their keys.
    """

    bridge: str
    client: str
    server: str
    stages: tuple[tuple[int, Nat | None], ...]
    backends: tuple[Nat, ...] = ()
    server_ports: tuple[int, ...] = ()
    mark: int | None = None
    label: int | None = None
    limit: int | None = None
    timeouts: tuple[tuple[str, int], ...] = ()
    most_connections: int | None = None

    @property
    def zones(self) -> tuple[int, ...]:
        return tuple(zone for zone, _ in self.stages)

    @property
    def translations(self) -> tuple[Nat, ...]:
        return (*self.backends, *(nat for _, nat in self.stages if nat is not None))

    def __str__(self) -> str:
        """``connections from p0 to p1, zone 7: nat(src=198.51.100.1)``."""
        said = [f"{len(self.backends)} backends by group"] if self.backends else []
        said += [str(nat) for _, nat in self.stages if nat is not None]
        said += [f"server ports {listed(map(str, self.server_ports))} alone"] if self.server_ports else []
        numbers = {"mark": self.mark, "label": self.label, "limit": self.limit, "at most": self.most_connections}
        said += [f"{name} {value:,}" for name, value in numbers.items() if value is not None]
        said += [f"{key}={seconds} s" for key, seconds in self.timeouts]
        zones = f"zone{'s' * (len(self.stages) > 1)} {' and '.join(map(str, self.zones))}"
        return f"connections from {self.client} to {self.server}, {zones}" + f": {', '.join(said)}" * bool(said)


# Parts of topologies.

_PORT = whole(1, 65535)
_Ports = Annotated[int | tuple[int, int] | None, optional(either(_PORT, several(_PORT, 2, 2)))]
_Zone = Annotated[int, whole(0, 65535)]
_Timeouts = Annotated[
    Mapping[str, int] | None,
    Allowed(
        f"seconds by key, such as {{'tcp_close': 1}}; keys: {', '.join(TIMEOUTS)}",
        lambda value: (
            value is None
            or (
                isinstance(value, Mapping)
                and all(key in TIMEOUTS for key in value)
                and all(map(whole(1, (1 << 32) - 1).accepts, value.values()))
            )
        ),
    ),
]
_U32 = whole(1, (1 << 32) - 1)


class ZoneSettings(TypedDict, total=False):
    """What may be said of any part that tracks connections; fields of ``Connections``."""

    second_zone: _Zone
    server_ports: Annotated[Sequence[int], several(_PORT)]
    mark: Annotated[int, _U32]
    label: Annotated[int, whole(1, (1 << 128) - 1)]
    limit: Annotated[int, _U32]
    timeouts: _Timeouts
    most_connections: Annotated[int, _U32]


@checked()
def snat(addresses: Name, ports: _Ports = None) -> Nat:
    """The client gets an address of a range, such as "198.51.100.1-198.51.100.8"; with ``ports`` a port of a range.

    Without ``ports`` OVS keeps the client's port if it is free.
    """
    return _nat("src", addresses, ports)


@checked()
def dnat(addresses: Name, ports: _Ports = None) -> Nat:
    """Connections go to an address of a range, whatever address they were for; with ``ports`` to a port of a range."""
    return _nat("dst", addresses, ports)


def _nat(what: Literal["src", "dst"], addresses: str, ports: int | tuple[int, int] | None) -> Nat:
    call = f"{what[0]}nat({addresses!r})"
    first, _, last = addresses.replace(" ", "").partition("-")
    try:
        ends = ipaddress.ip_address(first), ipaddress.ip_address(last or first)
    except ValueError as error:
        raise ArgumentError(f"{call}: {error}; write an address, or '198.51.100.1-198.51.100.8'") from error
    _refuse(call, ends[0].version != ends[1].version, f"{first} and {last} must be both IPv4 or both IPv6")
    _refuse(call, int(ends[1]) < int(ends[0]), f"the range has no address: its last, {last}, is before {first}")
    if ports is None:
        return Nat(what, str(ends[0]), str(ends[1]))
    low, high = (ports, ports) if isinstance(ports, int) else ports
    _refuse(call, high < low, f"ports {low} to {high} are none: write ({high}, {low})")
    return Nat(what, str(ends[0]), str(ends[1]), (low, high))


def _refuse(call: str, wrong: object, what: str) -> None:
    if wrong:
        raise ArgumentError(f"{call}: {what}")


@checked()
def connections(
    bridge: Name,
    *,
    client: Name,
    server: Name,
    zone: _Zone = 1,
    nat: Nat | tuple[Nat, Nat] | None = None,
    **settings: Unpack[ZoneSettings],
) -> Connections:
    """Connection tracking between two ports of a bridge: the client's port opens connections, the server's does not.

    Frames without IP, and those of other ports, pass as the bridge forwards them: by its path, or by MAC addresses.

    Args:
        bridge: of both ports.
        client: port by which the first frames of connections come.
        server: port by which the answers come.
        zone: of conntrack.
        nat: ``snat(...)``, ``dnat(...)``, or both: then one is in the second zone, since OVS translates once in each.
        settings: ``second_zone``: in which each frame is looked up once more. ``server_ports``: only TCP and UDP to
            these are tracked, the rest passes without. ``mark``, ``label``: of each connection, which later frames must
            have. ``limit``: connections of each zone. ``timeouts``: seconds by key, such as {"tcp_close": 1}.
            ``most_connections``: of the whole datapath (ct-set-maxconns).
    """
    given = () if nat is None else (nat,) if isinstance(nat, Nat) else tuple(nat)
    call = f"connections({bridge!r})"
    if len(given) == 2:
        same = given[0].what == given[1].what
        _refuse(call, same, f"nat has {given[0].what} twice: give one snat(...) and one dnat(...)")
        _refuse(call, "second_zone" not in settings, _ONCE)
        # Servers see the client's translated address, so the destination is translated first.
        given = tuple(sorted(given, key=lambda one: one.what))
    return _part(call, bridge, (client, server), zone, given, (), settings)


@checked()
def load_balancer(
    bridge: Name,
    *,
    client: Name,
    server: Name,
    backends: Annotated[int, whole(1, _MOST_BACKENDS)] | tuple[Ip, ...] = 4,
    port: Annotated[int, _PORT] | None = None,
    by: Annotated[str, word("group", "range")] = "group",
    zone: _Zone = 1,
    source: Nat | None = None,
    **settings: Unpack[ZoneSettings],
) -> Connections:
    """A load balancer: each of the client's connections goes to one of several backends, all behind the server's port.

    Args:
        bridge: of both ports.
        client: port by which the first frames of connections come; whatever address they are for.
        server: port behind which all backends are.
        backends: their addresses, or how many: 198.19.0.1, .2, ...
        port: of the backends, in place of the one that the client asked for.
        by: "group": a select group hashes addresses and ports; "range": ct chooses from a range of addresses.
        zone: of conntrack.
        source: ``snat(...)`` of the client, in the second zone.
        settings: as of ``connections``.
    """
    call = f"load_balancer({bridge!r})"
    _refuse(call, source is not None and source.what != "src", "source is snat(...), the backends are its dnat")
    _refuse(call, source is not None and "second_zone" not in settings, _ONCE)
    names = [str(_FIRST_BACKEND + number) for number in range(backends)] if isinstance(backends, int) else backends
    found = [ipaddress.ip_address(name) for name in names]
    some = 1 <= len(set(found)) == len(found) <= _MOST_BACKENDS
    _refuse(call, not some, f"backends are 1 to {_MOST_BACKENDS} different addresses, not {listed(names) or 'none'}")
    spread: tuple[Nat, ...] = tuple(_nat("dst", name, port) for name in names)
    if by == "range":
        apart = [int(one) - int(found[0]) for one in found] != list(range(len(found)))
        _refuse(call, apart, "a range has addresses one after the other: write by='group' for others")
        spread = (Nat("dst", str(found[0]), str(found[-1]), spread[0].ports),)
    nats = (*spread[: by == "range"], *([] if source is None else [source]))
    buckets = spread if by == "group" else ()
    return _part(call, bridge, (client, server), zone, nats, buckets, settings)


def _part(
    call: str,
    bridge: str,
    ports: tuple[str, str],
    zone: int,
    nats: Sequence[Nat],
    backends: tuple[Nat, ...],
    settings: ZoneSettings,
) -> Connections:
    """Put the NATs into the zones; ``backends``: in the first zone instead of a NAT."""
    zones = [zone, *([settings["second_zone"]] if "second_zone" in settings else [])]
    _refuse(call, len(set(zones)) < len(zones), f"zone and second_zone are both {zone}: give two")
    inside = (None, *nats) if backends else nats
    stages = tuple(zip(zones, (*inside, None, None), strict=False))
    ports_of_server, timeouts = tuple(settings.get("server_ports", ())), settings.get("timeouts")
    made = Connections(
        bridge,
        *ports,
        stages,
        backends,
        ports_of_server,
        timeouts=tuple((timeouts or {}).items()),
        mark=settings.get("mark"),
        label=settings.get("label"),
        limit=settings.get("limit"),
        most_connections=settings.get("most_connections"),
    )
    mixed = len({nat.version for nat in made.translations}) > 1
    _refuse(call, mixed, "NAT is of IPv4 or of IPv6: its addresses are of both")
    moved = made.server_ports and any(nat.what == "dst" and nat.ports for nat in made.translations)
    _refuse(call, moved, "answers come from a translated port: leave out server_ports, or the ports of the dnat")
    return made


# Checks of a topology's parts, before anything is built.


def wrong_connections(
    parts: Sequence[Connections], ports: Mapping[str, Sequence[str]], nodes: Mapping[str, str]
) -> Iterator[str]:
    """Mistakes, for a person, with what would be right. ``ports``, ``nodes``: of each bridge, by its name."""
    yield from _wrong_ends(parts, ports)
    zones: dict[tuple[str | None, int], Connections] = {}
    for one, zone in [(part, zone) for part in parts for zone in part.zones]:
        other = zones.setdefault((nodes.get(one.bridge), zone), one)
        if other is not one:
            yield f"zone {zone} is used twice, by {other}, and by {one}: give each its own"
    for bridge in ports:
        if sum(one.bridge == bridge for one in parts) > MOST_ON_BRIDGE:
            yield f"bridge {bridge!r} tracks connections of more than {MOST_ON_BRIDGE} pairs of ports"
    most = sorted({one.most_connections for one in parts if one.most_connections is not None})
    if len(most) > 1:
        yield f"most_connections is {listed(map(str, most))}, and a datapath has one number: give it once"


def _wrong_ends(parts: Sequence[Connections], ports: Mapping[str, Sequence[str]]) -> Iterator[str]:
    taken: dict[tuple[str, str], Connections] = {}
    for one in parts:
        there = ports.get(one.bridge)
        if there is None:
            yield f"{one}: its bridge {one.bridge!r} is unknown; there are: {listed(ports)}"
            return
        if one.client == one.server:
            yield f"{one}: client and server are one port: OpenFlow sends no frame back to where it came from"
        for port in (one.client, one.server):
            if port not in there:
                yield f"{one}: {port!r} is no port of {one.bridge!r}; there are: {listed(there) or 'none'}"
            other = taken.setdefault((one.bridge, port), one)
            if other is not one:
                yield f"port {port!r} has two parts, {other}, and {one}: a port has one"


# What becomes of them in OVS.


def connection_rules(parts: Sequence[Connections]) -> Iterator[BridgeRules]:
    """Yield the group and the flows of each.

    They lead frames through the zones, note that in a bit of register 14, and begin again, as those of meters: whatever
    else the bridge does comes after them.
    """
    for at, one in enumerate(parts):
        earlier = sum(other.bridge == one.bridge for other in parts[:at])
        table, number = _FIRST_TABLE + _TABLES_EACH * earlier, _FIRST_GROUP + earlier
        own = []
        if one.backends:
            # A bucket is an action set, with one ct, so what follows is in a table of its own.
            after, (zone, _) = table + _TABLES_EACH - 1, one.stages[0]
            buckets = "".join(f",bucket={_commit(one, zone, nat, f',table={after}')}" for nat in one.backends)
            then = _then(one, one.stages, 0, table)
            family = _FAMILIES[one.backends[0].version]
            own = [f"group_id={number},type=select{buckets}", f"table={after},{family},actions={then}"]
        client = _side(one, one.client, one.stages, table, f"group:{number}" if own else _COMMIT)
        server = _side(one, one.server, one.stages[::-1], table + len(one.stages), "")
        yield BridgeRules(one.bridge, flows=(*own, *client, *server))


def _side(
    one: Connections, port: str, stages: Sequence[tuple[int, Nat | None]], table: int, opening: str
) -> Iterator[str]:
    """Yield the flows for what comes by a port. ``opening``: how it opens connections in the first zone; "": not."""
    into = f"table=0,in_port={port},reg14=0/0x1"
    versions = {nat.version for nat in one.translations} or set(_FAMILIES)
    for match in _tracked(one, versions, "tp_dst" if opening else "tp_src"):
        yield f"{into},priority={_PRIORITY},{match},actions={_lookup(one, stages[0], table)}"
    # Conntrack calls router and neighbour discovery invalid.
    for kind in _DISCOVERY if 6 in versions and not one.server_ports else ():
        yield f"{into},priority={_PRIORITY + 1},icmp6,icmpv6_type={kind},actions={_DONE}"
    known = "".join(f",ct_{name}={value:#x}" for name, value in _metadata(one))
    for at, (zone, nat) in enumerate(stages):
        here, then = f"table={table + at},in_port={port}", _then(one, stages, at, table)
        commit = f"{_commit(one, zone, nat)},{then}" if at or opening == _COMMIT else opening
        yield f"{here},priority=40,ct_state=+trk+inv,actions=drop"
        for version in sorted(versions):  # without it OVS takes no ct
            family = f"{here},{_FAMILIES[version]}"
            yield f"{family},priority=30,ct_state=+trk+rel,actions={then}"
            yield f"{family},priority=20,ct_state=+trk+est{known},actions={then}"
            if opening:
                yield f"{family},priority=10,ct_state=+trk+new,actions={commit}"
        yield f"{here},priority=9,ct_state=+trk+new,actions=drop"
        yield f"{here},priority=0,actions=drop"


def _tracked(one: Connections, versions: Iterable[int], side: str) -> Iterator[str]:
    """Yield the matches of frames that are tracked. ``side``: the field of the server's port in them."""
    for version in sorted(versions):
        layers = _LAYER_4[version] if one.server_ports else (_FAMILIES[version],)
        numbers = [f",{side}={port}" for port in one.server_ports] or [""]
        yield from (f"{layer}{number}" for layer, number in product(layers, numbers))


def _then(one: Connections, stages: Sequence[tuple[int, Nat | None]], at: int, table: int) -> str:
    """What follows a stage: the lookup of the next one, or that the bridge forwards."""
    return _lookup(one, stages[at + 1], table + at + 1) if at + 1 < len(stages) else _DONE


def _lookup(one: Connections, stage: tuple[int, Nat | None], table: int) -> str:
    zone, nat = stage
    translates = nat is not None or (one.backends and zone == one.zones[0])
    return f"ct(zone={zone}{',nat' * bool(translates)},table={table})"


def _commit(one: Connections, zone: int, nat: Nat | None, table: str = "") -> str:
    sets = ",".join(f"set_field:{value:#x}->ct_{name}" for name, value in _metadata(one))
    return f"ct(commit,zone={zone}{table}" + f",{nat}" * (nat is not None) + f",exec({sets})" * bool(sets) + ")"


def _metadata(one: Connections) -> Iterator[tuple[str, int]]:
    yield from ((name, value) for name, value in (("mark", one.mark), ("label", one.label)) if value is not None)
