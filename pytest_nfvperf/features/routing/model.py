"""BGP as data: sessions, routes and timers, and the path of scenario S1."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any

from pytest_nfvperf.model.arguments import Allowed, Ip, checked, whole
from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.topology.compose import compose
from pytest_nfvperf.model.topology.parts import behind, endpoint, namespace, nic
from pytest_nfvperf.model.topology.ports import Vlan
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Imix, Traffic

# Names follow RFC 4271 (BGP-4), 2385 (MD5 signatures), 4724 (graceful restart), 4760 (address families), 5880 (BFD).

BRIDGE, OUTSIDE = "br-ex", "dpdk2"
VM = "vm0"
"""The port of S1's VM."""
FRR, BIRD = "frr", "bird"
FRR_PORT = "vlan177"
FRR_MAC = "02:4e:46:b9:00:01"

_PROVIDER_VLAN = 101
"""Used only inside the bridge: frames that are flooded in the control VLAN do not reach the VM's port."""
_Prefix = Annotated[
    str, Allowed("a text such as '12.12.12.1/30'", lambda value: isinstance(value, str) and "/" in value)
]
_Tag = Annotated[int, whole(1, 4094)]
_LAST_ASN = 2**32 - 1
_SHORTEST_HOLD_S = 3  # RFC 4271, 4.2: a hold time is 0 or at least 3 s
_LONGEST_PASSWORD = 80  # TCP_MD5SIG_MAXKEYLEN, linux/tcp.h


class Family(StrEnum):
    IPV4 = "ipv4"
    IPV6 = "ipv6"


def family_of(text: str) -> Family:
    """The family of an address or prefix; validates nothing, because there may be 100,000 of them."""
    return Family.IPV6 if ":" in text else Family.IPV4


@checked()
@dataclass(frozen=True, slots=True)
class BgpTimers:
    """Timers in whole seconds, as in RFC 4271. The defaults are short, for tests.

    Attributes:
        hold_s: at least 3 (RFC 4271, 4.2).
        restart_s: how long the neighbour keeps the routes of a speaker that went down (RFC 4724, Restart Time).
    """

    keepalive_s: int = 1
    hold_s: Annotated[int, whole(_SHORTEST_HOLD_S)] = 3
    connect_retry_s: int = 1
    restart_s: int = 30

    def __post_init__(self) -> None:
        if not 1 <= self.keepalive_s < self.hold_s:
            raise ArgumentError(
                f"keepalives every {self.keepalive_s} s cannot keep up a session with a hold time of {self.hold_s} s"
            )


@checked()
@dataclass(frozen=True, slots=True)
class BfdTimers:
    """BFD (RFC 5880, 6.8.7): a session is down after ``multiplier`` intervals without a packet. Milliseconds."""

    interval_ms: Annotated[int, whole(10, 60_000)] = 300
    multiplier: Annotated[int, whole(2, 255)] = 3

    @property
    def detection_s(self) -> float:
        """Seconds without a packet until a session is down, if both sides have these timers (RFC 5880, 6.8.4)."""
        return self.interval_ms * self.multiplier / 1000


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A neighbour. The session is internal (iBGP) if it has the speaker's own AS number.

    A session has one address family, that of its addresses, and takes and sends all routes.

    Attributes:
        password: TCP MD5 signature (RFC 2385), 80 bytes at most; None for none.
    """

    address: str
    asn: int
    password: str | None = None
    timers: BgpTimers = BgpTimers()
    bfd: BfdTimers | None = None

    def __post_init__(self) -> None:
        ipaddress.ip_address(self.address)
        _check_asn(self.asn)
        if self.password is not None and not 1 <= len(self.password.encode()) <= _LONGEST_PASSWORD:
            raise ArgumentError(f"the password of neighbour {self.address} must have 1..{_LONGEST_PASSWORD} bytes")

    @property
    def family(self) -> Family:
        return family_of(self.address)


@dataclass(frozen=True, slots=True)
class SpeakerConfig:
    """The configuration of a speaker.

    Attributes:
        router_id: an IPv4 address.
        announced: prefixes that it originates; the daemon checks them.
        graceful_restart: it keeps the routes of a neighbour that restarts, and asks for the same.
    """

    asn: int
    router_id: str
    neighbors: tuple[Neighbor, ...]
    announced: tuple[str, ...] = ()
    graceful_restart: bool = False

    def __post_init__(self) -> None:
        _check_asn(self.asn)
        ipaddress.IPv4Address(self.router_id)
        addresses = [neighbor.address for neighbor in self.neighbors]
        if len(set(addresses)) < len(addresses):
            raise ArgumentError(f"a neighbour is listed twice: {', '.join(addresses)}")

    def neighbor(self, address: str) -> Neighbor:
        for neighbor in self.neighbors:
            if neighbor.address == address:
                return neighbor
        raise KeyError(f"no neighbour {address}; there are: {', '.join(n.address for n in self.neighbors) or 'none'}")

    def announcing(self, prefixes: tuple[str, ...]) -> SpeakerConfig:
        """Announce these prefixes and no others."""
        return replace(self, announced=prefixes)

    def with_prefixes(self, prefixes: Iterable[str]) -> SpeakerConfig:
        return self.announcing(tuple(dict.fromkeys((*self.announced, *prefixes))))

    def without_prefixes(self, prefixes: Iterable[str]) -> SpeakerConfig:
        withdrawn = set(prefixes)
        return self.announcing(tuple(prefix for prefix in self.announced if prefix not in withdrawn))


def _check_asn(asn: int) -> None:
    if not 1 <= asn <= _LAST_ASN:
        raise ArgumentError(f"an AS number is 1..{_LAST_ASN} (RFC 6793), not {asn}")


class SessionStatus(StrEnum):
    """States of a session (RFC 4271, 8.2.2)."""

    IDLE = "Idle"
    CONNECT = "Connect"
    ACTIVE = "Active"
    OPEN_SENT = "OpenSent"
    OPEN_CONFIRM = "OpenConfirm"
    ESTABLISHED = "Established"


class BfdStatus(StrEnum):
    """States of a BFD session (RFC 5880, 4.1)."""

    ADMIN_DOWN = "AdminDown"
    DOWN = "Down"
    INIT = "Init"
    UP = "Up"


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as its speaker sees it now. What the daemon does not report is None, never 0.

    Attributes:
        neighbor: its address.
        asn: the neighbour's configured AS number.
        uptime_s: since it was established; None while it is not.
        flaps: how often it left Established since the daemon began.
        received: prefixes of all families; None while the session is not established.
        sent: likewise. FRR sends a neighbour's own routes back to it, and counts them.
        last_error: why it went down last, in the daemon's own words; empty for none.
        bfd: None where no BFD runs.
    """

    neighbor: str
    asn: int
    status: SessionStatus
    uptime_s: float | None = None
    flaps: int | None = None
    received: int | None = None
    sent: int | None = None
    last_error: str = ""
    bfd: BfdStatus | None = None

    @property
    def established(self) -> bool:
        return self.status is SessionStatus.ESTABLISHED

    def __str__(self) -> str:
        parts = [f"{self.neighbor} (AS {self.asn}) {self.status}"]
        if self.uptime_s is not None:
            parts.append(f"for {self.uptime_s:g} s")
        if self.received is not None:
            parts.append(f"{self.received} prefixes received")
        if self.sent is not None:
            parts.append(f"{self.sent} sent")
        if self.flaps:
            parts.append(f"{self.flaps} flaps")
        if self.bfd is not None:
            parts.append(f"BFD {self.bfd}")
        if self.last_error:
            parts.append(f"last error: {self.last_error}")
        return ", ".join(parts)


SessionCondition = Callable[[SessionState], bool]


@dataclass(frozen=True, slots=True)
class SpeakerInfo:
    """A speaker's engine, for headers and evidence. ``daemons``: names of its processes."""

    engine: str
    version: str
    daemons: tuple[str, ...] = ()


# Scenario S1: BGP decides the flows of a bridge. A VM is behind the bridge, a neighbour behind the generator's port.
#
# Data is untagged on the generator's port (the flat provider network). BGP and BFD use a VLAN of the same port::
#
#     generator and BIRD -- dpdk2 -- br-ex -- vm0 -- VM
#                                      |
#                                   vlan177 -- FRR


@checked()
@dataclass(frozen=True, slots=True)
class BgpPathPlan:
    """The parameters of S1's path; change those that a test needs.

    Attributes:
        vlan: of BGP on the generator's port.
        neighbor_vlan: what the neighbour uses; None: the same.
        frr: FRR's address, with prefix length.
        bird: BIRD's, likewise.
        timers: of both sides.
        bfd: of both sides; None for none.
        graceful_restart: of both sides.
        password: TCP MD5.
        provider: network of the VM; FRR announces it.
        vm: the VM's address in it.
        clients: network behind the neighbour, which announces it.
        client: the generator's address in it.
    """

    vlan: _Tag = 177
    neighbor_vlan: _Tag | None = None
    frr: _Prefix = "12.12.12.1/30"
    bird: _Prefix = "12.12.12.2/30"
    frr_asn: int = 64999
    bird_asn: int = 65000
    timers: BgpTimers = field(default_factory=BgpTimers)
    bfd: BfdTimers | None = field(default_factory=BfdTimers)
    graceful_restart: bool = False
    password: str | None = "nfvperf"  # noqa: S105 - of a session inside one machine
    provider: _Prefix = "172.16.101.0/24"
    vm: Ip = "172.16.101.10"
    clients: _Prefix = "198.18.0.0/15"
    client: Ip = "198.18.0.1"

    @property
    def frr_address(self) -> str:
        return self.frr.partition("/")[0]

    @property
    def bird_address(self) -> str:
        return self.bird.partition("/")[0]

    def topology(self) -> Topology:
        speaker = nic(FRR, BRIDGE, self.frr, port=FRR_PORT, kind="internal", vlan=Vlan(self.vlan), mac=FRR_MAC)
        return compose(
            "bgp-path",
            endpoint(OUTSIDE, BRIDGE),
            endpoint(VM, BRIDGE, vlan=Vlan(_PROVIDER_VLAN)),
            namespace(FRR, BRIDGE)[0],
            speaker,
            behind(OUTSIDE, BIRD, self.bird, vlan=self.neighbor_vlan or self.vlan),
        )

    def traffic(self, frame_size: int | Imix = 64, **changes: Any) -> Traffic:
        """Traffic from a client to the VM, and back. BGP's routes forward each direction."""
        return Traffic(frame_size=frame_size, **{"src_ip": self.client, "dst_ip": self.vm, **changes})

    def frr_config(self) -> SpeakerConfig:
        neighbor = self._neighbor(self.bird_address, self.bird_asn)
        return SpeakerConfig(
            self.frr_asn, self.frr_address, (neighbor,), (self.provider,), graceful_restart=self.graceful_restart
        )

    def bird_config(self) -> SpeakerConfig:
        neighbor = self._neighbor(self.frr_address, self.frr_asn)
        return SpeakerConfig(
            self.bird_asn, self.bird_address, (neighbor,), (self.clients,), graceful_restart=self.graceful_restart
        )

    def _neighbor(self, address: str, asn: int) -> Neighbor:
        return Neighbor(address, asn, self.password, self.timers, self.bfd)
