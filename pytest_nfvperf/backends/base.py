"""How a testbed becomes real, or is simulated: what the session asks of either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.machine import Clock
from pytest_nfvperf.ports.routing import BgpDaemons, OvnDaemons
from pytest_nfvperf.runs.rig_parts import RigParts


class Backend(Protocol):
    """Makes a testbed real, or simulates it."""

    @property
    def testbed(self) -> Testbed:
        """The testbed that this backend makes real."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock that runs go by."""
        ...

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


@runtime_checkable
class RunsBgp(Protocol):
    """A backend that starts routing daemons: for the fixtures ``bgp``, ``bgp_path`` and ``lab_speakers``."""

    def bgp(self) -> BgpDaemons:
        """Starts routing daemons on topologies of this backend."""
        ...


@runtime_checkable
class RunsOvn(Protocol):
    """A backend that starts OVN: for the fixtures ``private_ovn`` and ``ovn_bgp_agent``."""

    def ovn(self) -> OvnDaemons:
        """Starts OVN over topologies of this backend."""
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
