"""A simulated BGP speaker, for plans, replays and tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from pytest_nfvperf.features.routing.daemons import await_session
from pytest_nfvperf.features.routing.model import (
    BfdStatus,
    BgpPathPlan,
    SessionCondition,
    SessionState,
    SessionStatus,
    SpeakerConfig,
    SpeakerInfo,
)
from pytest_nfvperf.features.routing.ports import BgpParts, BgpSpeaker
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.testbed import LabSpeaker
from pytest_nfvperf.ports.datapath import BuiltTopology

# Two speakers on one ``FakeWire`` establish their session at once.


class FakeWire:
    """What joins fake speakers: they find each other by address."""

    def __init__(self) -> None:
        self.speakers: dict[str, FakeSpeaker] = {}


class FakeSpeaker:
    """Fulfils ports.routing.BgpSpeaker. A session is established while both ends run and agree.

    Args:
        wire: where its neighbours are.
        address: its own.
        config: what it is.
        now: seconds, monotonic.
    """

    def __init__(
        self, wire: FakeWire, address: str, config: SpeakerConfig, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.config = config
        self.running = False
        self._wire = wire
        self._address = address
        self._now = now
        self._up_since: dict[str, float] = {}
        self._flaps: dict[str, int] = {}
        self._error: dict[str, str] = {}

    def info(self) -> SpeakerInfo:
        return SpeakerInfo("fake", "1", ("fake",))

    def start(self) -> None:
        self.running = True
        self._wire.speakers[self._address] = self

    def restart(self) -> None:
        self.start()

    def kill(self) -> None:
        """Be gone, as a killed daemon is."""
        self.running = False
        self._up_since.clear()

    def session(self, neighbor: str) -> SessionState:
        known = self.config.neighbor(neighbor)
        self.check()
        other = self._wire.speakers.get(neighbor)
        problem = self._problem(neighbor)
        self._note(neighbor, problem)
        if problem is not None or other is None:
            return SessionState(
                neighbor,
                known.asn,
                SessionStatus.ACTIVE,
                flaps=self._flaps.get(neighbor, 0),
                last_error=self._error.get(neighbor, ""),
                bfd=BfdStatus.DOWN if known.bfd else None,
            )
        return SessionState(
            neighbor,
            known.asn,
            SessionStatus.ESTABLISHED,
            uptime_s=self._now() - self._up_since[neighbor],
            flaps=self._flaps.get(neighbor, 0),
            received=len(other.config.announced),
            sent=len(self.config.announced),
            last_error=self._error.get(neighbor, ""),
            bfd=BfdStatus.UP if known.bfd else None,
        )

    def _problem(self, neighbor: str) -> str | None:
        other = self._wire.speakers.get(neighbor)
        if other is None or not other.running:
            return "Peer closed the session"
        mine = self.config.neighbor(neighbor)
        theirs = next((n for n in other.config.neighbors if n.address == self._address), None)
        if theirs is None or theirs.asn != self.config.asn or mine.asn != other.config.asn:
            return "OPEN Message Error/Bad Peer AS"
        return None if theirs.password == mine.password else "connection timed out"

    def _note(self, neighbor: str, problem: str | None) -> None:
        if problem is None:
            self._up_since.setdefault(neighbor, self._now())
            return
        self._error[neighbor] = problem
        if self._up_since.pop(neighbor, None) is not None:
            self._flaps[neighbor] = self._flaps.get(neighbor, 0) + 1

    def await_session(
        self, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
    ) -> SessionState:
        return await_session(self, neighbor, condition, awaited, deadline_s)

    def announce(self, prefixes: Sequence[str]) -> None:
        self.check()
        self.config = self.config.announcing(tuple(dict.fromkeys((*self.config.announced, *prefixes))))

    def withdraw(self, prefixes: Sequence[str]) -> None:
        self.check()
        gone = set(prefixes)
        self.config = self.config.announcing(tuple(p for p in self.config.announced if p not in gone))

    def pids(self) -> Mapping[str, int]:
        return {}

    def check(self) -> None:
        if not self.running:
            raise TestbedError(f"the fake speaker of AS {self.config.asn} was killed by SIGKILL")

    def logs(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        self.kill()
        self._wire.speakers.pop(self._address, None)


class SimulatedAgent:
    """Stands for the route agent in a plan: whatever is waited for is there."""

    def await_installed(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        """It is."""

    def await_count(self, count: int, deadline_s: float) -> None:
        """They are."""

    def check(self) -> None:
        """It goes on."""

    def close(self) -> None:
        """Nothing to end."""


class SimulatedLink:
    """Stands for a link in a plan: nothing is pulled."""

    def down(self) -> None:
        """It stays."""

    def up(self) -> None:
        """It is."""

    def close(self) -> None:
        """Nothing to put back."""


class NoSteps:
    """Stands for a watch over steps in a plan: none is seen."""

    def since(self, began_ns: int, prefix: str, *, gone: bool) -> Mapping[str, float]:  # noqa: ARG002 - none of any
        return {}

    def close(self) -> None:
        """Nothing to close."""


# For plans: nothing follows the routes of these speakers.


class SimulatedBgp:
    """Fulfils ports.routing.BgpDaemons. Nothing is started."""

    def lacks(self) -> str | None:
        return None

    def start(self, built: BuiltTopology, plan: BgpPathPlan) -> BgpParts:  # noqa: ARG002 - nothing is deployed
        """Two speakers that know of each other."""
        wire = FakeWire()
        dut = FakeSpeaker(wire, plan.frr_address, plan.frr_config())
        neighbor = FakeSpeaker(wire, plan.bird_address, plan.bird_config())
        for speaker in (dut, neighbor):
            speaker.start()
        return BgpParts(dut, neighbor, SimulatedAgent(), SimulatedLink(), SimulatedLink(), NoSteps)

    def speaker(self, spec: LabSpeaker) -> BgpSpeaker:  # noqa: ARG002 - none is there
        """One that replaces any of a lab's."""
        plan = BgpPathPlan()
        speaker = FakeSpeaker(FakeWire(), plan.frr_address, plan.frr_config())
        speaker.start()
        return speaker
