"""The datapath port: builds a topology and reads what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pytest_nfvperf.model.measure.offloading import OffloadShare
from pytest_nfvperf.model.testbed.equipment import DatapathInfo
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.collector import Collector


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
        ...

    def netns(self, namespace: str) -> str:
        """The name under /run/netns of a namespace of the topology; KeyError for an unknown one."""
        ...

    def firewall(self) -> Mapping[str, Sequence[str]]:
        """Active firewall rules in its namespaces and the datapath's own, by namespace; empty if there are none."""
        ...

    def not_offloaded(self) -> str | None:
        """Why no flow is in hardware, after frames have passed; None where flows are."""
        ...

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until every interface is up; TestbedError with the interface's error column."""
        ...

    def configuration(self) -> str:
        """The built configuration as text, for evidence."""
        ...

    def close(self) -> None:
        """Remove what was built. Can be called twice."""
        ...


@runtime_checkable
class Offloading(Protocol):
    """A live topology that can say which flows are in hardware."""

    def offload_share(self) -> OffloadShare:
        """The flows of the datapath now; TestbedError when it does not answer."""
        ...


@runtime_checkable
class Freezing(Protocol):
    """A DUT that can be stopped where it is, so that another one has its CPUs."""

    def freeze(self) -> None:
        """From now on it takes no CPU and answers nothing. TestbedError where it died."""
        ...

    def thaw(self) -> None:
        """It goes on where it was. Nothing happens where it is not frozen, or is gone."""
        ...


class Restart(Protocol):
    """Ends the DUT and starts it again under the topologies that are built on it."""

    def __call__(self, *, killed: bool = False) -> None:
        """``killed``: by SIGKILL, as when it crashes. Returns when it has taken its configuration again.

        Raises UnavailableError for a DUT that is not ours to restart, TestbedError where it does not start again.
        """
        ...


@runtime_checkable
class Restarting(Protocol):
    """A DUT that can be restarted."""

    def restart(self, *, killed: bool = False) -> None:
        """See ``Restart``."""
        ...


class Datapath(Protocol):
    """A DUT on which topologies are built."""

    def info(self) -> DatapathInfo:
        """Kind and versions."""
        ...

    def build(self, topology: Topology) -> BuiltTopology:
        """Build in one transaction. Does not wait for links: the generator attaches in between."""
        ...

    def collectors(self) -> tuple[Collector, ...]:
        """Counters to read before and after each trial."""
        ...

    def check_alive(self) -> None:
        """TestbedError with the end of the log when the DUT died."""
        ...

    def logs(self) -> Mapping[str, str]:
        """The ends of the DUT's logs by name, for errors."""
        ...

    def close(self) -> None:
        """Stop and remove the DUT if it is ours."""
        ...
