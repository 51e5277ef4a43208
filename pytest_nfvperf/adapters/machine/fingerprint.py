"""The facts that must be equal for two measurements to be compared (How we measure, rule 9), as plain JSON.

What cannot be read is absent, never a guess. Top-level keys:

``os``, ``kernel``, ``kernel_command_line``, ``hypervisor``, ``cpu_model``, ``cpu_mhz_max``, ``smt``,
``cpus`` (online), ``isolated_cpus``, ``governor`` (by CPU), ``cpu_plan``, ``vnf_kind``, ``numa`` (CPU to node),
``hugepages_mib``, ``memory_mib``, ``time`` ("wall" or "virtual"), ``nodes``, ``underlay_line_rate_bps``, ``ovs``,
``ovs_versions``, ``dpdk``, ``ports``, ``generator``, ``python``, ``nfvperf``; and of a running DUT ``rxq_to_pmd`` and
``other_config``. At its end a run adds ``cpu_bands``, which need not be equal: how close generator and DUT were
(session/run.py).
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest_nfvperf
from pytest_nfvperf.adapters.host.cpus import isolated_cpus, parse_cpu_list, read_cpus
from pytest_nfvperf.adapters.host.hugepages import read_hugepages
from pytest_nfvperf.adapters.host.nic import read_fact, read_nic
from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.model.errors import ConfigError, NfvperfError
from pytest_nfvperf.model.evidence.records import plain
from pytest_nfvperf.model.measure.cpu_profile import VIRTUAL, WALL
from pytest_nfvperf.model.testbed.lab_cables import ports_here
from pytest_nfvperf.model.testbed.ovs_settings import OVS, NamedOvs, versioned_as
from pytest_nfvperf.model.testbed.testbed import TESTPMD, DutPort, Testbed
from pytest_nfvperf.ports.generator import SENDING

_SYS = Path("/sys")
_PCI_FACTS = ("vendor", "device", "subsystem_vendor", "subsystem_device", "current_link_speed")
_RXQ = re.compile(r"port: (?P<port>\S+)\s+queue-id:\s+(?P<queue>\d+)")
_PMD = re.compile(r"core_id (?P<core>\d+)")


def fingerprint(testbed: Testbed, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fingerprint of this machine and of the testbed's plan, ports and OVS on it.

    ``extra``: facts that only a running DUT or generator knows, for the top level (``running_facts``; the generator's
    version and compiler).
    """
    facts = {**_machine(), **_cpu_facts(), **_testbed_facts(testbed), **_ovs_facts(testbed), **dict(extra or {})}
    return {name: plain(value) for name, value in sorted(facts.items()) if value not in (None, "", {})}


def running_facts(pmd_rxq_show: str, other_config: Mapping[str, str]) -> dict[str, Any]:
    """Which PMD polls which queue, and ``other_config`` without the run's own file prefix."""
    queues: dict[str, int] = {}
    core = None
    for line in pmd_rxq_show.splitlines():
        header = _PMD.search(line) if line.startswith("pmd thread") else None
        core = int(header["core"]) if header else core
        queue = _RXQ.search(line)
        if queue is not None and core is not None:
            queues[f"{queue['port']}.{queue['queue']}"] = core
    config = {key: re.sub(r"--file-prefix=\S+", "", value).strip() for key, value in other_config.items()}
    return {"rxq_to_pmd": queues, "other_config": config}


def _machine() -> dict[str, Any]:
    release = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "os": release.get("PRETTY_NAME"),
        "kernel": platform.release(),
        # What follows " -- " is for init, not the kernel (bootparam(7)).
        "kernel_command_line": (read_fact(Path("/proc/cmdline")) or "").partition(" -- ")[0],
        "memory_mib": pages >> 20,
        "hugepages_mib": read_hugepages().total_mib,
        "time": VIRTUAL if is_virtual() else WALL,
        "python": platform.python_version(),
        "nfvperf": pytest_nfvperf.__version__,
    }


def _cpu_facts() -> dict[str, Any]:
    first = (read_fact(Path("/proc/cpuinfo")) or "").split("\n\n")[0]
    info = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    # All of the machine, not those this process may use: it may be pinned by now.
    cpus = read_cpus(parse_cpu_list(read_fact(_SYS / "devices/system/cpu/online") or ""))
    governors = {
        str(cpu.number): read_fact(_SYS / f"devices/system/cpu/cpu{cpu.number}/cpufreq/scaling_governor")
        for cpu in cpus
    }
    return {
        "cpu_model": info.get("model name"),
        "cpu_microcode": info.get("microcode"),
        "hypervisor": read_fact(_SYS / "hypervisor/type")
        or ("yes" if "hypervisor" in info.get("flags", "").split() else None),
        "cpus": [cpu.number for cpu in cpus],
        "smt": read_fact(_SYS / "devices/system/cpu/smt/control"),
        "smt_siblings": {str(cpu.number): cpu.core for cpu in cpus if cpu.core != cpu.number},
        "isolated_cpus": list(isolated_cpus()) or None,
        "governor": {cpu: governor for cpu, governor in governors.items() if governor is not None},
        "numa": {str(cpu.number): cpu.node for cpu in cpus},
    }


def _testbed_facts(testbed: Testbed) -> dict[str, Any]:
    return {
        "testbed": testbed.name,
        "cpu_plan": testbed.cpus,
        "generator_engine": testbed.generator.engine,
        "sending": SENDING if testbed.generator.engine == "embedded" else None,
        "vnf_kind": testbed.vnf_kind or "by the number of CPUs",
        "ports": {port.name: _port_facts(port) for port in ports_here(testbed)},
        "nodes": list(map(str, testbed.nodes)) or None,
        "nics": list(map(str, testbed.nics)) or None,
        "underlay_line_rate_bps": testbed.underlay_line_rate_bps,
    }


def _port_facts(port: DutPort) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": port.kind, "rxq": port.rxq}
    if port.rx_descriptors is not None:
        facts["rx_descriptors"] = port.rx_descriptors
    if port.kind != "vhost-user":
        facts |= {name: value for name, value in read_nic(port).known().items() if name != "link"}
    device = _SYS / "bus/pci/devices" / port.pci if port.pci else None
    if port.interface:
        device = _SYS / "class/net" / port.interface / "device"
    if device is not None:
        facts |= {name: text for name in _PCI_FACTS if (text := read_fact(device / name)) is not None}
    return facts


def _ovs_facts(testbed: Testbed) -> dict[str, Any]:
    versions = {version.name: _version_facts(version) for version in testbed.ovs.versions}
    if versioned_as(testbed.ovs.datapath) != OVS:
        facts = {"datapath": testbed.ovs.datapath, "prefix": testbed.ovs.prefix, "ovs_versions": versions}
        return facts | ({"forwarding": testbed.ovs.forwarding} if testbed.ovs.datapath == TESTPMD else {})
    try:
        binaries = locate(testbed.ovs.prefix, dpdk=testbed.ovs.datapath == "dpdk")
    except NfvperfError:  # not installed, or not ours to find: absent
        return {"datapath": testbed.ovs.datapath}
    return {
        "datapath": testbed.ovs.datapath,
        "ovs": binaries.version,
        "dpdk": binaries.dpdk_version,
        "ovs_binary": str(binaries.vswitchd),
        "ovs_versions": versions,
    }


def _version_facts(version: NamedOvs) -> dict[str, Any]:
    if version.datapath not in {"", OVS}:
        return {"datapath": version.datapath, "checksum": version.checksum}
    try:
        binaries = locate(version.prefix)
    except NfvperfError:
        return {}
    facts = {"ovs": binaries.version, "dpdk": binaries.dpdk_version, "checksum": version.checksum}
    return {"ovs_binary": str(binaries.vswitchd)} | {name: value for name, value in facts.items() if value}


INSTRUCTION_NS_PARAMETER = "nfvperf.instruction_ns"
"""On a guest's kernel command line in virtual time only; by it the program that counts instructions finds out."""

_COMMAND_LINE = Path("/proc/cmdline")


def is_virtual(command_line: Path = _COMMAND_LINE) -> bool:
    """True in a guest whose clock counts instructions."""
    return _found(command_line) is not None


def instruction_ns(command_line: Path = _COMMAND_LINE) -> int:
    """Virtual ns an instruction, as the guest was booted; ConfigError if time is not virtual here."""
    found = _found(command_line)
    if found is None:
        raise ConfigError("instructions are counted in virtual time only: boot the guest with --virtual-time")
    return int(found)


def _found(command_line: Path) -> str | None:
    text = command_line.read_text(encoding="ascii", errors="replace")
    found = re.search(rf"(?:^|\s){re.escape(INSTRUCTION_NS_PARAMETER)}=(\d+)\b", text)
    return None if found is None else found[1]
