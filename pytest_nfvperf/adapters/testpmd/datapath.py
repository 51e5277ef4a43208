"""DPDK's testpmd as the DUT: what a NIC, or a vhost-user port, does without a switch.

One process for each topology joins its ports in pairs. Its forwarding threads poll on the CPUs that OVS's poll-mode
threads would have; its console is on the housekeeping CPUs.

    port of the topology    device of testpmd                       the far end
    vhost-user              ``net_vhost,iface=SOCKET,client=1``     ``net_virtio_user,path=SOCKET,server=1``
    of a lab, pci           the NIC                                 the generator's own, by a cable
    of a lab, interface     ``net_af_packet`` or ``net_af_xdp``     the same

Options and commands: testpmd's guide ("Running the Application", "Testpmd Runtime Functions"). Devices: DPDK's NIC
guide.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType

from pytest_nfvperf.adapters.generators.embedded.generator import eal_arguments
from pytest_nfvperf.adapters.host.cpu_account import process_cpu_ns, still_there
from pytest_nfvperf.adapters.host.hugepages import read_hugepages
from pytest_nfvperf.adapters.host.polling_threads import PollingThreads
from pytest_nfvperf.adapters.net.borrowed_interfaces import BorrowedInterfaces
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.ovs.installation import facts_of_program
from pytest_nfvperf.adapters.ovs.ports import devargs, driver_of
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import ManagedProcess, spawn, wait_until
from pytest_nfvperf.adapters.testpmd.console import (
    ANSWER_DEADLINE_S,
    PROGRAM,
    PROMPT,
    READY_DEADLINE_S,
    Console,
    forwarding_options,
    parse_core_cycles,
    parse_forward_stats,
    port_summary,
    received_sources,
    version_in,
)
from pytest_nfvperf.adapters.testpmd.installation import locate
from pytest_nfvperf.model.display import cpu_list, listed
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError, why_refused
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.testbed.lab_cables import CABLING, CabledEnd, is_lab, topology_cables
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, TESTPMD, DatapathInfo, Dut, DutPort, Testbed, ovs_for_dut
from pytest_nfvperf.model.topology.ports import DEFAULT_MTU, Port, PortKind, PortRole
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import ComeBack
from pytest_nfvperf.ports.datapath import BuiltTopology, Collector, Datapath, SamplerReading
from pytest_nfvperf.ports.generator import VIRTIO_RING

_NICE = -20
"""As vswitchd's."""
_MEMORY_MIB = 256
_AROUND_BYTES = 14 + 4 + 4 + 128
"""Around an MTU in a buffer: Ethernet header, VLAN tag, FCS, and DPDK's headroom."""
_COME_BACK: Mapping[str, ComeBack] = {"5tswap": "swapped", "rxonly": "never"}
_SETTINGS = {"rxq", "rx_descriptors", "tx_descriptors"}
"""Fields of a Tuning that testpmd has, too."""


def lacks_testpmd(testbed: Testbed, dut: Dut) -> str | None:
    """What this machine lacks for it, and what to do; None if nothing is missing."""
    if dut.userspace_tso:
        return "userspace TSO is a setting of OVS's userspace datapath, and testpmd has none: leave it out"
    if others := sorted({name for name, _ in dut.tuning.over(testbed.ovs.tuning).given()} - _SETTINGS):
        return f"{listed(others)}: of Open vSwitch; of a tuning testpmd takes {listed(sorted(_SETTINGS))}"
    absent = why_refused(lambda: locate(ovs_for_dut(testbed.ovs, dut).prefix))
    return absent or read_hugepages().lacks(TESTPMD, _MEMORY_MIB)


# What testpmd can build: its ports in pairs.


def joined_ports(topology: Topology) -> list[tuple[str, str]]:
    """The pairs of ports that flows join, or the two ports of a bridge that learns, in the topology's order.

    ConfigError, with what can, if testpmd cannot build it. Where frames go nowhere there are no pairs.
    """
    if topology.name == CABLING:
        return []
    joined: dict[str, str] = {}
    problems = list(_impossible_parts(topology))
    for crossed in _crossings(topology):
        for one, other in (crossed, crossed[::-1]):
            if joined.setdefault(one, other) != other:
                problems.append(f"of {one!r}, {other!r} and {joined[one]!r} it can join two")
    names = [port.name for port in topology.ports]
    problems += [f"port {name!r} is joined to none" for name in names if name not in joined]
    if problems:
        what = f"topology {topology.name!r} cannot be built of testpmd, which joins ports in pairs"
        raise ConfigError(f"{what}: {problems[0]}; take OVS")
    return [(one, joined[one]) for one in names if names.index(one) < names.index(joined[one])]


def _crossings(topology: Topology) -> Iterator[tuple[str, str]]:
    for bridge in topology.bridges:
        crossed = [(one.in_port, one.out_port) for one in topology.crossings if one.bridge == bridge]
        first, *others = topology.bridge_ports(bridge) or ("",)
        yield from crossed or ((first, other) for other in others)


def _impossible_parts(topology: Topology) -> Iterator[str]:
    for part in (*topology.links, *topology.tunnels, *topology.interfaces, *topology.mirrors, *topology.rules):
        yield f"it has {part!r}"
    yield from (f"it has a {one}" for one in topology.limiters)
    yield from (f"it has {one}" for one in topology.connections)
    for port in topology.ports:
        if port.role is PortRole.MONITOR or port.members:
            yield f"port {port.name!r} is a {'bond' if port.members else 'monitor'}"
        if port.kind not in {PortKind.TESTBED, PortKind.VHOST_USER}:
            yield f"port {port.name!r} is {port.kind}"
        if port.vlan is not None:
            yield f"port {port.name!r} has VLANs"


@dataclass(frozen=True, slots=True)
class DevicePort:
    """A port of the topology on a device of testpmd.

    Attributes:
        device: its name there.
        devargs: those of a virtual device, "iface=...,client=1"; None for a NIC.
        far_end: DPDK's devargs of the other end; None by a cable.
        queues: of a NIC, as the testbed file says; 1 of others.
        rings: descriptors to receive and to send; None: testpmd's default.
    """

    port: Port
    device: str
    devargs: str | None
    far_end: str | None
    queues: int = 1
    rings: tuple[int | None, int | None] = (None, None)


def vhost_port(port: Port, number: int, directory: Path, queues: int) -> DevicePort:
    """The far end listens, and testpmd connects, as OVS does. ``queues``: all of testpmd's ports have as many."""
    socket, own = directory / f"{port.name}.sock", f",queues={port.queues}" if port.queues > 1 else ""
    far_end = f"net_virtio_user,path={socket},server=1,{VIRTIO_RING},mac={port.mac}{own}"
    return DevicePort(port, f"net_vhost{number}", f"iface={socket},client=1,queues={queues}", far_end)


def cabled_port(port: Port, end: CabledEnd) -> DevicePort:
    """A NIC of a lab, or an interface that a driver of DPDK reads; ConfigError for what only a switch has."""
    member, *others = end.members
    what = "a bond" if others else "a representor" if member.representor is not None else ""
    driver = driver_of(member, "dpdk")
    if what or driver == "kernel":
        what = what or "read by the kernel"
        raise ConfigError(
            f"port {end.name!r} is {what}, and testpmd takes NICs, and interfaces by DPDK", key="dut.ports"
        )
    given = devargs(replace(member, rxq=max(member.rxq, port.queues)), driver, member.mtu or port.mtu)
    device, _, more = given.partition(",")
    rings = member.rx_descriptors, member.tx_descriptors
    return DevicePort(port, device, None if driver == "pci" else more, end.device, member.rxq, rings)


class TestpmdDatapath(Datapath):
    """testpmd as a ports.Datapath: a process for each topology."""

    __test__ = False

    def __init__(
        self, testbed: Testbed, journal: Journal, dut: Dut = TESTBED_DUT, *, name: str = TESTPMD, preferred: bool = True
    ) -> None:
        """Starts nothing yet; TestbedError where the machine lacks something.

        ``name``: two of one run need two. ``preferred``: it has priority on its CPUs, as vswitchd.
        """
        missing = lacks_testpmd(testbed, dut)
        if missing is not None:
            raise TestbedError(f"the datapath {TESTPMD!r} is not possible here: {missing}")
        spec = ovs_for_dut(testbed.ovs, dut)
        self._binary = locate(spec.prefix)
        self._facts = facts_of_program(spec, self._binary.program)
        self._tuning = dut.tuning.over(spec.tuning)
        self._mode = dut.forwarding or spec.forwarding
        self._testbed, self._journal, self._name = testbed, journal, name
        self._nice = _NICE if preferred else 0
        self._numbers = count(1)
        self._borrowed = BorrowedInterfaces(journal)
        self._home: LiveNamespace | None = None
        self._built: list[BuiltTestpmd] = []

    def info(self) -> DatapathInfo:
        cpus = self._testbed.cpus.pmd
        ports = "ports are the lab's" if is_lab(self._testbed) else f"{_MEMORY_MIB} MiB of hugepages"
        return DatapathInfo(
            TESTPMD,
            self._binary.version,
            None,
            f"{self._binary.program}; forwarding {self._mode} on CPU {cpu_list(cpus)}, {ports}",
            cores=len(cpus),
            **self._facts,
        )

    def build(self, topology: Topology) -> BuiltTestpmd:
        pairs = joined_ports(topology)
        cables = topology_cables(self._testbed, topology)
        directory = self._journal.directory / f"{self._name}{next(self._numbers)}"
        directory.mkdir(exist_ok=True)
        ordered = [topology.port(name) for pair in pairs for name in pair] or topology.ports
        cabled = [cabled_port(port, cables[port.name]) for port in ordered if port.name in cables]
        queues = max(*(port.queues for port in (*ordered, *cabled)), 1)
        ports = [
            next((one for one in cabled if one.port is port), None) or vhost_port(port, number, directory, queues)
            for number, port in enumerate(ordered)
        ]
        self._borrow([cables[port.name].members[0] for port in ordered if port.name in cables])
        process = spawn(
            self._journal,
            f"{PROGRAM} of the DUT",
            self._command(directory.name, ports, queues),
            log=directory.with_suffix(".log"),
            pipes=True,
            nice=self._nice,
            netns=None if self._home is None else self._home.name,
        )
        # As many forward as there are streams of frames: a thread polls one or more queues.
        threads = min(len(self._testbed.cpus.pmd), len(ports) * queues)
        built = BuiltTestpmd(topology, process, ports, self._mode, directory, threads)
        self._built.append(built)
        return built

    def _borrow(self, ports: Sequence[DutPort]) -> None:
        """Move a lab's kernel interfaces into a namespace of ours, so that the host sends nothing by them."""
        for port in ports:
            if port.interface is not None:
                self._home = self._home or LiveNamespace(self._journal, self._name)
                who, home = f"port {port.name!r}", self._home.path
                self._borrowed.take(port.interface, who, key="dut.ports", namespace=home, mtu=port.mtu)

    def _command(self, prefix: str, ports: Sequence[DevicePort], queues: int) -> list[str]:
        cpus, tuning = self._testbed.cpus, self._tuning
        nics = [port.device for port in ports if port.devargs is None]
        mtu = max(port.port.mtu for port in ports)
        memory_mib = _MEMORY_MIB if mtu <= DEFAULT_MTU else 2 * _MEMORY_MIB
        eal = eal_arguments(cpus.pmd, cpus.housekeeping, f"nfv-{self._journal.tag}-{prefix}", memory_mib, nics)
        for port in ports:
            eal += [] if port.devargs is None else ["--vdev", f"{port.device},{port.devargs}"]
        first = ports[0].rings
        rings = (tuning.rx_descriptors or first[0], tuning.tx_descriptors or first[1])
        options = forwarding_options(self._mode, len(ports), queues, mtu, rings=rings)
        options += [f"--nb-cores={len(cpus.pmd)}", "--record-core-cycles", "--disable-link-check"]
        options += ["--rss-udp"] if queues > 1 else []
        if mtu > DEFAULT_MTU:  # a NIC's frame in one buffer: in several it may not be sent
            options.append(f"--mbuf-size={-(-(mtu + _AROUND_BYTES) // 64) * 64}")
        # What testpmd prints by itself would be in an answer of its console.
        program = self._binary.command(self._journal.directory)
        return [*program, *eal, "-v", "--", *options, "--mask-event=all"]

    def collectors(self) -> tuple[Collector, ...]:
        """The sources "testpmd", and "pmd-sched" of the newest topology's process."""
        return self.samplers()

    def samplers(self) -> tuple[TestpmdCounters | PollingThreads, ...]:
        pids = [partial(getattr, built.process, "pid") for built in self._live_topologies()[-1:]]
        return (TestpmdCounters(self._live_topologies), *(PollingThreads(pid, PROGRAM) for pid in pids))

    def check_alive(self) -> None:
        for built in self._live_topologies():
            built.process.check()

    def logs(self) -> Mapping[str, str]:
        return {built.process.log.name: built.process.log_tail() for built in self._live_topologies()}

    def processes(self) -> Mapping[int, CpuRole]:
        return {built.process.pid: CpuRole.PMD for built in self._live_topologies()}

    def freeze(self) -> bool:
        for built in self._live_topologies():
            built.process.freeze()
        return True

    def thaw(self) -> None:
        for built in self._live_topologies():
            built.process.thaw()

    def close(self) -> None:
        for built in reversed(self._live_topologies()):
            built.close()
        self._borrowed.close()
        if self._home is not None:
            self._home.close()
            self._home = None

    def _live_topologies(self) -> list[BuiltTestpmd]:
        self._built = [built for built in self._built if not built.closed]
        return self._built


class BuiltTestpmd(BuiltTopology):
    """A topology and its process. Owns its teardown."""

    def __init__(
        self,
        topology: Topology,
        process: ManagedProcess,
        ports: Sequence[DevicePort],
        mode: str,
        directory: Path,
        threads: int,
    ) -> None:
        """Waits until the process has its devices.

        ``ports``: each pair one after the other. ``directory``: of their sockets. ``threads``: that forward.
        """
        self.topology = topology
        self.come_back = _COME_BACK.get(mode, "as sent")
        self.process = process
        self.closed = False
        self._ports, self._directory, self._threads = ports, directory, threads
        self._numbers: dict[int, str] = {}
        self._printed = ""
        try:
            self._console = Console(process, PROMPT)
            self._console.wait_prompt("its prompt, which comes once it has its devices", READY_DEADLINE_S)
            self._join(mode)
        except BaseException:
            self.close()
            raise

    def _join(self, mode: str) -> None:
        """Join the ports in pairs and forward. DPDK numbers devices as its buses find them."""
        numbers = {device: number for number, device, _ in port_summary(self.ask("show port summary all"))}
        lacking = [port for port in self._ports if port.device not in numbers]
        if lacking:
            evidence = {self.process.log.name: self.process.log_tail()}
            what = f"port {lacking[0].port.name!r} ({lacking[0].device})"
            raise TestbedError(f"testpmd has no device for {what}: DPDK's drivers did not take it", evidence=evidence)
        self._numbers = {numbers[port.device]: port.port.name for port in self._ports}
        self.ask(f"set portlist {','.join(map(str, self._numbers))}")
        for number, port in zip(self._numbers, self._ports, strict=True):
            if mode == "mac":
                self.ask(f"set eth-peer {number} {port.port.mac}")
        self.ask("start")

    def ask(self, command: str) -> str:
        return self._console.ask(command, ANSWER_DEADLINE_S)

    def attachments(self) -> Mapping[str, str | None]:
        far_ends = {port.port.name: port.far_end for port in self._ports}
        return {port.name: far_ends[port.name] for port in self.topology.ports}

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until every port has a link; TestbedError names those without."""

        def without_link() -> list[str]:
            self.process.check()
            return [device for _, device, up in port_summary(self.ask("show port summary all")) if not up]

        what = f"the links of topology {self.topology.name!r}"
        wait_until(lambda: not without_link(), what, deadline_s, last_seen=lambda: f"down: {listed(without_link())}")

    def set_link(self, port: str, *, up: bool) -> None:
        number, logged = next(at for at, name in self._numbers.items() if name == port), self.process.log.stat().st_size
        self.ask(f"set link-{'up' if up else 'down'} port {number}")
        if b"fail" in self.process.log.read_bytes()[logged:]:  # it says so in its log only
            raise UnavailableError(f"the driver of port {port!r} cannot switch its link")

    def note_sources(self, macs: Sequence[str]) -> bool:  # noqa: ARG002 - it prints all
        for command in ("stop", "set fwd rxonly", "set verbose 1", "start"):
            self.ask(command)
        return True

    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """Testpmd prints the addresses of each frame, while it receives; it has waited for a reader."""
        self._printed += self._console.ask_amid_output("show port summary 0", READY_DEADLINE_S)
        found: dict[str, dict[str, None]] = {}
        for number, mac in received_sources(self._printed):
            found.setdefault(mac, {})[self._numbers[number]] = None
        return {mac: tuple(ports) for mac, ports in found.items()}

    def configuration(self) -> str:
        ports = "".join(f"# port {number}: {name}\n" for number, name in self._numbers.items())
        return f"{ports}{self.ask('show config fwd')}"

    def counters(self) -> dict[str, int]:
        """Of all its ports and threads, named as the drop ledger and the costs of a trial know them."""
        text = self.ask("show fwd stats all")
        counters: dict[str, int] = {}
        for number, counts in parse_forward_stats(text, version_in(self.process.log)).items():
            totals = {"rx_packets": counts.received, "tx_packets": counts.sent}
            dropped = dict.fromkeys(("rx_dropped", "rx_missed"), counts.rx_dropped)
            dropped |= dict.fromkeys(("tx_dropped", "tx_full"), counts.tx_dropped)
            counters |= {f"{self._numbers[number]}.{name}": frames for name, frames in (totals | dropped).items()}
        if (spent := parse_core_cycles(text)) is not None:
            busy, frames, tsc_mhz = spent
            total = time.monotonic_ns() * tsc_mhz // 1000 * self._threads  # they poll all the time
            counters |= {"pmd.packets_received": frames, "pmd.cycles_busy": busy, "pmd.cycles_idle": total - busy}
        with still_there(self.process.pid, self.process.name):
            return counters | {"testpmd.cpu_ns": process_cpu_ns(self.process.pid)}

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.process.kill()
            shutil.rmtree(self._directory, ignore_errors=True)  # sockets, which the far ends made


class TestpmdCounters(Collector):
    """Counters of testpmd, and a sampler of them. Source "testpmd".

    ============================  ==========================================================================
    ``<port>.rx_packets``, tx     frames of each port
    ``<port>.rx_missed``          the NIC's receive ring was full; also as ``<port>.rx_dropped``
    ``<port>.tx_full``            the ring at the far end was full; also as ``<port>.tx_dropped``
    ``pmd.packets_received``      by all forwarding threads
    ``pmd.cycles_busy``, _idle    TSC cycles on frames and on empty polls
    ``testpmd.cpu_ns``            CPU time of all its threads, in steps of a clock tick
    ``drops``                     of a sample: frames that testpmd could not send or take
    ============================  ==========================================================================
    """

    __test__ = False
    name = source = TESTPMD
    drop_reasons: Mapping[str, str] = MappingProxyType(
        {
            "rx_missed": "the NIC's receive ring was full: testpmd did not drain it in time",
            "tx_full": "the ring at the far end was full",
        }
    )

    def __init__(self, topologies: Callable[[], Sequence[BuiltTestpmd]]) -> None:
        self._topologies = topologies

    def _now(self) -> dict[str, int]:
        return {name: value for built in self._topologies() for name, value in built.counters().items()}

    def snapshot(self) -> CounterSnapshot:
        return CounterSnapshot(self.source, time.monotonic_ns(), tuple(sorted(self._now().items())))

    def forwarding_ns(self) -> int | None:
        """Work of the forwarding threads, in ns of virtual time, in which a cycle of the TSC is 1 ns."""
        return self._now().get("pmd.cycles_busy")

    def read(self) -> SamplerReading:
        counters = self._now()
        dropped = sum(value for name, value in counters.items() if name.endswith("_dropped"))
        return SamplerReading({**counters, "drops": dropped})
