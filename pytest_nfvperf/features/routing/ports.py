"""Routing daemons over a live topology: speakers, what S1's path consists of, and who starts it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.features.routing.model import (
    BfdStatus,
    BgpPathPlan,
    SessionCondition,
    SessionState,
    SpeakerConfig,
    SpeakerInfo,
)
from pytest_nfvperf.measure.rig import Service
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.testbed.testbed import LabSpeaker
from pytest_nfvperf.ports.datapath import BuiltTopology

ESTABLISHED_WITHIN_S = 5.0
_INTERVAL_S = 0.02
_INSTALLED_WITHIN_S = 5.0


class BgpSpeaker(ABC):
    """A routing daemon, or several that belong together, with its own configuration and state.

    Every method raises TestbedError, with the end of the daemon's log, when a daemon has died or does not answer.
    """

    config: SpeakerConfig

    @abstractmethod
    def info(self) -> SpeakerInfo: ...

    @abstractmethod
    def start(self) -> None:
        """Check the configuration with the daemon's own checker, then start. Sessions come up later.

        Raises:
            ConfigError: the daemon refuses the configuration, with its own words.
            TestbedError: a daemon is not installed.
        """

    @abstractmethod
    def session(self, neighbor: str) -> SessionState:
        """The session with a neighbour, by its address; KeyError for an unknown one. Under 20 ms."""

    def await_session(
        self, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
    ) -> SessionState:
        """Wait until a session meets the condition. ``awaited``: what is awaited, for the message.

        A dead or stopped daemon ends the wait, a busy one does not.

        Raises:
            DeadlineError: what was awaited, and what was seen instead, with the daemon's log as evidence.
        """
        last_seen = "nothing yet"

        def look() -> SessionState | None:
            nonlocal last_seen
            self.check()
            try:
                state = self.session(neighbor)
            except TestbedError as error:
                last_seen = error.message
                return None
            last_seen = str(state)
            return state if condition(state) else None

        try:
            return wait_until(
                look,
                f"{self.info().engine} of AS {self.config.asn}: {awaited}",
                deadline_s,
                interval_s=_INTERVAL_S,
                last_seen=lambda: last_seen,
            )
        except DeadlineError as error:
            error.evidence.update(self.logs())
            raise

    @abstractmethod
    def announce(self, prefixes: Sequence[str]) -> None:
        """Originate these prefixes too. Returns when the daemon accepted them, not when neighbours have them."""

    @abstractmethod
    def withdraw(self, prefixes: Sequence[str]) -> None:
        """Stop originating these prefixes; ignores unknown ones."""

    @abstractmethod
    def pids(self) -> Mapping[str, int]:
        """Process ids of the running daemons, by name: to cause faults, and to read their CPU cost."""

    @abstractmethod
    def restart(self) -> None:
        """Restart killed daemons with the same configuration."""

    @abstractmethod
    def check(self) -> None:
        """Raise TestbedError if a daemon has died or is stopped."""

    def logs(self) -> Mapping[str, str]:
        """The last lines of the daemons' logs, by name, for errors."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Stop the daemons and remove what they left. Can be called twice."""


class RouteFollower(Protocol):
    """Turns routes into flows."""

    def await_installed(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        """Wait until a prefix has a flow, or has none any more."""

    def await_count(self, count: int, deadline_s: float) -> None:
        """Wait until ``count`` prefixes have flows."""

    def check(self) -> None:
        """Raise TestbedError if it ended by itself."""

    def close(self) -> None: ...


class Steps(Protocol):
    """Records when each step of a route's change happened."""

    def since(self, began_ns: int, prefix: str, *, gone: bool) -> Mapping[str, float]:
        """Seconds from ``began_ns`` (CLOCK_MONOTONIC) to each step that was seen."""

    def close(self) -> None: ...


class Link(Protocol):
    """A link that a test can set down and up."""

    def down(self) -> None: ...

    def up(self) -> None: ...

    def close(self) -> None:
        """Set it up again if a test left it down."""


@dataclass(frozen=True, slots=True)
class BgpPath(Service):
    """The running daemons of S1.

    Attributes:
        frr: the DUT's speaker.
        bird: its neighbour.
        agent: turns the routes that the DUT's speaker learns into flows.
        frr_link: the VLAN port into FRR's namespace.
        bird_link: between BIRD and the DUT's port.
        watch_steps: begins to record the steps of changes.
    """

    plan: BgpPathPlan
    frr: BgpSpeaker
    bird: BgpSpeaker
    agent: RouteFollower
    frr_link: Link
    bird_link: Link
    watch_steps: Callable[[], Steps]

    @contextmanager
    def steps(self) -> Iterator[Steps]:
        """Record, within this context, when each change of a route reached each step."""
        with closing(self.watch_steps()) as watch:
            yield watch

    def await_established(self, deadline_s: float = ESTABLISHED_WITHIN_S) -> SessionState:
        """Wait until the session and its BFD session are up; DeadlineError has the last state seen."""
        up = (None, BfdStatus.UP)
        return self.frr.await_session(
            self.plan.bird_address, lambda seen: seen.established and seen.bfd in up, "Established, BFD up", deadline_s
        )

    def await_ready(self) -> SessionState:
        """Wait until the session is established, and the routes of both directions (VM, clients) are flows."""
        state = self.await_established()
        for prefix in (self.plan.provider, self.plan.clients):
            self.agent.await_installed(prefix, _INSTALLED_WITHIN_S)
        return state

    def session(self) -> SessionState:
        return self.frr.session(self.plan.bird_address)

    def healthy(self) -> bool:
        """True while everything runs, and the session is up with exactly the announcements of the plan."""
        with suppress(TestbedError):
            self.check()
            as_planned = self.bird.config.announced == (self.plan.clients,)
            return as_planned and self.session().established
        return False

    def check(self) -> None:
        for part in (self.frr, self.bird, self.agent):
            part.check()

    def close(self) -> None:
        with ExitStack() as stack:
            for part in (self.frr_link, self.bird_link, self.agent, self.frr, self.bird):
                stack.callback(part.close)


class BgpDaemons(ABC):
    """Starts routing daemons on a testbed."""

    def lacks(self) -> str | None:
        """What this machine lacks for S1, as text for a person, and what to do; None if it has all."""
        return None

    @abstractmethod
    def start(self, built: BuiltTopology, plan: BgpPathPlan) -> BgpPath:
        """Start the speakers and the agent on a live topology of the plan. Sessions come up later.

        Raises:
            ConfigError: a daemon refused its configuration.
            TestbedError: a daemon is not installed, or did not start.
        """

    @abstractmethod
    def speaker(self, spec: LabSpeaker) -> BgpSpeaker:
        """Open a speaker of the testbed file; it already runs.

        Raises:
            ConfigError: it lacks a protocol that the file names.
            TestbedError: nobody listens where the file says.
        """
