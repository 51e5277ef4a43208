"""Limiters: meters, policers and shapers, each in the units of OVS, and the token buckets that they are.

Units, default bursts and which bytes count: ovs-ofctl(8), ovs-vswitchd.conf.db(5), and OVS's source from 2.15 to 4.0
(``dp_netdev_run_meter``, ``netdev_dpdk_policer_run``, ``trtcm_policer_run_single_packet``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pytest_nfvperf.model.arguments import NAME, Allowed, Name, checked, several, whole, word
from pytest_nfvperf.model.display import WordChoice
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.bridges import BridgeRules
from pytest_nfvperf.model.traffic.frame_program import FCS_BYTES

_ETHERNET_BYTES = 14
_POLICING_BURST_KBIT = 8000
"""ovs-vswitchd.conf.db(5), Interface, ingress_policing_burst: if it is 0."""
_SHAPING_BURST_BYTES = 1514 + 64
"""OVS's own burst of linux-htb: an MTU and 64 bytes."""
_MOST_RATE, _MOST_NUMBER, _MOST_METERS = (1 << 32) - 1, 0xFFFF0000, 32
_PRIORITY = 40_000
"""Of a meter's flow: above the flows of paths and of most authors."""
_METER_LINE = re.compile(r"meter=(\d+)")


class LimiterKind(WordChoice):
    """What limits; of a port's egress the type of its QoS row."""

    METER = "meter"
    POLICER = "policer"
    EGRESS = "egress-policer"
    TRTCM = "trtcm-policer"
    HTB = "linux-htb"
    HFSC = "linux-hfsc"

    @property
    def of_kernel(self) -> bool:
        return self in {LimiterKind.HTB, LimiterKind.HFSC}

    @property
    def of_dpdk(self) -> bool:
        return self in {LimiterKind.EGRESS, LimiterKind.TRTCM}


_UNCOUNTED = {LimiterKind.METER: ("frame without FCS", FCS_BYTES)}
_LAYER_3 = ("frame without Ethernet header and FCS", FCS_BYTES + _ETHERNET_BYTES)


@dataclass(frozen=True, slots=True)
class Limiter:
    """A limiter of a topology.

    Attributes:
        at: the bridge of a meter, the port of others.
        bands: rate and burst of each, in ``unit``; a burst of None is OVS's default.
        unit: "kbps" and kbit; "pktps" and packets; "bytes/s" and bytes; "bit/s" and bytes.
        number: of a meter.
        in_ports, match: the frames that a meter counts.
        queues: of a trtcm-policer: the rates of each queue, committed and in excess.
    """

    kind: LimiterKind
    at: str
    bands: tuple[tuple[int, int | None], ...]
    unit: str
    number: int = 0
    in_ports: tuple[str, ...] = ()
    match: str = ""
    queues: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()

    @property
    def buckets(self) -> tuple[tuple[int, int], ...]:
        """Rate in tokens a second, and burst in tokens, of each. A token is a bit, or a packet."""
        factor, of_burst = {"kbps": (1000, 1000), "pktps": (1, 1), "bytes/s": (8, 8), "bit/s": (1, 8)}[self.unit]
        default = _SHAPING_BURST_BYTES if self.kind.of_kernel else _POLICING_BURST_KBIT
        bursts = ((default if self.kind is not LimiterKind.METER else rate) for rate, _ in self.bands)
        return tuple(
            (rate * factor, (own if burst is None else burst) * of_burst)
            for (rate, burst), own in zip(self.bands, bursts, strict=True)
        )

    @property
    def counted(self) -> str:
        """Which bytes of a frame it counts."""
        return "packets" if self.unit == "pktps" else _UNCOUNTED.get(self.kind, _LAYER_3)[0]

    def tokens(self, frames: int, frame_bytes: int) -> int:
        """The tokens that so many frames cost; ``frame_bytes``: of all of them, with FCS."""
        uncounted = _UNCOUNTED.get(self.kind, _LAYER_3)[1]
        return frames if self.unit == "pktps" else 8 * (frame_bytes - uncounted * frames)

    @property
    def drop_reasons(self) -> tuple[str, ...]:
        """How the drop ledger names its drops."""
        ingress, egress = ("ovs_rx_qos_",), ("ovs_tx_qos_", "qdisc_drops")
        return {LimiterKind.METER: ("datapath_drop_meter",), LimiterKind.POLICER: ingress}.get(self.kind, egress)

    def limits(self, bridges: Sequence[str], entry: str, leaving: str) -> bool:
        """True if it limits frames that cross these bridges, in by one port and out by the other."""
        if self.kind is LimiterKind.METER:
            return self.at in bridges and (entry in self.in_ports or self.at != bridges[0])
        return self.at == (entry if self.kind is LimiterKind.POLICER else leaving)

    def __str__(self) -> str:
        """``meter 1 of br0: 100,000 kbps, burst 20,000``."""
        bands = "; ".join(
            f"{rate:,} {self.unit}" + ("" if burst is None else f", burst {burst:,}") for rate, burst in self.bands
        )
        name = f"meter {self.number} of" if self.kind is LimiterKind.METER else f"{self.kind} of"
        frames = f", frames from {', '.join(self.in_ports)}" if self.in_ports else ""
        return f"{name} {self.at}: {bands}{frames}{f' that match {self.match}' if self.match else ''}"


# Parts of topologies.

_Rate = Annotated[int, whole(1, _MOST_RATE)]
_Bytes = Annotated[int, whole(1, unit="bytes, or bytes a second")]
_PAIR = several(whole(1), 2, 2)
_Pair = Annotated[tuple[int, int], Allowed("a rate and a burst, such as (12_500_000, 62_500)", _PAIR.accepts)]
_Pairs = Annotated[
    tuple[tuple[int, int], ...],
    Allowed("pairs of rate and burst, such as ((1000, 100), (2000, 200))", several(_PAIR).accepts),
]
_Ports = Annotated[
    str | tuple[str, ...],
    Allowed(
        "a port of the bridge, or several, such as ('p0', 'p1')",
        lambda value: NAME.accepts(value) or several(NAME, least=1).accepts(value),
    ),
]
_QUEUES = Allowed(
    "two pairs for each queue, such as {1: ((1_000_000, 10_000), (1, 1))}",
    lambda value: (
        isinstance(value, Mapping)
        and all(map(whole(0).accepts, value))
        and all(map(several(_PAIR, 2, 2).accepts, value.values()))
    ),
)


@checked()
def meter(
    bridge: Name,
    in_ports: _Ports,
    *,
    kbps: _Rate | None = None,
    pktps: _Rate | None = None,
    burst: _Rate | None = None,
    more: _Pairs = (),
    number: Annotated[int, whole(1, _MOST_NUMBER)] = 1,
    match: str = "",
) -> Limiter:
    """A meter, and the flows that lead frames through it before the bridge forwards them.

    Args:
        bridge: whose meter.
        in_ports: frames that come in by these ports of the bridge go through it.
        kbps: rate, 1000 bit/s of frames without FCS. Give this or ``pktps``.
        pktps: rate, packets a second.
        burst: in kbit, or in packets; None: as much as a second of the rate.
        more: further bands, each a rate and a burst in the same units. The one that passes least decides.
        number: its id, once on a bridge.
        match: of these frames only those, in words of ovs-ofctl(8): "udp,tp_dst=5001".
    """
    if (kbps is None) == (pktps is None):
        raise ArgumentError("meter(): give one of kbps and pktps, such as meter('br0', 'p0', kbps=100_000)")
    in_ports = (in_ports,) if isinstance(in_ports, str) else tuple(in_ports)
    unit, rate = ("kbps", kbps) if kbps is not None else ("pktps", pktps)
    bands = ((rate or 0, burst), *more)
    return Limiter(LimiterKind.METER, bridge, bands, unit, number, in_ports, match)


@checked()
def policer(port: Name, kbps: _Rate, burst: _Rate | None = None) -> Limiter:
    """Ingress policing of a port (``ingress_policing_rate``, ``_burst``); a burst of None is OVS's 8000 kbit.

    DPDK's ports count frames without Ethernet header and FCS. The kernel polices on its own datapath only.
    """
    return Limiter(LimiterKind.POLICER, port, ((kbps, burst),), "kbps")


@checked()
def egress_policer(port: Name, cir: _Bytes, cbs: _Bytes) -> Limiter:
    """A DPDK port's QoS of type egress-policer: committed rate in bytes/s, burst in bytes, both of IP packets."""
    return Limiter(LimiterKind.EGRESS, port, ((cir, cbs),), "bytes/s")


@checked()
def trtcm(
    port: Name,
    committed: _Pair,
    excess: _Pair,
    *,
    queues: Annotated[Mapping[int, tuple[tuple[int, int], ...]], _QUEUES] | None = None,
) -> Limiter:
    """A DPDK port's QoS of type trtcm-policer: RFC 4115, and red frames are dropped.

    Args:
        port: frames that leave by it.
        committed: rate (CIR, bytes/s) and burst (CBS, bytes), both of IP packets.
        excess: rate (EIR) and burst (EBS), beside the committed ones.
        queues: such two pairs for each queue that flows choose (set_queue). Frames of no queue are in queue 0, which
            has the port's own rates if it is not given.
    """
    own = {0: (committed, excess), **(queues or {})}
    return Limiter(LimiterKind.TRTCM, port, (committed, excess), "bytes/s", queues=tuple(sorted(own.items())))


@checked()
def linux_shaper(
    port: Name, bps: _Bytes, burst: _Bytes | None = None, *, kind: Annotated[str, word("htb", "hfsc")] = "htb"
) -> Limiter:
    """A port's QoS of type linux-htb or linux-hfsc: bit/s, and for htb a burst in bytes. The kernel's datapath only."""
    return Limiter(LimiterKind(f"linux-{kind}"), port, ((bps, burst),), "bit/s")


# What becomes of them in OVS.


def meter_rules(limiters: Iterable[Limiter]) -> Iterator[BridgeRules]:
    """Yield the meters and flows of each bridge.

    A flow leads frames through its meter, notes that in a bit of register 15, and begins again: whatever else the
    bridge does comes after it.
    """
    meters = [one for one in limiters if one.kind is LimiterKind.METER]
    for bridge in dict.fromkeys(one.at for one in meters):
        lines = [line for bit, one in enumerate(m for m in meters if m.at == bridge) for line in _lines(one, bit)]
        yield BridgeRules(bridge, flows=tuple(lines))


def _lines(one: Limiter, bit: int) -> Iterator[str]:
    bands = ",".join(
        f"type=drop,rate={rate}" + ("" if burst is None else f",burst_size={burst}") for rate, burst in one.bands
    )
    burst = "" if all(size is None for _, size in one.bands) else "burst,"
    yield f"meter={one.number},{one.unit},{burst}stats,bands={bands}"
    match, mask = f",{one.match}" if one.match else "", f"{1 << bit:#x}"
    for port in one.in_ports:
        yield (
            f"priority={_PRIORITY},in_port={port},reg15=0/{mask}{match},"
            f"actions=meter:{one.number},load:1->NXM_NX_REG15[{bit}],resubmit(,0)"
        )


def qos_settings(one: Limiter) -> tuple[dict[str, str], dict[int, dict[str, str]]]:
    """``other_config`` of a port's QoS row, and of each of its queues."""
    if one.kind.of_kernel:
        ((rate, burst),) = one.bands
        config = {"max-rate": str(rate)}
        return config, {0: config if burst is None else {**config, "burst": str(burst)}}
    if one.kind is LimiterKind.TRTCM:
        return _trtcm(one.bands), {number: _trtcm(pair) for number, pair in one.queues}
    ((rate, burst),) = one.bands
    return {"cir": str(rate), "cbs": str(burst)}, {}


def _trtcm(pair: Sequence[tuple[int, int | None]]) -> dict[str, str]:
    (cir, cbs), (eir, ebs) = pair
    return {"cir": str(cir), "cbs": str(cbs), "eir": str(eir), "ebs": str(ebs)}


def wrong_limiters(
    limiters: Sequence[Limiter],
    rules: Sequence[BridgeRules],
    ports: Mapping[str, Sequence[str]],
    virtual: Sequence[str],
) -> Iterator[str]:
    """What is wrong with a topology's limiters. ``ports``: of each bridge; ``virtual``: patch ports and tunnels."""
    taken = {(each.bridge, int(number)) for each in rules for number in _METER_LINE.findall("\n".join(each.flows))}
    sides: set[tuple[str, bool]] = set()
    for one in limiters:
        if one.kind is LimiterKind.METER:
            yield from _wrong_meter(one, ports, taken, sum(other.at == one.at for other in limiters))
            taken.add((one.at, one.number))
            continue
        known = [port for own in ports.values() for port in own if port not in virtual]
        if one.at not in known:
            yield f"{one}: there is no such port that OVS could limit; there are: {', '.join(known) or 'none'}"
        side = (one.at, one.kind is LimiterKind.POLICER)
        if side in sides:
            yield f"{one}: port {one.at!r} has another limiter on the same side: make one of the two"
        sides.add(side)


def _wrong_meter(
    one: Limiter, ports: Mapping[str, Sequence[str]], taken: set[tuple[str, int]], of_bridge: int
) -> Iterator[str]:
    if one.at not in ports:
        yield f"{one}: its bridge is unknown; there are: {', '.join(ports)}"
    for port in one.in_ports:
        if port not in ports.get(one.at, ()):
            yield f"{one}: {port!r} is no port of {one.at!r}; there are: {', '.join(ports[one.at]) or 'none'}"
    if (one.at, one.number) in taken:
        yield f"{one}: {one.at!r} has a meter {one.number} already: give it another number=..."
    if of_bridge > _MOST_METERS:
        yield f"bridge {one.at!r} has {of_bridge} meters, and {_MOST_METERS} at most are led through by flows"
