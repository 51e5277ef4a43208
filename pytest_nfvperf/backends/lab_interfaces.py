"""The parts that only a lab has: cables, the system's OVS, interfaces that the generator borrows."""

from __future__ import annotations

from pytest_nfvperf.adapters.host.nic import nic_labels, pci_address
from pytest_nfvperf.adapters.host.nic_binding import check_dpdk_device, check_nics
from pytest_nfvperf.adapters.net.borrowed_interfaces import BorrowedInterfaces, check_free
from pytest_nfvperf.adapters.ovs.system_ovs import find_system
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.sla.rules import ON_OR_OFF
from pytest_nfvperf.model.testbed.lab_cables import cabled_ends, has_cabled_nodes, is_lab, is_pci, ports_here
from pytest_nfvperf.model.testbed.testbed import Dut, DutPort, Testbed


def check_dut(testbed: Testbed) -> None:
    """Check that the DUT's parts in the testbed file exist, before anything is touched.

    Raises:
        ConfigError: an interface or a PCI device does not exist, is in use, or is not as DPDK needs it.
        TestbedError: the system's OVS does not run.
    """
    if testbed.ovs.instance == "system":
        find_system(testbed.ovs.run_dir)
    check_nics(testbed.nics)
    here = ports_here(testbed)
    for number, port in enumerate(testbed.ports):
        if port in here and port.interface is not None:
            check_free(port.interface, f"port {port.name!r}", f"dut.ports[{number}].interface")
        if port in here and port.pci is not None:
            check_dpdk_device(port.pci, f"port {port.name!r}", f"dut.ports[{number}].pci", testbed.nics)


def cables_text(testbed: Testbed) -> list[str]:
    """Every cable of a generator's port, for the header; none where ports are made as needed."""

    def member(port: DutPort) -> str:
        name = port.pci or port.interface or port.name
        return name if port.representor is None else f"{name} representor {port.representor}"

    return [
        f"generator.{end.generator_port} ({(end.device or 'by number').removeprefix('net_af_packet,iface=')}) - "
        f"{end.name} ({', '.join(map(member, end.members))})"
        for end in cabled_ends(testbed)
        if end.generator_port is not None
    ]


class GeneratorInterfaces:
    """The embedded generator's interfaces in a lab: kernel interfaces that it borrows, and NICs of its own."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._borrowed: BorrowedInterfaces | None = None

    @property
    def pci(self) -> tuple[str, ...]:
        """Addresses of its NICs. TestbedError if one is a VF that is not made yet."""
        return tuple(pci_address(device) for device in self._testbed.generator.devices if is_pci(device))

    def check(self) -> None:
        """Check that the interfaces of the testbed file exist, before anything is touched.

        Raises:
            ConfigError: an interface does not exist or is in use, or a cable has no device.
        """
        linked = [end for end in cabled_ends(self._testbed) if end.generator_port is not None]
        if linked and not self._testbed.generator.devices:
            raise ConfigError(
                f"port {linked[0].name!r} is cabled, and the embedded generator has no device to send by: write e.g. "
                "'devices: [ens2f0, ens2f1]' (kernel interfaces or PCI addresses), or 'engine: trex'",
                key="generator.devices",
            )
        for device, who in self._in_the_kernel():
            check_free(device, who, "generator.devices")
        for number, device in enumerate(self._testbed.generator.devices):
            if is_pci(device):
                check_dpdk_device(
                    device, f"generator device {number}", f"generator.devices[{number}]", self._testbed.nics
                )

    def borrow(self, journal: Journal) -> None:
        """Take the kernel interfaces: up, and without other traffic. Those taken before stay taken."""
        self._borrowed = self._borrowed or BorrowedInterfaces(journal)
        for device, who in self._in_the_kernel():
            self._borrowed.take(device, who, key="generator.devices")

    def give_back(self) -> None:
        if self._borrowed is not None:
            self._borrowed.close()
            self._borrowed = None

    def _in_the_kernel(self) -> list[tuple[str, str]]:
        """Each kernel interface, and its name in messages."""
        numbered = zip(self._testbed.generator.ports, self._testbed.generator.devices, strict=False)
        return [(device, f"port {number} of the generator") for number, device in numbered if not is_pci(device)]


def lab_labels(testbed: Testbed) -> dict[str, str]:
    """Further labels of a lab for SLA selectors: its NICs, and whether flows shall be offloaded to them."""
    if not is_lab(testbed) and not testbed.ovs.hw_offload:
        return {}
    return {**nic_labels(testbed), "offload": ON_OR_OFF[testbed.ovs.hw_offload]}


def lacks_cabled(testbed: Testbed, dut: Dut) -> str | None:
    """Why a topology with these nodes cannot be on a testbed with cables; None where it can, or there are no cables."""
    if not has_cabled_nodes(testbed):
        return None
    names = [node.name for node in testbed.nodes]
    if not dut.nodes:
        return f"the ports of this testbed are on its nodes, {', '.join(names)}: deploy a topology with these nodes"
    missing = next((name for name in names if name not in dut.nodes), None)
    return missing and f"the testbed file has node {missing!r}, and the topology has not: leave it out of 'nodes'"
