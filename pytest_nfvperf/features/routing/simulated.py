"""Simulated BGP speakers, for plans, replays and tests."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_nfvperf.features.routing.model import (
    BfdStatus,
    BgpPathPlan,
    SessionState,
    SessionStatus,
    SpeakerConfig,
    SpeakerInfo,
)
from pytest_nfvperf.features.routing.ports import BgpDaemons, BgpPath, BgpSpeaker
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.testbed.testbed import LabSpeaker
from pytest_nfvperf.ports.datapath import BuiltTopology


class FakeSpeaker(BgpSpeaker):
    """A session is established, at once, while both ends run.

    Args:
        wire: the running speakers by address; this one adds itself when it starts.
        address: its own.
        config: its sessions and routes.
    """

    def __init__(self, wire: dict[str, FakeSpeaker], address: str, config: SpeakerConfig) -> None:
        self.config = config
        self.running = False
        self._wire = wire
        self._address = address
        self._up_since: dict[str, float] = {}
        self._flaps: Counter[str] = Counter()
        self._error: dict[str, str] = {}

    def info(self) -> SpeakerInfo:
        return SpeakerInfo("fake", "1", ("fake",))

    def start(self) -> None:
        self.running = True
        self._wire[self._address] = self

    def restart(self) -> None:
        self.start()

    def kill(self) -> None:
        self.running = False
        self._up_since.clear()

    def session(self, neighbor: str) -> SessionState:
        known = self.config.neighbor(neighbor)
        self.check()
        other = self._wire.get(known.address)
        problem = None if other is not None and other.running else "Peer closed the session"
        if problem is None:
            self._up_since.setdefault(neighbor, time.monotonic())
        else:
            self._error[neighbor] = problem
            if self._up_since.pop(neighbor, None) is not None:
                self._flaps[neighbor] += 1
        state = SessionState(
            neighbor,
            known.asn,
            SessionStatus.ESTABLISHED if problem is None else SessionStatus.ACTIVE,
            flaps=self._flaps[neighbor],
            last_error=self._error.get(neighbor, ""),
            bfd=None if known.bfd is None else BfdStatus.UP if problem is None else BfdStatus.DOWN,
        )
        if problem is not None:
            return state
        uptime_s, received = time.monotonic() - self._up_since[neighbor], len(self._wire[neighbor].config.announced)
        return replace(state, uptime_s=uptime_s, received=received, sent=len(self.config.announced))

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

    def close(self) -> None:
        self.kill()
        self._wire.pop(self._address, None)


class SimulatedPart:
    """A RouteFollower, Link and Steps in a plan: every wait succeeds, and no step is seen."""

    def await_installed(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None: ...

    def await_count(self, count: int, deadline_s: float) -> None: ...

    def down(self) -> None: ...

    def up(self) -> None: ...

    def since(self, began_ns: int, prefix: str, *, gone: bool) -> Mapping[str, float]:  # noqa: ARG002 - it sees none
        return {}

    def check(self) -> None: ...

    def close(self) -> None: ...


class SimulatedBgp(BgpDaemons):
    """Starts nothing, and nothing follows the routes of its speakers."""

    def start(self, built: BuiltTopology, plan: BgpPathPlan) -> BgpPath:  # noqa: ARG002 - nothing is deployed
        wire: dict[str, FakeSpeaker] = {}
        dut = FakeSpeaker(wire, plan.frr_address, plan.frr_config())
        neighbor = FakeSpeaker(wire, plan.bird_address, plan.bird_config())
        dut.start()
        neighbor.start()
        part = SimulatedPart()
        return BgpPath(plan, dut, neighbor, agent=part, frr_link=part, bird_link=part, watch_steps=SimulatedPart)

    def speaker(self, spec: LabSpeaker) -> BgpSpeaker:  # noqa: ARG002 - none is there
        plan = BgpPathPlan()
        speaker = FakeSpeaker({}, plan.frr_address, plan.frr_config())
        speaker.start()
        return speaker
