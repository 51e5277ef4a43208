"""The testbed as data: what a testbed file says, or what was discovered without one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """Which CPU belongs to whom. CPU numbers as the kernel counts them.

    ``housekeeping``: pytest, OVS's main thread, handlers, everything that does not poll.
    ``pmd``: OVS poll-mode threads. ``generator``: polling threads of the embedded generator.
    ``vnf``: testpmd VNFs, empty when VNFs run inside the generator's loop.
    On machines of two cores housekeeping and generator share one.
    """

    housekeeping: tuple[int, ...]
    pmd: tuple[int, ...]
    generator: tuple[int, ...]
    vnf: tuple[int, ...] = ()

    @property
    def shared(self) -> tuple[int, ...]:
        """CPUs with more than one owner."""
        owners = [self.housekeeping, self.pmd, self.generator, self.vnf]
        cpus = [cpu for owner in owners for cpu in owner]
        return tuple(sorted({cpu for cpu in cpus if cpus.count(cpu) > 1}))


@dataclass(frozen=True, slots=True)
class OvsSpec:
    """How to get the DUT's OVS.

    ``instance``: "private" (ours, started and removed) or "system" (used as is).
    ``prefix``: root of an installation (``/opt/ovs-3.3.4``), None for the distribution's package.
    ``datapath``: "dpdk", "netdev" (userspace without DPDK) or "system" (kernel module).
    ``other_config``: Open_vSwitch other_config keys added to ours.
    """

    instance: str = "private"
    prefix: str | None = None
    datapath: str = "dpdk"
    other_config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DutPort:
    """A port of the DUT that a generator port is cabled to.

    ``kind``: "vhost-user" (embedded), "pci" or "interface". ``pci``/``interface`` name the device.
    ``line_rate_bps``: layer-1 bit/s; None for a port that has none (vhost-user).
    """

    name: str
    kind: str
    pci: str | None = None
    interface: str | None = None
    rxq: int = 1
    rx_descriptors: int | None = None
    tx_descriptors: int | None = None
    mtu: int | None = None
    line_rate_bps: float | None = None


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """Which generator, and where. ``engine``: "embedded" or "trex"."""

    engine: str = "embedded"
    server: str | None = None
    client: str | None = None
    ports: tuple[int, ...] = (0, 1)
    force: bool = False


@dataclass(frozen=True, slots=True)
class CableSpec:
    """One cable: generator port ``generator`` to DUT port ``dut`` (names)."""

    generator: str
    dut: str


@dataclass(frozen=True, slots=True)
class Dut:
    """Which datapath a topology stands on, where a suite compares several.

    ``kind``: "dpdk", "netdev", "system", "linux-bridge"; None for the testbed's own.
    ``userspace_tso``: segmentation offload in OVS's userspace datapath (``userspace-tso-enable``,
    ovs-vswitchd.conf.db(5)), which OVS reads at its start only.
    """

    kind: str | None = None
    userspace_tso: bool = False


TESTBEDS_OWN = Dut()
"""The datapath that the testbed names."""


@dataclass(frozen=True, slots=True)
class Testbed:
    """A whole testbed.

    ``discovered`` is True for the embedded testbed that was found without a file.
    """

    __test__ = False

    name: str
    ovs: OvsSpec
    cpus: CpuPlan
    ports: tuple[DutPort, ...]
    generator: GeneratorSpec
    links: tuple[CableSpec, ...]
    hugepages_mib: int = 0
    discovered: bool = False
