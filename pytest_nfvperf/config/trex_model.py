"""``generator.trex`` of the testbed file: what only TRex has. docs/trex.md says what the keys mean."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, field_validator

from pytest_nfvperf.config.strict import Flag, Name, PathText, Strict, Text, as_quantity
from pytest_nfvperf.config.units import TIME, TIME_NS, shortest
from pytest_nfvperf.model.testbed.lab_cables import normal_pci
from pytest_nfvperf.model.testbed.testbed import TrexRoute, TrexSpec, TrexStart

TREX_DUMMY = "dummy"
"""An interface that is none, to make a pair."""
_LONGEST_DELAY_S = 60.0

TcpPort = Annotated[int, Field(strict=True, ge=1, le=65535)]
PortNumber = Annotated[int, Field(strict=True, ge=0)]
Seconds = Annotated[
    float,
    as_quantity(TIME),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.eE+]+ ?(ns|us|ms|s|min|h)$", "examples": ["500 ms"]}),
]


class TrexRouteModel(Strict):
    """One entry of ``generator.trex.routes``: ask by ARP for the MAC that a port sends to."""

    port: PortNumber = Field(description="TRex port number", examples=[0])
    source: Text = Field(description="IPv4 address of the TRex port", examples=["10.0.0.2"])
    gateway: Text = Field(description="IPv4 address of the DUT on that link", examples=["10.0.0.1"])
    vlan: Annotated[int, Field(strict=True, ge=1, le=4094)] | None = Field(default=None, description="802.1Q tag")

    @field_validator("source", "gateway")
    @classmethod
    def _address(cls, value: str) -> str:
        try:
            return str(ipaddress.IPv4Address(value))
        except ValueError:
            raise ValueError(f"'{value}' is not an IPv4 address: write e.g. '10.0.0.1'") from None


class TrexStartModel(Strict):
    """``generator.trex.start``: a server that we start on this machine."""

    path: PathText = Field(description="where TRex is installed; t-rex-64 lies there", examples=["/opt/trex/v3.06"])
    interfaces: Annotated[tuple[Text, ...], Field(min_length=2)] = Field(
        description="one for each port, an even number: kernel interfaces, memif ids or PCI addresses",
        examples=[["veth0", "veth1"]],
    )
    driver: Literal["af_packet", "memif", "pci"] = Field(default="af_packet", description="how TRex reaches them")
    low_end: Flag = Field(default=False, description="share cores: for machines with fewer than three")
    netns: Name | None = Field(default=None, description="network namespace to run it in", examples=["tgen"])

    @field_validator("interfaces")
    @classmethod
    def _pairs(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) % 2:
            raise ValueError(f"TRex takes ports in pairs, not {len(value)}: add an interface, or 'dummy'")
        return tuple(normal_pci(name) or name for name in value)


class TrexModel(Strict):
    """``generator.trex``."""

    rx_delay: Seconds | None = Field(
        default=None, description="how long frames may be under way before they count as lost", examples=["500 ms"]
    )
    rpc_port: TcpPort = Field(default=TrexSpec().rpc_port, description="TCP port that takes requests")
    event_port: TcpPort = Field(default=TrexSpec().event_port, description="TCP port that publishes events")
    routes: tuple[TrexRouteModel, ...] = Field(default=(), description="ports that ask for their gateway by ARP")
    start: TrexStartModel | None = Field(default=None, description="start TRex on this machine")

    @field_validator("rx_delay")
    @classmethod
    def _sane_delay(cls, value: float | None) -> float | None:
        if value is not None and not 0 < value <= _LONGEST_DELAY_S:
            raise ValueError(f"{value:g} s is outside 0..{_LONGEST_DELAY_S:g} s: write e.g. '500 ms'")
        return value


def trex_spec(model: TrexModel | None) -> TrexSpec:
    """The section as data; defaults where it is left out."""
    if model is None:
        return TrexSpec()
    start = model.start
    return TrexSpec(
        rx_delay_s=TrexSpec().rx_delay_s if model.rx_delay is None else model.rx_delay,
        rpc_port=model.rpc_port,
        event_port=model.event_port,
        routes=tuple(TrexRoute(route.port, route.source, route.gateway, route.vlan) for route in model.routes),
        start=None
        if start is None
        else TrexStart(start.path, start.interfaces, start.driver, start.low_end, start.netns),
    )


def trex_section(spec: TrexSpec) -> dict[str, Any] | None:
    """The section that reads back to ``spec``; None when there is nothing to say."""
    plain = TrexSpec()
    section: dict[str, Any] = {}
    if spec.rx_delay_s != plain.rx_delay_s:
        section["rx_delay"] = shortest(spec.rx_delay_s * 1e9, TIME_NS)
    section |= {
        key: getattr(spec, key) for key in ("rpc_port", "event_port") if getattr(spec, key) != getattr(plain, key)
    }
    if spec.routes:
        section["routes"] = [_route(route) for route in spec.routes]
    if spec.start is not None:
        section["start"] = _start(spec.start)
    return section or None


def _route(route: TrexRoute) -> dict[str, Any]:
    tag = {} if route.vlan is None else {"vlan": route.vlan}
    return {"port": route.port, "source": route.source, "gateway": route.gateway, **tag}


def _start(start: TrexStart) -> dict[str, Any]:
    section: dict[str, Any] = {"path": start.path, "interfaces": list(start.interfaces), "driver": start.driver}
    if start.low_end:
        section["low_end"] = True
    if start.netns is not None:
        section["netns"] = start.netns
    return section
