"""The backends' interface: the session uses a real and a simulated testbed alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_nfvperf.measure.clocks import SystemClock
from pytest_nfvperf.measure.rig import RigParts
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.testbed.testbed import Dut, OvsSpec, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.machine import Clock

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.process.journal import Journal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Daemons(Generic[T]):
    """Makers of a feature's daemons.

    Attributes:
        name: what messages, and backends of third parties, call them: "BGP", "OVN".
        on_machine: makes their starter on the machine of a DUT, from a function that returns the run's journal once
            the machine is locked, and from the DUT's OVS.
        simulated: makes their stand-in where nothing is started.
    """

    name: str
    on_machine: Callable[[Callable[[], Journal], OvsSpec], T]
    simulated: Callable[[], T]


class Backend(ABC):
    """Makes a testbed real, or simulates it.

    Attributes:
        needs_root: a run makes namespaces or the like on this machine, so an ordinary user's is refused.
    """

    needs_root = True

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.clock: Clock = SystemClock()

    @abstractmethod
    def describe(self) -> list[str]:
        """DUT and generator, a line each. Starts nothing."""

    @abstractmethod
    def parts(self) -> RigParts:
        """The parts of the rig. Locks the machine for this run."""

    def labels(self) -> dict[str, str]:
        """What SLA rules can select, the same in every test."""
        return {"datapath": self.testbed.ovs.datapath, "engine": self.testbed.generator.engine}

    def check(self) -> None:  # noqa: B027 - nothing
        """Raise ConfigError or TestbedError if something that a run needs is missing. Starts nothing."""

    def lacks(self, dut: Dut) -> str | None:  # noqa: ARG002 - nothing
        """What this machine lacks for a datapath, and what the user can do; None if it lacks nothing."""
        return None

    def lacks_roles(self, topology: Topology, dut: Dut) -> str | None:  # noqa: ARG002 - none
        """Which port roles of a topology this generator cannot take, and what to do; None if it can take all."""
        return None

    def lacks_streams(self) -> str | None:
        """What this machine lacks for TCP and UDP streams, and what to do; None if it lacks nothing."""
        return "this testbed has no engine for TCP and UDP streams"

    @property
    def can_share(self) -> bool:
        """Several runs can share the machine for functional tests, each on a DUT of its own; else every test has it."""
        return False

    def shared_parts(self) -> RigParts:
        """As ``parts``, on a machine that other runs share. Nobody measures meanwhile."""
        return self.parts()

    def room(self) -> int:
        """Number of rigs that fit into the memory now, where the machine can be shared."""
        return 1

    def daemons(self, of: Daemons[T]) -> T:
        """What starts a feature's daemons on the DUT's machine, or simulates them; UnavailableError if nothing does."""
        raise UnavailableError(f"{of.name} on this testbed is not possible: its backend starts no such daemons")

    def fingerprint(self) -> Mapping[str, Any]:
        """Facts that must be equal for two runs to be compared."""
        return {}

    def line_rate_bps(self) -> float | None:
        """Layer-1 rate of the slowest port, None where ports have none."""
        return None

    def estimate_search_s(self, profile: Profile) -> float:  # noqa: ARG002 - unknown
        """Duration of an NDR/PDR search, s, for the progress line; 0 in virtual time, or if nobody knows."""
        return 0.0

    def leftovers(self) -> list[str]:
        """What the run leaves on the machine on purpose."""
        return []

    def abandon(self) -> None:  # noqa: B027 - others are only closed
        """Kill what the run started without waiting: a signal handler calls it. ``close`` removes the rest."""

    def close(self) -> None:  # noqa: B027 - nothing was taken
        """Give back what the run took. Can be called twice, and ``parts`` after it."""
