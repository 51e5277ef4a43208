"""The datapath: what builds topologies, who makes one of a third party, and what is read of it around trials.

Collectors read counters before and after a trial, never during one (How we measure, rule 12). Samplers are
read again and again while a trial runs, so they must be cheap: a few milliseconds of one CPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason
from pytest_nfvperf.model.measure.hw_offload import OffloadShare
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.testbed.testbed import DatapathInfo
from pytest_nfvperf.model.topology.topology import Topology


class Collector(Protocol):
    """One source of counters."""

    def snapshot(self) -> CounterSnapshot:
        """All counters now. A counter the source lacks is absent. Under 20 ms."""


@runtime_checkable
class Settling(Protocol):
    """A source with counters that settle late. It is asked again after a trial with missing frames."""

    def settled(self, before: CounterSnapshot, missing: int) -> CounterSnapshot:
        """All counters, as soon as those of drops explain ``missing`` frames since ``before``, or have settled."""


@runtime_checkable
class KnowsPollers(Protocol):
    """A source that knows the DUT's polling threads."""

    def pollers(self) -> tuple[Poller, ...]:
        """Those that run now, each with the CPU that it keeps to."""


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
        until = (
            "and has none yet" if self.restored_ns is None else f"for {(self.restored_ns - self.lost_ns) / 1e9:.1f} s"
        )
        return InvalidReason(Reason.LINK_DOWN, f"{whose} port {name} {when}, {until}")


@runtime_checkable
class KnowsOutages(Protocol):
    """A source that watches links all the time, so it knows when one was lost, and for how long."""

    def outages(self, since_ns: int) -> tuple[LinkOutage, ...]:
        """Those that lasted at or after this moment, by ``time.monotonic_ns()``."""


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


@runtime_checkable
class Sampled(Protocol):
    """A datapath, or anything else, that can be sampled."""

    def samplers(self) -> tuple[Sampler, ...]: ...


@dataclass(frozen=True, slots=True)
class Attachment:
    """How the far end of a topology port is reached: DPDK devargs for the embedded engine.

    ``device`` is None for ports that need no device of ours (a physical port cabled to a tester).
    """

    port: str
    device: str | None


class BuiltTopology(Protocol):
    """A deployed topology. It owns its teardown."""

    topology: Topology

    def attachments(self) -> tuple[Attachment, ...]:
        """The far ends of the ports, for the generator."""

    def netns(self, namespace: str) -> str:
        """The name under /run/netns of a namespace of the topology; KeyError for an unknown one."""

    def firewall(self) -> Mapping[str, Sequence[str]]:
        """Active firewall rules in its namespaces and the datapath's own, by namespace; empty if there are none."""

    def not_offloaded(self) -> str | None:
        """Why no flow is in hardware, after frames have passed; None where flows are."""

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until every interface is up; TestbedError with the interface's error column."""

    def configuration(self) -> str:
        """The built configuration as text, for evidence."""

    def close(self) -> None:
        """Remove what was built. Can be called twice."""


@runtime_checkable
class Offloading(Protocol):
    """A live topology that can say which flows are in hardware."""

    def offload_share(self) -> OffloadShare:
        """The flows of the datapath now; TestbedError when it does not answer."""


@runtime_checkable
class SetsLinks(Protocol):
    """A live topology that can take the links of its ports down."""

    def set_link(self, port: str, *, up: bool) -> None:
        """Take a port's link down, or up again. UnavailableError where this cannot be done."""


@runtime_checkable
class Freezing(Protocol):
    """A DUT that can be stopped where it is, so that another one has its CPUs."""

    def freeze(self) -> None:
        """Stop it: it takes no CPU and answers nothing. TestbedError if it died."""

    def thaw(self) -> None:
        """Let it continue. Does nothing if it is not frozen, or has ended."""


@runtime_checkable
class Restarting(Protocol):
    """A DUT that can be ended, and started again under the topologies that are built on it."""

    def restart(self, *, killed: bool = False) -> None:
        """``killed``: by SIGKILL, as when it crashes. Returns when it has taken its configuration again.

        Raises UnavailableError for a DUT that is not ours to restart, TestbedError where it does not start again.
        """


class Datapath(Protocol):
    """A DUT on which topologies are built."""

    def info(self) -> DatapathInfo: ...

    def build(self, topology: Topology) -> BuiltTopology:
        """Build in one transaction. Does not wait for links: the generator attaches in between."""

    def collectors(self) -> tuple[Collector, ...]:
        """Counters to read before and after each trial."""

    def check_alive(self) -> None:
        """TestbedError with the end of the log when the DUT died."""

    def logs(self) -> Mapping[str, str]:
        """The ends of the DUT's logs by name, for errors."""

    def close(self) -> None:
        """Stop and remove the DUT if it is ours."""


class RunningProcess(Protocol):
    """A process that a workshop started."""

    @property
    def pid(self) -> int:
        """Of the command itself."""

    def check(self) -> None:
        """TestbedError with the exit status and the end of its log where it has ended."""

    def log_tail(self) -> str:
        """The last lines of what it wrote."""

    def stop(self) -> None:
        """SIGTERM, then SIGKILL. Can be called twice."""


class MadeNamespace(Protocol):
    """A network namespace that a workshop made."""

    name: str

    def close(self) -> None:
        """Remove it, and every link in it. Can be called twice."""


class Workshop(Protocol):
    """What a third party's datapath makes things with. All are noted first, so that they go even after kill -9.

    Attributes:
        directory: of this datapath; removed with the run. Its path is short enough for sockets.
        cpus: for threads that forward frames.
        housekeeping_cpus: for everything else.
    """

    directory: Path
    cpus: tuple[int, ...]
    housekeeping_cpus: tuple[int, ...]

    def make_namespace(self, role: str) -> MadeNamespace:
        """Make a network namespace, called after the run and ``role``. Keep one end of each veth pair in one."""

    def link_name(self) -> str:
        """A name for an interface beside the generator's: new in this run, and short enough."""

    def spawn(
        self,
        name: str,
        argv: Sequence[str | os.PathLike[str]],
        *,
        netns: str | None = None,
        cpus: Sequence[int] = (),
    ) -> RunningProcess:
        """Start a program that ends with this process at the latest.

        Args:
            name: what errors call it.
            argv: the command, as a list.
            netns: in which network namespace, by its name.
            cpus: that it may use; ``housekeeping_cpus`` if not given.

        Raises:
            TestbedError: it could not be started.
        """


class DatapathMaker(Protocol):
    """What the hook ``pytest_nfvperf_datapaths`` gives for each kind of datapath."""

    def lacks(self) -> str | None:
        """What this machine lacks for it, and what to do about it; None when it has all. Starts nothing."""

    def start(self, workshop: Workshop) -> Datapath:
        """Start it. ``Datapath.close`` removes what it made.

        Raises:
            TestbedError: it did not start; nothing of it is left.
        """
