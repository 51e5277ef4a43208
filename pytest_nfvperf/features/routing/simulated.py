"""Simulated BGP speakers, for plans, replays and tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pytest_nfvperf.features.routing.daemons import wait_for_session
from pytest_nfvperf.features.routing.model import (
    BfdStatus,
    BgpPathPlan,
    SessionState,
    SessionStatus,
    SpeakerConfig,
    SpeakerInfo,
)
from pytest_nfvperf.features.routing.ports import BgpParts, BgpSpeaker
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.testbed import LabSpeaker
from pytest_nfvperf.ports.datapath import BuiltTopology


class FakeWire:
    """Joins fake speakers: they find each other by address, and establish their session at once."""

    def __init__(self) -> None:
        self.speakers: dict[str, FakeSpeaker] = {}


class FakeSpeaker:
    """Fulfils ports.BgpSpeaker. A session is established while both ends run and agree.

    Args:
        wire: where its neighbours are.
        address: its own.
        config: its sessions and routes.
        now: seconds, monotonic.
    """

    await_session = wait_for_session

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
        self.running = False
        self._up_since.clear()

    def session(self, neighbor: str) -> SessionState:
        known = self.config.neighbor(neighbor)
        self.check()
        other = self._wire.speakers.get(neighbor)
        problem = self._problem(neighbor)
        if problem is None:
            self._up_since.setdefault(neighbor, self._now())
        else:
            self._error[neighbor] = problem
            if self._up_since.pop(neighbor, None) is not None:
                self._flaps[neighbor] = self._flaps.get(neighbor, 0) + 1
        up = problem is None and other is not None
        state = SessionState(
            neighbor,
            known.asn,
            SessionStatus.ESTABLISHED if up else SessionStatus.ACTIVE,
            flaps=self._flaps.get(neighbor, 0),
            last_error=self._error.get(neighbor, ""),
            bfd=None if known.bfd is None else BfdStatus.UP if up else BfdStatus.DOWN,
        )
        if problem is not None or other is None:
            return state
        uptime_s = self._now() - self._up_since[neighbor]
        return replace(state, uptime_s=uptime_s, received=len(other.config.announced), sent=len(self.config.announced))

    def _problem(self, neighbor: str) -> str | None:
        other = self._wire.speakers.get(neighbor)
        if other is None or not other.running:
            return "Peer closed the session"
        mine = self.config.neighbor(neighbor)
        theirs = next((n for n in other.config.neighbors if n.address == self._address), None)
        if theirs is None or theirs.asn != self.config.asn or mine.asn != other.config.asn:
            return "OPEN Message Error/Bad Peer AS"
        return None if theirs.password == mine.password else "connection timed out"

    def announce(self, prefixes: Sequence[str]) -> None:
        self.check()
        self.config = self.config.with_prefixes(prefixes)

    def withdraw(self, prefixes: Sequence[str]) -> None:
        self.check()
        self.config = self.config.without_prefixes(prefixes)

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
    """Stands in for the route agent in a plan: every wait succeeds at once."""

    def await_installed(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None: ...

    def await_count(self, count: int, deadline_s: float) -> None: ...

    def check(self) -> None: ...

    def close(self) -> None: ...


class SimulatedLink:
    def down(self) -> None: ...

    def up(self) -> None: ...

    def close(self) -> None: ...


class NoSteps:
    def since(self, began_ns: int, prefix: str, *, gone: bool) -> Mapping[str, float]:  # noqa: ARG002 - it sees none
        return {}

    def close(self) -> None: ...


class SimulatedBgp:
    """Fulfils ports.BgpDaemons. Starts nothing, and nothing follows the routes of its speakers."""

    def lacks(self) -> str | None:
        return None

    def start(self, built: BuiltTopology, plan: BgpPathPlan) -> BgpParts:  # noqa: ARG002 - nothing is deployed
        wire = FakeWire()
        dut = FakeSpeaker(wire, plan.frr_address, plan.frr_config())
        neighbor = FakeSpeaker(wire, plan.bird_address, plan.bird_config())
        for speaker in (dut, neighbor):
            speaker.start()
        return BgpParts(dut, neighbor, SimulatedAgent(), SimulatedLink(), SimulatedLink(), NoSteps)

    def speaker(self, spec: LabSpeaker) -> BgpSpeaker:  # noqa: ARG002 - none is there
        plan = BgpPathPlan()
        speaker = FakeSpeaker(FakeWire(), plan.frr_address, plan.frr_config())
        speaker.start()
        return speaker
