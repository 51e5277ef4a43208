"""The datapath: what builds topologies, and what is read of it around trials.

Collectors read counters before and after a trial, never during one (How we measure, rule 12). Samplers are
read again and again while a trial runs, so they must be cheap: a few milliseconds of one CPU.

Adapters inherit these classes. What a datapath cannot do keeps its default: nothing to sample, nothing to offload, or
UnavailableError with the reason, which skips the test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.measure.hw_offload import OffloadShare
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.measure.outage import LogLine
from pytest_nfvperf.model.testbed.ovs_settings import versioned_name
from pytest_nfvperf.model.testbed.testbed import DatapathInfo
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import ComeBack


@dataclass(frozen=True, slots=True)
class LinkOutage:
    """A time without link on a port.

    Attributes:
        port: of the topology.
        device: what the port is on: a port of the testbed file, or an interface.
        lost_ns, restored_ns: by ``time.monotonic_ns()``; ``restored_ns`` is None while there is no link.
    """

    port: str
    device: str
    lost_ns: int
    restored_ns: int | None = None

    def reason(self, whose: str, began_ns: int) -> InvalidReason:
        """The reason against a trial that began at ``began_ns``: which port had no link, since when, and for how long.

        ``whose``: "the DUT's" or "the generator's".
        """
        name = self.port if self.device == self.port else f"{self.port} ({self.device})"
        after_s = (self.lost_ns - began_ns) / 1e9
        lost = f"lost its link {after_s:.1f} s after the trial began"
        when = lost if after_s >= 0 else "had no link as the trial began"
        lasted = "and has none yet"
        if self.restored_ns is not None:
            lasted = f"for {(self.restored_ns - self.lost_ns) / 1e9:.1f} s"
        return InvalidReason(Reason.LINK_DOWN, f"{whose} port {name} {when}, {lasted}")


class Collector(ABC):
    """One source of counters.

    The drop ledger reads ``<port>.rx_packets``, ``tx_packets``, ``rx_dropped``, ``tx_dropped``, ``rx_errors`` and
    ``tx_errors`` of sources that count frames at ports, and their own reasons.

    Attributes:
        source: what its snapshots are called.
        drop_reasons: of a source that counts frames at ports, which counters say why frames were dropped, with their
            meanings. ``rx_NAME`` is ``<port>.rx_NAME``: not taken from a port, part of ``rx_dropped``; ``tx_NAME`` so
            of those that could not be sent; others are of the whole datapath. None for other sources.
    """

    source: str
    drop_reasons: Mapping[str, str] | None = None

    @abstractmethod
    def snapshot(self) -> CounterSnapshot:
        """All counters now. A counter the source lacks is absent. Under 20 ms."""

    def settled(self, before: CounterSnapshot, after: CounterSnapshot, missing: int) -> CounterSnapshot:
        """All counters, as soon as those of drops explain ``missing`` frames since ``before``, or have settled.

        Called after a trial with missing frames. ``after``: read right after it, all there is if none settle late.
        """
        return after

    def pollers(self) -> tuple[Poller, ...]:
        """The DUT's polling threads, each with the CPU that it keeps to, if this source knows them."""
        return ()

    def outages(self, since_ns: int) -> tuple[LinkOutage, ...]:
        """Times without link that lasted at or after this moment, by ``time.monotonic_ns()``."""
        return ()

    def forwarding_ns(self) -> int | None:
        """How long the one thread that forwards has run, in ns; None if the kernel forwards, or nobody knows."""
        return None


@dataclass(frozen=True, slots=True)
class SamplerReading:
    """What one source returned.

    Attributes:
        counters: rising counts by name; the sample holds by how much they rose. One that the source lacks is absent.
        gauges: current values, such as bytes of memory, or a session that is up (1) or not (0).
    """

    counters: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)


class Sampler(Protocol):
    """One source of samples."""

    @property
    def name(self) -> str:
        """What messages call it: "ovs", "bgp"."""

    def read(self) -> SamplerReading:
        """All it has now. Raises TestbedError when the source does not answer; it is asked again a second later."""


class BuiltTopology(ABC):
    """A deployed topology. It owns its teardown. ``come_back``: how it returns frames to the generator."""

    topology: Topology
    come_back: ComeBack = "as sent"

    @abstractmethod
    def attachments(self) -> Mapping[str, str | None]:
        """How the generator reaches the far end of each port, in the topology's order: DPDK devargs.

        None for a port that needs no device of ours, because it is cabled to a tester. Those of a bond's members have a
        space between them.
        """

    @abstractmethod
    def wait_ready(self, deadline_s: float) -> None:
        """Wait until every interface is up; TestbedError with the interface's error column."""

    @abstractmethod
    def configuration(self) -> str:
        """The built configuration as text, for evidence."""

    @abstractmethod
    def close(self) -> None:
        """Remove what was built. Can be called twice."""

    def netns(self, namespace: str) -> str:
        """The name under /run/netns of a namespace of the topology; KeyError for an unknown one."""
        if namespace not in {spec.name for spec in self.topology.namespaces}:
            raise KeyError(f"topology {self.topology.name!r} has no namespace {namespace!r}")
        return self.made_namespace(namespace)

    def made_namespace(self, namespace: str) -> str:
        """As ``netns``, of a namespace that the topology has."""
        raise UnavailableError(f"the datapath makes no namespaces, and topology {self.topology.name!r} has some")

    def firewall(self) -> Mapping[str, Sequence[str]]:
        """Active firewall rules in its namespaces and the datapath's own, by namespace; empty if there are none."""
        return {}

    def not_offloaded(self) -> str | None:
        """Why no flow is in hardware, after frames have passed; None where flows are."""
        return "the datapath has no flows that a NIC could take"

    def offload_share(self) -> OffloadShare | None:
        """The flows of the datapath now; None if it cannot say. TestbedError when it does not answer."""
        return None

    def set_link(self, port: str, *, up: bool) -> None:
        """Take a port's link down, or up again. UnavailableError where this cannot be done."""
        raise UnavailableError(f"the datapath cannot take the link of port {port!r} down")

    def note_sources(self, macs: Sequence[str]) -> bool:
        """From now on note the ports at which frames from these MAC addresses arrive, and forward no frame at all.

        False for a datapath that cannot.
        """
        return False

    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """Names of all ports at which frames of a MAC address arrived, by address; none for one that did not."""
        return {}

    def ovs(self, program: str, *arguments: str, lines: Sequence[str] = ()) -> str:
        """What ``ofctl`` (command, bridge, ...; ``lines``: of a file ``-``), ``appctl`` or ``vsctl`` answers.

        ArgumentError where it refuses.
        """
        raise UnavailableError("the datapath is no Open vSwitch")

    def slow_path(self) -> Mapping[str, float]:
        """``megaflows``, ``flow_limit``, ``dump_ms``, ``revalidators``, ``memory_MiB``: it takes 1 ms; {} if no OVS."""
        return {}

    def connections(self) -> Mapping[int, int]:
        """How many connections the DUT tracks now, by zone of the topology; {} for one without such parts."""
        return {}

    def flush_connections(self) -> None:
        """Remove the connections of the topology's zones, before each trial; returns when none is left."""

    def interface_names(self) -> Mapping[str, str]:
        """Names of the topology's ports by those of OVS's interfaces; none if the datapath is no Open vSwitch."""
        return {}

    def on(self, bridge: str) -> BuiltTopology:
        """The part with this bridge: that of a node, or all of it."""
        return self


class Operation(NamedTuple):
    """An operation on a DUT, prepared: it is possible here.

    ``act`` returns when the DUT has taken its configuration again; TestbedError where it does not. ``undo`` makes the
    same possible again; None where nothing is to be undone.
    """

    act: Callable[[], object]
    undo: Callable[[], object] | None = None


class Datapath(ABC):
    """A DUT on which topologies are built."""

    @abstractmethod
    def info(self) -> DatapathInfo: ...

    @abstractmethod
    def build(self, topology: Topology) -> BuiltTopology:
        """Build in one transaction. Does not wait for links: the generator attaches in between."""

    @abstractmethod
    def check_alive(self) -> None:
        """TestbedError with the end of the log when the DUT died."""

    @abstractmethod
    def close(self) -> None:
        """Stop and remove the DUT if it is ours."""

    def collectors(self) -> tuple[Collector, ...]:
        """Counters to read before and after each trial."""
        return ()

    def samplers(self) -> tuple[Sampler, ...]:
        """Sources to sample during a soak."""
        return ()

    def logs(self) -> Mapping[str, str]:
        """The ends of the DUT's logs by name, for errors."""
        return {}

    def processes(self) -> Mapping[int, CpuRole]:
        """Process ids and roles of the DUT's processes on this machine."""
        return {}

    def freeze(self) -> bool:
        """Stop it, so that another DUT has its CPUs: it takes no CPU and answers nothing. TestbedError if it died.

        False for a datapath that cannot be stopped.
        """
        return False

    def thaw(self) -> None:
        """Let it continue. Does nothing if it is not frozen, or has ended."""

    def restart(self, *, killed: bool = False) -> None:
        """End it, and start it again under its topologies; returns when it has taken its configuration again.

        ``killed``: by SIGKILL, as when it crashes. UnavailableError for a DUT that is not ours to restart, TestbedError
        where it does not start again.
        """
        raise UnavailableError(f"nobody here can restart the datapath {self.info().kind!r}")

    def operation(self, name: str, **details: str) -> Operation:
        """Prepare an operation under the topologies that are built: what ``nfv.events`` does to a DUT.

        ``name``: "restart" (``flows``: "lost" or "restored"), "kill", "restart the database of", "upgrade" (``to``: the
        name of a version), "give a controller to" and "take the controller from" (``fail_mode``: "secure" or
        "standalone"; prepared, the latter has a controller). UnavailableError for what this DUT cannot do.
        """
        raise UnavailableError(f"nobody here can {name} the datapath {self.info().kind!r}")

    def log_since(self, ns: int) -> Sequence[LogLine]:
        """What the DUT did since then, by ``time.monotonic_ns()``: its log, its database, operations; in order."""
        return ()


# Versions of a datapath: what ``nfvperf ovs``, comparisons and bisections ask.


RunStep = Callable[[str, Sequence[str], float], None]
"""Runs a step of a build: its name, command, and deadline in s. TestbedError with the end of its output."""


class DatapathVersions(ABC):
    """How one kind of datapath's versions are found, unpacked and built.

    Attributes:
        kind: as ``Dut.kind`` calls it; OVS for all of Open vSwitch's.
        packages: of Debian, whose unpacked root has it; those of ``recorded`` identify the version.
        sources: files by which a git tree of it is known; empty where none can be built.
        tools: programs that a build needs.
    """

    kind: str
    packages: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What messages call it."""
        return versioned_name(self.kind)

    @abstractmethod
    def look_at(self, prefix: str | None) -> DatapathInfo:
        """Version, DPDK and program in a prefix or root; None: what is installed.

        Raises:
            ConfigError: it is not there, or does not start for lack of a library.
            TestbedError: it is not installed; says what to install.
        """

    def files(self, prefix: str) -> Sequence[Path]:
        """What the checksum of a version is of."""
        return [Path(self.look_at(prefix).installation)]

    def complete_root(self, root: Path) -> None:
        """Do what the scripts of unpacked packages would have done, where it does not run without."""

    def options(self, *, dpdk: bool) -> Sequence[str]:
        """The options of a build's ``configure``; ConfigError where it cannot be built so."""
        return ()

    def configure(self, run: RunStep, tree: Path, directory: Path, options: Sequence[str]) -> None:
        """Prepare a build of ``tree`` in an empty ``directory``, once for all revisions."""

    def make(self, run: RunStep, directory: Path, prefix: Path) -> None:
        """Compile what is checked out, and install it to ``prefix``, which is not there yet."""
