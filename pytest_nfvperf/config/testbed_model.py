"""The testbed file as pydantic reads it. The pages on the testbed file, TRex and BGP say what the keys mean."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator

from pytest_nfvperf.config.units import BIT_RATE, SIZE, TIME, TIME_NS, shortest
from pytest_nfvperf.config.validate import Count, Flag, Name, PathText, Strict, Text, as_quantity
from pytest_nfvperf.config.yaml_file import Document
from pytest_nfvperf.model.arguments import expanded
from pytest_nfvperf.model.testbed.lab_cables import normal_pci
from pytest_nfvperf.model.testbed.ovs_settings import VERSION_NAME
from pytest_nfvperf.model.testbed.testbed import LabSpeaker, TrexRoute, TrexSpec, TrexStart
from pytest_nfvperf.model.topology.links import NODE_NAME

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
        routes=tuple(TrexRoute(**dict(route)) for route in model.routes),
        start=None if start is None else TrexStart(**dict(start)),
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
        section["routes"] = [
            {
                "port": route.port,
                "source": route.source,
                "gateway": route.gateway,
                **({} if route.vlan is None else {"vlan": route.vlan}),
            }
            for route in spec.routes
        ]
    if spec.start is not None:
        section["start"] = _start(spec.start)
    return section or None


def _start(start: TrexStart) -> dict[str, Any]:
    section: dict[str, Any] = {"path": start.path, "interfaces": list(start.interfaces), "driver": start.driver}
    if start.low_end:
        section["low_end"] = True
    if start.netns is not None:
        section["netns"] = start.netns
    return section


# Section ``speakers``: routing daemons that run already.


class SpeakerModel(Strict):
    """One entry of ``speakers``."""

    name: Name = Field(description="what tests and reports call it", examples=["dut"])
    engine: Literal["frr", "bird"] = Field(description="which daemon it is")
    socket: PathText = Field(
        description="frr: the directory of its *.vty sockets; bird: its control socket",
        examples=["/run/frr", "/run/bird/bird.ctl"],
    )
    announces: dict[Text, Text] = Field(
        default_factory=dict,
        description="bird: static protocols of its configuration, by the prefix that each has",
        examples=[{"198.18.0.0/15": "clients"}],
    )

    @field_validator("announces")
    @classmethod
    def _prefixes(cls, value: dict[str, str]) -> dict[str, str]:
        for prefix in value:
            try:
                ipaddress.ip_network(prefix)
            except ValueError as error:
                raise ValueError(f"{prefix!r} is not a prefix: {error}") from None
        return value


def check_speakers(speakers: Sequence[SpeakerModel], document: Document) -> None:
    """ConfigError for a name that is used twice, and for prefixes of an FRR, which needs none to be named."""
    names = [speaker.name for speaker in speakers]
    for index, speaker in enumerate(speakers):
        if speaker.name in names[:index]:
            raise document.error(f"{speaker.name!r} is used twice", ("speakers", index, "name"))
        if speaker.announces and speaker.engine == "frr":
            raise document.error(
                "FRR announces what it is asked to: leave 'announces' out", ("speakers", index, "announces")
            )


def to_speakers(models: Sequence[SpeakerModel]) -> tuple[LabSpeaker, ...]:
    """The section as data."""
    return tuple(LabSpeaker(one.name, one.engine, one.socket, tuple(one.announces.items())) for one in models)


def speakers_section(speakers: Sequence[LabSpeaker]) -> list[dict[str, Any]] | None:
    """The section that reads back to ``speakers``; None when there are none."""
    return [
        {
            "name": speaker.name,
            "engine": speaker.engine,
            "socket": speaker.socket,
            **({"announces": dict(speaker.announces)} if speaker.announces else {}),
        }
        for speaker in speakers
    ] or None


# The whole file, from its smallest parts to ``TestbedModel``.


_REPRESENTOR = re.compile(r"(c\d+)?(pf\d+)?(vf|sf)?\d+", re.ASCII)
_MIB = 1 << 20


def _number_list(what: str, example: str) -> BeforeValidator:
    """Reads ``[2, 3]`` as it is, and ``"2-5,8"`` as the kernel writes CPU lists."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        numbers: list[int] = []
        for part in value.split(","):
            match = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part, re.ASCII)
            if match is None:
                raise ValueError(f"'{value}' is not a list of {what}: write {example}")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                raise ValueError(f"'{part.strip()}' runs backwards: write '{last}-{first}'")
            numbers += range(first, last + 1)
        return numbers

    return BeforeValidator(read)


def _scalar_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Cpu = Annotated[int, Field(strict=True, ge=0, le=8191)]


def _numbers_schema(minimum: int, examples: list[Any]) -> WithJsonSchema:
    ranges = r"^\s*\d+(-\d+)?(\s*,\s*\d+(-\d+)?)*\s*$"
    numbers = {"type": "array", "items": {"type": "integer", "minimum": minimum}}
    return WithJsonSchema({"anyOf": [numbers, {"type": "string", "pattern": ranges}], "examples": examples})


Cpus = Annotated[tuple[Cpu, ...], _number_list("CPUs", "[2, 3] or '2-5,8'"), _numbers_schema(0, [[2, 3], "2-5,8"])]
Ports = Annotated[
    tuple[TcpPort, ...],
    _number_list("ports", "[5201, 5202] or '5201-5264'"),
    _numbers_schema(1, ["5201-5264", [5201, 5202]]),
]
VersionName = Annotated[str, Field(pattern=VERSION_NAME)]
NodeName = Annotated[str, Field(pattern=f"^{NODE_NAME}$")]
BitRate = Annotated[
    float,
    as_quantity(BIT_RATE),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.eE+]+ ?[kMGT]?bps$", "examples": ["100 Gbps"]}),
]
Size = Annotated[
    float,
    as_quantity(SIZE),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.eE+]+ ?([KMG]iB|bytes)$", "examples": ["1024 MiB"]}),
]
ConfigText = Annotated[str, BeforeValidator(_scalar_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]


class TuningModel(Strict):
    """``dut.ovs.tuning``: of the userspace datapath; what is left out is OVS's own."""

    emc_insert_inv_prob: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        default=None, description="one of so many new flows enters the exact-match cache; 0: none", examples=[100]
    )
    smc: Flag | None = Field(default=None, description="signature-match cache (smc-enable)")
    tx_flush_interval_us: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | None = Field(
        default=None, description="how long frames may wait for a batch to fill, us (tx-flush-interval)"
    )
    rxq_assign: Literal["cycles", "roundrobin", "group"] | None = Field(
        default=None, description="how receive queues are dealt out to PMD threads (pmd-rxq-assign)"
    )
    auto_lb: Flag | None = Field(default=None, description="move queues of unequally busy PMD threads (pmd-auto-lb)")
    pmd_sleep_max_us: Annotated[int, Field(strict=True, ge=0, le=10_000)] | None = Field(
        default=None, description="how long an idle PMD thread may sleep, us (pmd-sleep-max)", examples=[50]
    )
    rxq: Count | None = Field(default=None, description="receive queues of each port")
    rxq_affinity: dict[Name, Text] = Field(
        default_factory=dict, description="CPUs of a port's queues", examples=[{"dpdk0": "0:3,1:5"}]
    )


class OvsModel(Strict):
    """``dut.ovs``: how to get the DUT's OVS."""

    instance: Literal["private", "system"] = Field(
        default="private", description="private: ours; system: used as it runs"
    )
    prefix: PathText | None = Field(
        default=None,
        description="prefix or root of an OVS installation, or a name of `nfvperf ovs list`; else the distribution's",
        examples=["/opt/ovs-3.3.4", "debian:trixie"],
    )
    datapath: Literal["dpdk", "netdev", "system"] = Field(
        default="dpdk", description="netdev: userspace without DPDK; system: kernel"
    )
    pmd_cpus: Cpus = Field(default=(), description="CPUs of the poll-mode threads")
    other_config: dict[Text, ConfigText] = Field(
        default_factory=dict, description="Open_vSwitch other_config, added to ours"
    )
    run_dir: PathText | None = Field(
        default=None, description="of a system instance: where its sockets are", examples=["/run/openvswitch"]
    )
    hw_offload: Flag = Field(default=False, description="flows shall be in the NIC (other_config:hw-offload)")
    tc_policy: Literal["none", "skip_sw", "skip_hw"] | None = Field(
        default=None, description="other_config:tc-policy, OVS's own without"
    )
    tuning: TuningModel | None = Field(default=None, description="of the userspace datapath")


class PortModel(Strict):
    """One entry of ``dut.ports``."""

    name: Name = Field(description="name of the port in OVS", examples=["dpdk0"])
    kind: Literal["vhost-user", "pci", "interface"] | None = Field(
        default=None, description="follows from pci or interface; vhost-user without"
    )
    pci: Text | None = Field(
        default=None, description="PCI address, of domain 0 without one", examples=["0000:3b:00.0"]
    )
    interface: Text | None = Field(default=None, description="kernel interface", examples=["ens1f0"])
    rxq: Count = Field(default=1, description="receive queues")
    rx_descriptors: Count | None = Field(
        default=None, description="receive ring, a power of 2 up to 4096", examples=[2048]
    )
    tx_descriptors: Count | None = Field(
        default=None, description="transmit ring, a power of 2 up to 4096", examples=[2048]
    )
    mtu: Annotated[int, Field(strict=True, ge=68, le=9702)] | None = Field(
        default=None, description="bytes without Ethernet header and FCS", examples=[1500]
    )
    line_rate: BitRate | None = Field(default=None, description="layer-1 bit rate", examples=["100 Gbps"])
    driver: Literal["kernel", "af_packet", "af_xdp"] | None = Field(
        default=None, description="how OVS reads an interface; af_packet on datapath dpdk, else kernel"
    )
    representor: Annotated[str, BeforeValidator(_scalar_text)] | None = Field(
        default=None, description="of a PCI device: 0, vf2, pf0vf1, sf3", examples=["vf0"]
    )
    model: Text | None = Field(
        default=None, description="the NIC's name in SLA selectors and reports", examples=["ConnectX-6 Dx"]
    )
    node: NodeName | None = Field(default=None, description="the node that has it", examples=["node1"])

    @field_validator("representor")
    @classmethod
    def _one_representor(cls, value: str | None) -> str | None:
        if value is None or _REPRESENTOR.fullmatch(value):
            return value
        raise ValueError(f"'{value}' is not one representor: write e.g. 0, vf2, pf0vf1 or sf3, and a port for each")

    @field_validator("pci")
    @classmethod
    def _pci_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        address = normal_pci(value)
        if address is None:
            raise ValueError(f"'{value}' is not a PCI address (domain:bus:device.function): write e.g. '0000:3b:00.0'")
        return address

    @field_validator("rx_descriptors", "tx_descriptors")
    @classmethod
    def _ring_size(cls, value: int | None) -> int | None:
        if value is not None and (value > 4096 or value & (value - 1)):
            raise ValueError(f"{value} is not a ring size: OVS takes powers of 2 from 1 to 4096, e.g. 2048")
        return value


class BondModel(Strict):
    """One entry of ``dut.bonds``."""

    name: Name = Field(description="name of the bond in OVS", examples=["bond0"])
    members: tuple[Text, ...] = Field(description="names of dut.ports, two or more", examples=[["dpdk0", "dpdk1"]])
    mode: Literal["active-backup", "balance-slb", "balance-tcp"] = Field(default="active-backup")
    lacp: Literal["off", "active", "passive"] = Field(default="off")


class DutModel(Strict):
    """``dut``: what is measured."""

    ovs: OvsModel = Field(default_factory=OvsModel)
    ports: tuple[PortModel, ...] = Field(default=(), description="ports that generator ports are cabled to")
    bonds: tuple[BondModel, ...] = Field(default=(), description="ports that are one port of the bridge")


class GeneratorModel(Strict):
    """``generator``: what sends and receives."""

    engine: Literal["embedded", "trex", "replay"] = Field(
        default="embedded", description="replay: answers with a recording, without any hardware"
    )
    server: Text | None = Field(default=None, description="host of the TRex server", examples=["tgen1"])
    client: PathText | None = Field(
        default=None, description="directory of the TRex client", examples=["/opt/trex/v3.06"]
    )
    ports: tuple[Annotated[int, Field(strict=True, ge=0)], ...] = Field(
        default=(0, 1), description="the engine's port numbers"
    )
    force: Flag = Field(default=False, description="take TRex ports that someone else holds")
    devices: tuple[Text, ...] = Field(
        default=(),
        description="of the embedded engine: a kernel interface or PCI address for each of ports",
        examples=[["ens2f0", "ens2f1"]],
    )
    cpus: Cpus = Field(default=(), description="CPUs of the embedded generator's polling threads")
    recording: PathText | None = Field(
        default=None, description="what engine 'replay' answers with; relative to this file", examples=["bug.jsonl"]
    )
    trex: TrexModel | None = Field(default=None, description="what only TRex has")

    @field_validator("devices")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(normal_pci(device) or device for device in value)

    @field_validator("engine", mode="before")
    @classmethod
    def _of_frames(cls, value: Any) -> Any:
        if value != "iperf3":
            return value
        raise ValueError(
            "iperf3 sends streams, whose load is their own: it cannot search for loss. Write it as "
            "'streams: {engine: iperf3}', and here embedded, trex or replay for frames"
        )


class CpusModel(Strict):
    """``cpus``: which CPU belongs to whom. Planned from the machine where it is not given."""

    housekeeping: Cpus = Field(default=(), description="pytest, OVS's main thread, all that does not poll")
    pmd: Cpus = Field(default=(), description="as dut.ovs.pmd_cpus")
    generator: Cpus = Field(default=(), description="as generator.cpus")
    vnf: Cpus = Field(default=(), description="VNFs that are processes, one a VNF")


class VnfModel(Strict):
    """``vnf``: what runs VNFs that do not say it themselves."""

    kind: Literal["loop", "testpmd", "qemu"] | None = Field(
        default=None, description="testpmd where each VNF has a CPU of its own, else loop"
    )


class StreamsModel(Strict):
    """``streams``: what sends TCP and UDP between namespaces."""

    engine: Literal["iperf3"] = Field(default="iperf3")
    path: PathText | None = Field(
        default=None, description="of its program, relative to this file; else looked for", examples=["/opt/bin/iperf3"]
    )
    ports: Ports = Field(default=(), description="of which a server takes the first that is free; else 5201-5264")
    client_cpus: Cpus = Field(default=(), description="CPUs of the end that connects; else all of the testbed's")
    server_cpus: Cpus = Field(default=(), description="CPUs of the end that listens; else all of the testbed's")


class NodeModel(Strict):
    """One entry of ``nodes``: what is left out is as in ``dut.ovs``."""

    ovs: VersionName | None = Field(default=None, description="a name of the file's section ovs", examples=["old"])
    datapath: Literal["dpdk", "netdev", "system"] | None = None
    cpus: Cpus = Field(default=(), description="CPUs of its poll-mode threads; of all nodes, or of none")
    tuning: TuningModel | None = Field(default=None, description="stronger than dut.ovs.tuning")
    underlay: Text | None = Field(
        default=None, description="the port of dut.ports whose cable leads to the other nodes", examples=["up1"]
    )
    ssh: Annotated[str, Field(pattern=r"^[^\s/-][^\s/]*$")] | None = Field(
        default=None, description="the host that it is on, as ssh knows it; else this machine", examples=["root@dut2"]
    )
    python: Annotated[str, Field(pattern=r"^[^\s]+$")] | None = Field(
        default=None,
        description="interpreter there that has this package; else python3",
        examples=["/opt/nfv/bin/python"],
    )
    ssh_config: Annotated[str, Field(pattern=r"^[^\s]+$"), AfterValidator(expanded)] | None = Field(
        default=None, description="file for ssh -F, relative to this file; else the user's own", examples=["lab.ssh"]
    )


class UnderlayModel(Strict):
    """``underlay``: what joins nodes."""

    line_rate: Annotated[BitRate, Field(gt=0)] | None = Field(
        default=None, description="layer-1 bit rate: no more is offered than it carries", examples=["10 Gbps"]
    )


class TestbedModel(Strict):
    """A testbed file."""

    __test__ = False
    model_config = ConfigDict(title="pytest_nfvperf testbed file")

    schema_: Annotated[Literal[1], Field(alias="schema", description="version of this format", examples=[1])]
    name: Annotated[
        str,
        Field(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]+$", max_length=100, examples=["r650-cx6"]),
    ]
    dut: DutModel = Field(default_factory=DutModel)
    generator: GeneratorModel = Field(default_factory=GeneratorModel)
    links: tuple[tuple[Text, Text], ...] = Field(
        default=(), description="cables: [generator.PORT, dut.NAME]", examples=[[["generator.0", "dut.dpdk0"]]]
    )
    cpus: CpusModel = Field(default_factory=CpusModel)
    vnf: VnfModel = Field(default_factory=VnfModel)
    streams: StreamsModel = Field(default_factory=StreamsModel)
    speakers: tuple[SpeakerModel, ...] = Field(default=(), description="routing daemons that run already")
    ovs: dict[VersionName, PathText] = Field(
        default_factory=dict,
        description="more versions of Open vSwitch, for tests that ask for one by name: a prefix or root, relative to "
        "this file, 'installed', or a name of `nfvperf ovs list`",
        examples=[{"old": "debian:bullseye", "new": "/opt/ovs-3.3.4"}],
    )
    nodes: dict[NodeName, NodeModel] = Field(
        default_factory=dict, description="of topologies with several nodes: what each node is, by its name"
    )
    underlay: UnderlayModel = Field(default_factory=UnderlayModel)
    hugepages: Size | None = Field(default=None, description="hugepage memory of the run", examples=["1024 MiB"])
    discovered: Flag = Field(default=False, description="written by the tool for a testbed found without a file")

    @field_validator("schema_", mode="before")
    @classmethod
    def _known_version(cls, value: Any) -> Any:
        if value is not True and value == 1:
            return value
        raise ValueError(f"this is schema {value!r}, but only schema 1 is known: write 'schema: 1'")

    @field_validator("hugepages")
    @classmethod
    def _whole_mib(cls, value: float | None) -> float | None:
        if value is not None and value % _MIB:
            raise ValueError(f"{value:g} bytes is not a whole number of MiB: write e.g. '1024 MiB'")
        return value
