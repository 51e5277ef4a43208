"""What no single key of a testbed file can be blamed for: checks that name both offenders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pytest_nfvperf.config.cabled_nodes import check_cabled_nodes, host_of
from pytest_nfvperf.config.generator_checks import check_generator
from pytest_nfvperf.config.lab_checks import check_lab, port_kind
from pytest_nfvperf.config.nodes_section import check_nodes, nodes_cpus
from pytest_nfvperf.config.speakers_section import check_speakers
from pytest_nfvperf.config.testbed_model import CpusModel, PortModel, TestbedModel
from pytest_nfvperf.config.yaml_file import Document, KeyPath, show_path
from pytest_nfvperf.model.near import did_you_mean, listed
from pytest_nfvperf.model.testbed.lab_cables import normal_pci

_END = re.compile(r"(?P<side>generator|dut)\.(?P<port>.+)")
_MAY_SHARE = {"housekeeping", "generator"}


class NumaReader(Protocol):
    """Where a CPU or a PCI device sits."""

    def cpu_node(self, cpu: int) -> int | None:
        """NUMA node of a CPU; None when it is not known or there is no such CPU."""
        ...

    def pci_node(self, pci: str) -> int | None:
        """NUMA node of a PCI device; None when it is not known or there is no such device."""
        ...

    def pci_of(self, interface: str) -> str | None:
        """PCI address of a kernel interface; None where it has none, or is not there."""
        ...


class SysfsNuma:
    """NUMA nodes as the kernel tells them."""

    def __init__(self, sysfs: Path = Path("/sys")) -> None:
        self._sysfs = sysfs

    def cpu_node(self, cpu: int) -> int | None:
        nodes = list((self._sysfs / f"devices/system/cpu/cpu{cpu}").glob("node[0-9]*"))
        return int(nodes[0].name.removeprefix("node")) if nodes else None

    def pci_node(self, pci: str) -> int | None:
        try:
            node = int((self._sysfs / f"bus/pci/devices/{pci.lower()}/numa_node").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None  # the kernel writes -1 for "not known"

    def pci_of(self, interface: str) -> str | None:
        # Behind a virtio interface there is a device of the virtio bus, and behind that the PCI device.
        device = (self._sysfs / "class/net" / interface / "device").resolve()
        return next((found for part in reversed(device.parts) if (found := normal_pci(part))), None)


def usable_cores(sysfs: Path = Path("/sys")) -> int:
    """Physical cores that this process may run on; SMT siblings are one core."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = sysfs / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        try:
            cores.add(siblings.read_text(encoding="ascii").strip())
        except OSError:  # no topology in sysfs (some containers): every CPU is its own core
            cores.add(str(cpu))
    return len(cores)


@dataclass(frozen=True)
class CpuClaim:
    """One owner's claim on CPUs, and the key it is under."""

    owner: str
    cpus: tuple[int, ...]
    path: KeyPath


def check_testbed(testbed: TestbedModel, document: Document, *, cores: int, numa: NumaReader) -> tuple[str, ...]:
    """Raise ConfigError for the first contradiction; return warnings for what is only doubtful."""
    check_cabled_nodes(testbed, document)
    _check_ports(testbed, document)
    check_lab(testbed, document, numa.pci_of)
    check_generator(testbed.generator, document)
    check_speakers(testbed.speakers, document)
    check_nodes(testbed, document)
    _check_links(testbed, document)
    return (
        *_check_cpus(testbed, document, cores),
        *_numa_warnings(testbed, numa),
        *_unlinked(testbed),
    )


def _check_ports(testbed: TestbedModel, document: Document) -> None:
    for key in ("name", "pci", "interface"):
        seen: dict[str, KeyPath] = {}
        for index, port in enumerate(testbed.dut.ports):
            value = getattr(port, key)
            path = ("dut", "ports", index, key)
            # A NIC is one port, and each of its representors another.
            same = f"{value.lower()} {port.representor}" if key == "pci" and value else value
            if key != "name" and same is not None and port.node is not None:
                same = f"{host_of(testbed, port.node)} {same}"
            if same in seen:
                raise document.error(f"{value!r} is used twice: also by {show_path(seen[same])}", path)
            if same is not None:
                seen[same] = path
    for index, port in enumerate(testbed.dut.ports):
        problem = _device_problem(port, testbed.dut.ovs.datapath)
        if problem:
            raise document.error(problem, ("dut", "ports", index))


def _device_problem(port: PortModel, datapath: str) -> str:
    if port.pci and port.interface:
        return f"port {port.name!r} has both pci {port.pci!r} and interface {port.interface!r}: keep one"
    kind = port_kind(port)
    if kind in {"pci", "interface"} and not getattr(port, kind):
        return f"port {port.name!r} is of kind {kind!r} but names no {kind}: write '{kind}: ...'"
    if kind == "vhost-user" and (port.pci or port.interface):
        return f"port {port.name!r} is of kind 'vhost-user' but names a device {(port.pci or port.interface)!r}"
    if kind == "pci" and datapath != "dpdk":
        return f"port {port.name!r} is a PCI device, but dut.ovs.datapath is {datapath!r}: write 'datapath: dpdk'"
    return ""


def _check_links(testbed: TestbedModel, document: Document) -> None:
    known = {
        "generator": [str(port) for port in testbed.generator.ports],
        "dut": [*(port.name for port in testbed.dut.ports), *(bond.name for bond in testbed.dut.bonds)],
    }
    seen: dict[str, int] = {}
    for index, link in enumerate(testbed.links):
        for position, end in enumerate(link):
            side = ("generator", "dut")[position]
            path: KeyPath = ("links", index, position)
            match = _END.fullmatch(end)
            if match is None or match["side"] != side:
                raise document.error(f"'{end}' is no {side} port: write e.g. [generator.0, dut.dpdk0]", path)
            if match["port"] not in known[side]:
                hint = did_you_mean(match["port"], known[side])
                ports = listed(known[side]) or "none"
                raise document.error(f"unknown {side} port {match['port']!r}{hint} (there are: {ports})", path)
            if end in seen:
                raise document.error(f"'{end}' is used twice: also by links[{seen[end]}]", path)
            seen[end] = index


def cpu_claims(testbed: TestbedModel) -> tuple[CpuClaim, ...]:
    """Who claims which CPUs; the same owner's two spellings are two claims."""
    claims = [CpuClaim(owner, getattr(testbed.cpus, owner), ("cpus", owner)) for owner in CpusModel.model_fields]
    claims.append(CpuClaim("pmd", testbed.dut.ovs.pmd_cpus, ("dut", "ovs", "pmd_cpus")))
    claims.append(CpuClaim("pmd", nodes_cpus(testbed), ("nodes",)))
    claims.append(CpuClaim("generator", testbed.generator.cpus, ("generator", "cpus")))
    return tuple(claim for claim in claims if claim.cpus)


def _check_cpus(testbed: TestbedModel, document: Document, cores: int) -> Iterator[str]:
    claims = cpu_claims(testbed)
    few = cores <= 2 or testbed.discovered  # what was discovered was planned for the cores there were
    for claim in claims:
        twice = sorted({cpu for cpu in claim.cpus if claim.cpus.count(cpu) > 1})
        if twice:
            raise document.error(f"CPU {twice[0]} is listed twice", claim.path)
    for index, later in enumerate(claims):
        for earlier in claims[:index]:
            both = sorted(set(later.cpus) & set(earlier.cpus))
            if later.owner == earlier.owner:
                if sorted(later.cpus) != sorted(earlier.cpus):
                    raise document.error(
                        f"{list(later.cpus)} contradicts {show_path(earlier.path)} {list(earlier.cpus)}: keep one",
                        later.path,
                    )
            elif both and {later.owner, earlier.owner} == _MAY_SHARE and few:
                yield (
                    f"CPU {both[0]} is shared by {show_path(earlier.path)} and {show_path(later.path)}: "
                    "on a machine of two cores there is no other way, but preemptions will spoil trials"
                )
            elif both:
                raise document.error(
                    f"CPU {both[0]} is given to two owners: {show_path(earlier.path)} and {show_path(later.path)}",
                    later.path,
                )


def _numa_warnings(testbed: TestbedModel, numa: NumaReader) -> Iterator[str]:
    pmds = next((claim for claim in cpu_claims(testbed) if claim.owner == "pmd"), None)
    if pmds is None:
        return
    nodes = {cpu: numa.cpu_node(cpu) for cpu in pmds.cpus}
    for port in testbed.dut.ports:
        node = numa.pci_node(port.pci) if port.pci and not host_of(testbed, port.node or "") else None
        if node is None or None in nodes.values() or node in nodes.values():
            continue
        seen = ", ".join(f"CPU {cpu} on node {there}" for cpu, there in nodes.items())
        yield (
            f"port {port.name!r} ({port.pci}) is on NUMA node {node}, but no PMD is ({seen}): "
            "every frame crosses the interconnect"
        )


def _unlinked(testbed: TestbedModel) -> Iterator[str]:
    linked = {end for link in testbed.links for end in link}
    linked |= {f"dut.{name}" for bond in testbed.dut.bonds if f"dut.{bond.name}" in linked for name in bond.members}
    linked |= {f"dut.{node.underlay}" for node in testbed.nodes.values()}
    for port in testbed.dut.ports:
        if f"dut.{port.name}" not in linked:
            yield f"port {port.name!r} is in no link: no generator port is cabled to it"
