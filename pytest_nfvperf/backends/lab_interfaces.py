"""What a lab needs beside an embedded testbed: interfaces that are borrowed, cables, the system's OVS."""

from __future__ import annotations

from pytest_nfvperf.adapters.host.nic import nic_labels
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.net.borrowed import Borrowed, check_free
from pytest_nfvperf.adapters.ovs.instance.system_sockets import find_system
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.sla.rules import ON_OR_OFF
from pytest_nfvperf.model.testbed.lab_cables import cabled_ends, is_lab, is_pci
from pytest_nfvperf.model.testbed.testbed import DutPort, Testbed


class Lab:
    """A testbed whose ports are cabled, or whose OVS is the system's."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._borrowed: Borrowed | None = None

    @property
    def pci(self) -> tuple[str, ...]:
        """NICs that the embedded generator takes."""
        return tuple(device for device in self._testbed.generator.devices if is_pci(device))

    def check(self) -> None:
        """Look for all that the file names, before anything is touched.

        Raises:
            ConfigError: an interface that is not there or that somebody needs, or a generator without devices.
            TestbedError: the system's OVS does not run.
        """
        generator = self._testbed.generator
        linked = [end for end in cabled_ends(self._testbed) if end.generator_port is not None]
        if linked and generator.engine == "embedded" and not generator.devices:
            raise ConfigError(
                f"port {linked[0].name!r} is cabled, and the embedded generator has no device to send by: write e.g. "
                "'devices: [ens2f0, ens2f1]' (kernel interfaces or PCI addresses), or 'engine: trex'",
                key="generator.devices",
            )
        if self._testbed.ovs.instance == "system":
            find_system(self._testbed.ovs.run_dir)
        for port in self._testbed.ports:
            if port.interface is not None:
                check_free(port.interface, f"port {port.name!r}", "dut.ports")
        for device, who in self._generator_interfaces():
            check_free(device, who, "generator.devices")

    def borrow(self, journal: Journal) -> None:
        """Take the generator's kernel interfaces: up, quiet; those that were taken before stay."""
        self._borrowed = self._borrowed or Borrowed(journal)
        for device, who in self._generator_interfaces():
            self._borrowed.take(device, who, key="generator.devices")

    def _generator_interfaces(self) -> list[tuple[str, str]]:
        """Each kernel interface of the generator, and what it is called in messages."""
        numbered = zip(self._testbed.generator.ports, self._testbed.generator.devices, strict=False)
        return [(device, f"port {number} of the generator") for number, device in numbered if not is_pci(device)]

    def give_back(self) -> None:
        """Put the generator's interfaces back as they were. Can be called twice."""
        if self._borrowed is not None:
            self._borrowed.close()
            self._borrowed = None

    def describe(self) -> list[str]:
        """Every cable, for the header."""
        return [
            f"generator.{end.generator_port} ({_far(end.device)}) - {end.name} ({', '.join(map(_near, end.members))})"
            for end in cabled_ends(self._testbed)
            if end.generator_port is not None
        ]


def lab_labels(testbed: Testbed) -> dict[str, str]:
    """What SLA selectors know a lab by, beside datapath and engine: its NICs, and whether flows shall be in them."""
    if not is_lab(testbed) and not testbed.ovs.hw_offload:
        return {}
    return {**nic_labels(testbed), "offload": ON_OR_OFF[testbed.ovs.hw_offload]}


def _near(port: DutPort) -> str:
    name = port.pci or port.interface or port.name
    return name if port.representor is None else f"{name} representor {port.representor}"


def _far(device: str | None) -> str:
    return (device or "by number").removeprefix("net_af_packet,iface=")
