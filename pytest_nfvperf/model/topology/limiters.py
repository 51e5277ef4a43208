"""Limiters: meters, policers and shapers, each in the units of OVS, and the token buckets that they are.

Units, default bursts and which bytes count: ovs-ofctl(8), ovs-vswitchd.conf.db(5), and OVS's source from 2.15 to 4.0
(``dp_netdev_run_meter``, ``netdev_dpdk_policer_run``, ``trtcm_policer_run_single_packet``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal

from pytest_nfvperf.model.arguments import NAME, Allowed, Name, checked, several, whole, word
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.bridges import BridgeRules
from pytest_nfvperf.model.traffic.frame_program import FCS_BYTES

LimiterKind = Literal["meter", "policer", "egress-policer", "trtcm-policer", "linux-htb", "linux-hfsc"]
"""What limits; of a port's egress the type of its QoS row."""
OF_DPDK: tuple[LimiterKind, ...] = ("egress-policer", "trtcm-policer")
OF_KERNEL: tuple[LimiterKind, ...] = ("linux-htb", "linux-hfsc")
_TOKENS = {"kbps": (1000, 1000), "pktps": (1, 1), "bytes/s": (8, 8), "bit/s": (1, 8)}
"""A token is a bit, or a packet: how many are in a rate's unit, and in a burst's."""
_NO_HEADER = FCS_BYTES + 14
_OF_KIND: Mapping[LimiterKind, tuple[int, int, tuple[str, ...]]] = {
    "meter": (0, FCS_BYTES, ("datapath_drop_meter",)),
    "policer": (8000, _NO_HEADER, ("ovs_rx_qos_",)),
    **dict.fromkeys(OF_DPDK, (0, _NO_HEADER, ("ovs_tx_qos_",))),
    **dict.fromkeys(OF_KERNEL, (1514 + 64, FCS_BYTES, ("qdisc_drops",))),
}
"""OVS's own burst, or 0 for as much as a second of the rate; the bytes of a frame that do not count; the ledger's names
of its drops."""
_PRIORITY = 40_000
"""Of a meter's flow: above the flows of paths and of most authors."""


@dataclass(frozen=True, slots=True)
class Limiter:
    """A limiter of a topology.

    Attributes:
        at: the bridge of a meter, the port of others.
        bands: rate and burst of each, in ``unit``; a burst of None is OVS's default.
        unit: "kbps" and kbit; "pktps" and packets; "bytes/s" and bytes; "bit/s" and bytes.
        number: of a meter.
        in_ports, match: the frames that a meter counts.
        queues: the bands of each queue of a QoS row.
    """

    kind: LimiterKind
    at: str
    bands: tuple[tuple[int, int | None], ...]
    unit: str
    number: int = 0
    in_ports: tuple[str, ...] = ()
    match: str = ""
    queues: tuple[tuple[int, tuple[tuple[int, int | None], ...]], ...] = ()

    @property
    def buckets(self) -> tuple[tuple[int, int], ...]:
        """Rate in tokens a second, and burst in tokens, of each."""
        (of_rate, of_burst), default = _TOKENS[self.unit], _OF_KIND[self.kind][0]
        return tuple((rate * of_rate, (burst or default or rate) * of_burst) for rate, burst in self.bands)

    @property
    def counted(self) -> str:
        """Of what its tokens are."""
        header = "Ethernet header and " if _OF_KIND[self.kind][1] == _NO_HEADER else ""
        return "packets" if self.unit == "pktps" else f"bits of frames without {header}FCS"

    def tokens(self, frames: int, frame_bytes: int) -> int:
        """The tokens that so many frames cost; ``frame_bytes``: of all of them, with FCS."""
        return frames if self.unit == "pktps" else 8 * (frame_bytes - _OF_KIND[self.kind][1] * frames)

    def together(self, values: Iterable[int]) -> int:
        """What all buckets pass: those of a trTCM one after the other, else the slowest decides."""
        return sum(values) if self.kind == "trtcm-policer" else min(values)

    @property
    def drop_reasons(self) -> tuple[str, ...]:
        """How the drop ledger names its drops."""
        return _OF_KIND[self.kind][2]

    def limits(self, bridges: Sequence[str], entry: str, leaving: str) -> bool:
        """True if it limits frames that cross these bridges, in by one port and out by the other."""
        if self.kind == "meter":
            return self.at in bridges and (entry in self.in_ports or self.at != bridges[0])
        return self.at == (entry if self.kind == "policer" else leaving)

    def __str__(self) -> str:
        """``meter 1 of br0: 100,000 kbps, burst 20,000``."""
        bursts = ("" if burst is None else f", burst {burst:,}" for _, burst in self.bands)
        said = "; ".join(f"{rate:,} {self.unit}{burst}" for (rate, _), burst in zip(self.bands, bursts, strict=True))
        said += f", frames from {', '.join(self.in_ports)}" if self.in_ports else ""
        said += f" that match {self.match}" if self.match else ""
        return f"{self.kind} {self.number or ''}".rstrip() + f" of {self.at}: {said}"


# Parts of topologies.

_Rate = Annotated[int, whole(1, (1 << 32) - 1)]
_Bytes = Annotated[int, whole(1, unit="bytes, or bytes a second")]
_PAIR = several(whole(1), 2, 2)
_PAIRS = several(_PAIR, 2, 2)
_Pair = Annotated[tuple[int, int], Allowed("a rate and a burst, such as (12_500_000, 62_500)", _PAIR.accepts)]
_QUEUES = Allowed(
    "two pairs for each queue, such as {1: ((1_000_000, 10_000), (1, 1))}",
    lambda value: (
        isinstance(value, Mapping) and all(map(whole(0).accepts, value)) and all(map(_PAIRS.accepts, value.values()))
    ),
)


@checked()
def meter(
    bridge: Name,
    in_ports: Name | Annotated[tuple[str, ...], several(NAME, least=1)],
    *,
    kbps: _Rate | None = None,
    pktps: _Rate | None = None,
    burst: _Rate | None = None,
    more: tuple[tuple[_Rate, _Rate], ...] = (),
    number: Annotated[int, whole(1, 0xFFFF0000)] = 1,
    match: str = "",
) -> Limiter:
    """A meter, and the flows that lead frames through it before the bridge forwards them.

    Frames that come in by ``in_ports`` of the bridge go through it; with a ``match``, in words of ovs-ofctl(8) such as
    "udp,tp_dst=5001", only those. ``kbps``: its rate, 1000 bit/s of frames without FCS; or ``pktps``, packets a second.
    ``burst``: in kbit, or in packets; None: as much as a second of the rate. ``more``: further bands, each a rate and a
    burst in the same units; the one that passes least decides. ``number``: its id, once on a bridge.
    """
    if (kbps is None) == (pktps is None):
        raise ArgumentError("meter(): give one of kbps and pktps, such as meter('br0', 'p0', kbps=100_000)")
    ports = (in_ports,) if isinstance(in_ports, str) else tuple(in_ports)
    bands, unit = ((kbps or pktps or 0, burst), *more), "kbps" if kbps else "pktps"
    return Limiter("meter", bridge, bands, unit, number, ports, match)


@checked()
def policer(port: Name, kbps: _Rate, burst: _Rate | None = None) -> Limiter:
    """Ingress policing of a port (``ingress_policing_rate``, ``_burst``); a burst of None is OVS's 8000 kbit.

    DPDK's ports count frames without Ethernet header and FCS. The kernel polices on its own datapath only.
    """
    return Limiter("policer", port, ((kbps, burst),), "kbps")


@checked()
def egress_policer(port: Name, cir: _Bytes, cbs: _Bytes) -> Limiter:
    """A DPDK port's QoS of type egress-policer: committed rate in bytes/s, burst in bytes, both of IP packets."""
    return Limiter("egress-policer", port, ((cir, cbs),), "bytes/s")


@checked()
def trtcm(
    port: Name,
    committed: _Pair,
    excess: _Pair,
    *,
    queues: Annotated[Mapping[int, tuple[tuple[int, int], ...]], _QUEUES] | None = None,
) -> Limiter:
    """A DPDK port's QoS of type trtcm-policer: RFC 4115, and red frames are dropped.

    ``committed``: rate (CIR, bytes/s) and burst (CBS, bytes), both of IP packets. ``excess``: EIR and EBS, beside the
    committed ones. ``queues``: such two pairs for each queue that flows choose (set_queue). Frames of no queue are in
    queue 0, which has the port's own rates if it is not given.
    """
    own = {0: (committed, excess), **(queues or {})}
    return Limiter("trtcm-policer", port, (committed, excess), "bytes/s", queues=tuple(sorted(own.items())))


@checked()
def linux_shaper(
    port: Name, bps: _Bytes, burst: _Bytes | None = None, *, kind: Annotated[str, word("htb", "hfsc")] = "htb"
) -> Limiter:
    """A port's QoS of type linux-htb or linux-hfsc: bit/s, and for htb a burst in bytes. The kernel's datapath only."""
    bands = ((bps, burst),)
    return Limiter("linux-htb" if kind == "htb" else "linux-hfsc", port, bands, "bit/s", queues=((0, bands),))


# What becomes of them in OVS.


def meter_rules(limiters: Sequence[Limiter]) -> Iterator[BridgeRules]:
    """Yield the flows of each meter.

    They lead frames through it, note that in a bit of register 15, and begin again: whatever else the bridge does comes
    after it.
    """
    for at, one in enumerate(limiters):
        if one.kind == "meter":
            bit = sum(other.at == one.at for other in limiters[:at])
            sizes = ["" if burst is None else f",burst_size={burst}" for _, burst in one.bands]
            bands = ",".join(f"type=drop,rate={rate}{size}" for (rate, _), size in zip(one.bands, sizes, strict=True))
            match, done = f",{one.match}" if one.match else "", f"load:1->NXM_NX_REG15[{bit}],resubmit(,0)"
            flows = (
                f"priority={_PRIORITY},in_port={port},reg15=0/{1 << bit:#x}{match},actions=meter:{one.number},{done}"
                for port in one.in_ports
            )
            own = f"meter={one.number},{one.unit},{'burst,' if any(sizes) else ''}stats,bands={bands}"
            yield BridgeRules(one.at, flows=(own, *flows))


def qos_settings(one: Limiter) -> tuple[dict[str, str], dict[int, dict[str, str]]]:
    """``other_config`` of a port's QoS row, and of each of its queues."""
    keys = ("max-rate", "burst") if one.kind in OF_KERNEL else ("cir", "cbs", "eir", "ebs")

    def config(bands: Sequence[tuple[int, int | None]]) -> dict[str, str]:
        named = zip(keys, chain.from_iterable(bands), strict=False)
        return {key: str(value) for key, value in named if value is not None}

    return config(one.bands), {number: config(bands) for number, bands in one.queues}
