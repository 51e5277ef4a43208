"""The backends' interface: the session uses a real and a simulated testbed alike."""

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
    from pytest_nfvperf.adapters.process.journal import Journal

T = TypeVar("T")


class Backend(Protocol):
    """Makes a testbed real, or simulates it."""

    @property
    def testbed(self) -> Testbed: ...

    @property
    def clock(self) -> Clock: ...

    def check(self) -> None:
        """Raise ConfigError or TestbedError if something that a run needs is missing. Starts nothing."""

    def lacks(self, dut: Dut) -> str | None:
        """What this machine lacks for a datapath, and what the user can do; None if it lacks nothing."""

    def lacks_roles(self, topology: Topology, dut: Dut) -> str | None:
        """Which port roles of a topology this generator cannot take, and what to do; None if it can take all."""

    def lacks_streams(self) -> str | None:
        """What this machine lacks for TCP and UDP streams, and what to do; None if it lacks nothing."""

    def labels(self) -> dict[str, str]: ...

    def describe(self) -> list[str]:
        """DUT and generator, a line each. Starts nothing."""

    def parts(self) -> RigParts:
        """The parts of the rig. Locks the machine for this run."""

    def fingerprint(self) -> Mapping[str, Any]:
        """Facts that must be equal for two runs to be compared."""

    def line_rate_bps(self) -> float | None:
        """Layer-1 rate of the slowest port, None where ports have none."""

    def estimate_search_s(self, profile: Profile) -> float:
        """Duration of an NDR/PDR search, s, for the progress line."""

    def leftovers(self) -> list[str]:
        """What the run leaves on the machine on purpose."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Daemons(Generic[T]):
    """Makers of a feature's daemons, such as routing daemons.

    Attributes:
        on_machine: makes their starter on the machine of a DUT, from a function that returns the run's journal once
            the machine is locked, and from the DUT's OVS.
        simulated: makes their stand-in where nothing is started.
    """

    on_machine: Callable[[Callable[[], Journal], OvsSpec], T]
    simulated: Callable[[], T]


@runtime_checkable
class StartsDaemons(Protocol):
    """A backend that runs the daemons of features on its DUT's machine, or simulates them."""

    def daemons(self, of: Daemons[T]) -> T: ...


@runtime_checkable
class SharesMachine(Protocol):
    """A backend whose machine several runs can share for functional tests, each on a DUT of its own.

    Other backends give every test the whole machine.
    """

    @property
    def can_share(self) -> bool:
        """False where there is only one DUT."""

    def room(self) -> int:
        """Number of rigs that fit into the memory now."""

    def shared_parts(self) -> RigParts:
        """As ``parts``, on a machine that other runs share. Nobody measures meanwhile."""


@runtime_checkable
class Abandons(Protocol):
    """A backend that can kill at once what it has started. Others are only closed."""

    def abandon(self) -> None:
        """Kill what the run started without waiting: a signal handler calls it. ``close`` removes the rest."""
