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
_UNITS = {"kbps": (1000, 1000), "pktps": (1, 1), "bytes/s": (8, 8), "bit/s": (1, 8)}
"""Tokens of a rate's unit, and of a burst's. A token is a bit, or a packet."""


class LimiterKind(WordChoice):
    """What limits; of a port's egress the type of its QoS row."""

    METER = "meter"
    POLICER = "policer"
    EGRESS = "egress-policer"
    TRTCM = "trtcm-policer"
    HTB = "linux-htb"
    HFSC = "linux-hfsc"


OF_KERNEL, OF_DPDK = {LimiterKind.HTB, LimiterKind.HFSC}, {LimiterKind.EGRESS, LimiterKind.TRTCM}
_REASONS = {LimiterKind.METER: ("datapath_drop_meter",), LimiterKind.POLICER: ("ovs_rx_qos_",)}


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
        """Rate in tokens a second, and burst in tokens, of each."""
        of_rate, of_burst = _UNITS[self.unit]
        default = {LimiterKind.METER: 0, LimiterKind.POLICER: _POLICING_BURST_KBIT}.get(self.kind, _SHAPING_BURST_BYTES)
        return tuple((rate * of_rate, (burst or default or rate) * of_burst) for rate, burst in self.bands)

    @property
    def _uncounted(self) -> int:
        return FCS_BYTES + (_ETHERNET_BYTES if self.kind in {LimiterKind.POLICER, *OF_DPDK} else 0)

    @property
    def counted(self) -> str:
        """Which bytes of a frame it counts."""
        header = "Ethernet header and " if self._uncounted > FCS_BYTES else ""
        return "packets" if self.unit == "pktps" else f"frame without {header}FCS"

    def tokens(self, frames: int, frame_bytes: int) -> int:
        """The tokens that so many frames cost; ``frame_bytes``: of all of them, with FCS."""
        return frames if self.unit == "pktps" else 8 * (frame_bytes - self._uncounted * frames)

    @property
    def drop_reasons(self) -> tuple[str, ...]:
        """How the drop ledger names its drops."""
        return _REASONS.get(self.kind, ("ovs_tx_qos_", "qdisc_drops"))

    def limits(self, bridges: Sequence[str], entry: str, leaving: str) -> bool:
        """True if it limits frames that cross these bridges, in by one port and out by the other."""
        if self.kind is LimiterKind.METER:
            return self.at in bridges and (entry in self.in_ports or self.at != bridges[0])
        return self.at == (entry if self.kind is LimiterKind.POLICER else leaving)

    def __str__(self) -> str:
        """``meter 1 of br0: 100,000 kbps, burst 20,000``."""
        bursts = ("" if burst is None else f", burst {burst:,}" for _, burst in self.bands)
        bands = "; ".join(f"{rate:,} {self.unit}{own}" for (rate, _), own in zip(self.bands, bursts, strict=True))
        number = f" {self.number}" if self.number else ""
        frames = f", frames from {', '.join(self.in_ports)}" if self.in_ports else ""
        return f"{self.kind}{number} of {self.at}: {bands}{frames}{f' that match {self.match}' if self.match else ''}"


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
        and all(whole(0).accepts(number) and several(_PAIR, 2, 2).accepts(own) for number, own in value.items())
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
        kbps: rate, 1000 bit/s of frames without FCS. Give this or ``pktps``, packets a second.
        pktps: see ``kbps``.
        burst: in kbit, or in packets; None: as much as a second of the rate.
        more: further bands, each a rate and a burst in the same units. The one that passes least decides.
        number: its id, once on a bridge.
        match: of these frames only those, in words of ovs-ofctl(8): "udp,tp_dst=5001".
    """
    if (kbps is None) == (pktps is None):
        raise ArgumentError("meter(): give one of kbps and pktps, such as meter('br0', 'p0', kbps=100_000)")
    in_ports = (in_ports,) if isinstance(in_ports, str) else tuple(in_ports)
    unit, rate = ("kbps", kbps) if kbps is not None else ("pktps", pktps)
    return Limiter(LimiterKind.METER, bridge, ((rate or 0, burst), *more), unit, number, in_ports, match)


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
    sizes = ["" if burst is None else f",burst_size={burst}" for _, burst in one.bands]
    bands = ",".join(f"type=drop,rate={rate}{size}" for (rate, _), size in zip(one.bands, sizes, strict=True))
    yield f"meter={one.number},{one.unit},{'burst,' if any(sizes) else ''}stats,bands={bands}"
    match, done = f",{one.match}" if one.match else "", f"load:1->NXM_NX_REG15[{bit}],resubmit(,0)"
    for port in one.in_ports:
        yield (f"priority={_PRIORITY},in_port={port},reg15=0/{1 << bit:#x}{match},actions=meter:{one.number},{done}")


def qos_settings(one: Limiter) -> tuple[dict[str, str], dict[int, dict[str, str]]]:
    """``other_config`` of a port's QoS row, and of each of its queues."""
    (rate, burst), *_ = one.bands
    if one.kind in OF_KERNEL:
        config = {"max-rate": str(rate)}
        return config, {0: config if burst is None else {**config, "burst": str(burst)}}
    if one.kind is LimiterKind.TRTCM:
        return _trtcm(one.bands), {number: _trtcm(pair) for number, pair in one.queues}
    return {"cir": str(rate), "cbs": str(burst)}, {}


def _trtcm(pair: Sequence[tuple[int, int | None]]) -> dict[str, str]:
    (cir, cbs), (eir, ebs) = pair
    return {"cir": str(cir), "cbs": str(cbs), "eir": str(eir), "ebs": str(ebs)}


def wrong_limiters(
    limiters: Sequence[Limiter], rules: Sequence[BridgeRules], ports: Mapping[str, Sequence[str]], real: Sequence[str]
) -> Iterator[str]:
    """What is wrong with limiters. ``ports``: of each bridge; ``real``: all without patch ports and tunnels."""
    taken = {(each.bridge, int(number)) for each in rules for number in _METER_LINE.findall("\n".join(each.flows))}
    sides: set[tuple[str, bool]] = set()
    for one in limiters:
        of_meter = one.kind is LimiterKind.METER
        own = ports.get(one.at, ()) if of_meter else real
        if missing := [port for port in (one.in_ports if of_meter else (one.at,)) if port not in own]:
            where = f"bridge {one.at!r}" if of_meter else "the topology that OVS could limit"
            yield f"{one}: {missing[0]!r} is no port of {where}; there are: {', '.join(own) or 'none'}"
        if (one.at, one.number) in taken:
            yield f"{one}: {one.at!r} has a meter {one.number} already: give it another number=..."
        side = (one.at, one.kind is LimiterKind.POLICER)
        if side in sides and not of_meter:
            yield f"{one}: port {one.at!r} has another limiter on the same side: make one of the two"
        if sum(other.at == one.at for other in limiters) > _MOST_METERS:
            yield f"bridge {one.at!r} has more than {_MOST_METERS} meters"
        sides.add(side)
        taken |= {(one.at, one.number)} if of_meter else set()
