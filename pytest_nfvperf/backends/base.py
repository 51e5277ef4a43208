"""How a testbed becomes real, or is simulated: what the session asks of either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from pytest_nfvperf.measure.rig import RigParts
from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.testbed.testbed import Dut, OvsSpec, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.machine import Clock

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.journal.journal import Journal

T = TypeVar("T")


class Backend(Protocol):
    """Makes a testbed real, or simulates it."""

    @property
    def testbed(self) -> Testbed:
        """The testbed that this backend makes real."""
        ...

    @property
    def clock(self) -> Clock: ...

    def check(self) -> None:
        """Raise ConfigError or TestbedError if something that a run needs is missing. Starts nothing."""
        ...

    def lacks(self, dut: Dut) -> str | None:
        """What this machine lacks for a datapath, and what to do, as text for the user; None if it lacks nothing."""
        ...

    def lacks_roles(self, topology: Topology, dut: Dut) -> str | None:
        """Which port roles of a topology this generator cannot take, and what to do; None if it can take all."""
        ...

    def lacks_streams(self) -> str | None:
        """What this machine lacks for TCP and UDP streams, and what to do; None if it lacks nothing."""
        ...

    def labels(self) -> dict[str, str]:
        """Labels that every subject on this testbed has."""
        ...

    def describe(self) -> list[str]:
        """DUT and generator, a line each. Starts nothing."""
        ...

    def parts(self) -> RigParts:
        """The parts of the rig. Locks the machine for this run."""
        ...

    def fingerprint(self) -> Mapping[str, Any]:
        """What must be equal for two runs to be compared."""
        ...

    def line_rate_bps(self) -> float | None:
        """Layer-1 rate of the slowest port, None where ports have none."""
        ...

    def estimate_search_s(self, profile: Profile) -> float:
        """How long an NDR/PDR search takes, for the progress line."""
        ...

    def leftovers(self) -> list[str]:
        """What the run leaves on the machine on purpose."""
        ...

    def close(self) -> None:
        """Release the machine. Can be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class Daemons(Generic[T]):
    """What a feature starts beside the DUT, such as routing daemons.

    Attributes:
        on_machine: makes what starts them on the machine of a DUT, from what gives the run's journal once the machine
            is taken, and from the DUT's OVS.
        simulated: makes what stands for them where nothing is started.
    """

    on_machine: Callable[[Callable[[], Journal], OvsSpec], T]
    simulated: Callable[[], T]


@runtime_checkable
class StartsDaemons(Protocol):
    """A backend on whose DUT's machine the daemons of any feature run, or are simulated."""

    def daemons(self, of: Daemons[T]) -> T:
        """What starts those of a feature."""
        ...


@runtime_checkable
class SharesMachine(Protocol):
    """A backend for functional tests on whose machine others run functional tests meanwhile, each on a DUT of its own.

    One without ``parts_beside`` gives every test the machine alone.
    """

    @property
    def can_share(self) -> bool:
        """False where there is but one DUT."""
        ...

    def room(self) -> int:
        """How many rigs there is memory for now."""
        ...

    def parts_beside(self) -> RigParts:
        """As ``parts``, but others that share the machine may run at the same time; nobody measures meanwhile."""
        ...


@runtime_checkable
class Abandons(Protocol):
    """A backend that can end at once what it has started on the machine; one without is closed as ever."""

    def abandon(self) -> None:
        """Kill what the run started, and wait for nobody: a signal handler calls it. ``close`` removes the rest."""
        ...
