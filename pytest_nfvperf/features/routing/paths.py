"""Paths with BGP for tests: deployed with their daemons, watched while they are measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_nfvperf.adapters.host.cpu_account import cpu_waits, longest_wait
from pytest_nfvperf.backends.base import Daemons
from pytest_nfvperf.features.routing.daemons import SessionSampler
from pytest_nfvperf.features.routing.model import BgpPathPlan, SessionState
from pytest_nfvperf.features.routing.ports import ESTABLISHED_WITHIN_S, BgpDaemons, BgpPath, BgpSpeaker
from pytest_nfvperf.features.routing.simulated import SimulatedBgp
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import DeadlineError, DutFailure, InconclusiveError, UnavailableError
from pytest_nfvperf.model.evidence.records import AttachmentData
from pytest_nfvperf.model.measure.outcome import ObservedSessions
from pytest_nfvperf.model.testbed.testbed import OvsSpec
from pytest_nfvperf.model.traffic.traffic import Imix, Traffic
from pytest_nfvperf.session.deployment import Deployer
from pytest_nfvperf.session.run import NfvSession

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.process.journal import Journal

_BACK_WITHIN_S = 15.0
"""For a session that an overload took down: BGP's and BFD's own timers, and a retry or two."""

_MAX_CPU_WAIT_RATIO = 0.1
"""Share of the time until the deadline that a daemon may have been ready and without a CPU. BFD ends a session after
150 ms, BGP retries in seconds: neither survives a wait of a tenth of a deadline of some seconds."""


@contextmanager
def judged_wait(pids: Callable[[], Mapping[str, int]]) -> Iterator[None]:
    """Around a wait for daemons: turns its DeadlineError into a result of the test.

    A timeout is the DUT's fault, unless the machine did not let the daemons run.

    Args:
        pids: of the running daemons, by name.

    Raises:
        DutFailure: the deadline passed while the daemons could run; with the wait's evidence.
        InconclusiveError: the deadline passed, and a daemon waited for a CPU for much of the time.
    """
    before, began = cpu_waits(pids()), time.monotonic()
    try:
        yield
    except DeadlineError as error:
        who, waited_s = longest_wait(before, cpu_waits(pids()))
        elapsed_s = time.monotonic() - began
        if waited_s > _MAX_CPU_WAIT_RATIO * elapsed_s:
            raise InconclusiveError(
                f"{error.message}. But {who} was ready and waited {format_seconds(waited_s)} of "
                f"{format_seconds(elapsed_s)} for a CPU: the machine was too busy for its daemons; leave it alone "
                "meanwhile"
            ) from error
        raise DutFailure(error.message, evidence=error.evidence) from error


def _on_machine(journal: Callable[[], Journal], ovs: OvsSpec) -> BgpDaemons:  # noqa: ARG001 - daemons of any OVS
    from pytest_nfvperf.features.routing.path_daemons import LocalBgp  # noqa: PLC0415 - a plan needs none of them

    return LocalBgp(journal)


BGP: Daemons[BgpDaemons] = Daemons("BGP", _on_machine, SimulatedBgp)


class LiveBgpPath:
    """S1 as it is deployed: measure on ``live``, with ``traffic``; ``path`` has the daemons.

    The daemons are started again whenever the topology is built again; ``path`` is then a new one.

    Attributes:
        started_s: when they were started, on the clock of ``now_s``.
        name: of the session, for reports (measure.measurer).
    """

    def __init__(self, session: NfvSession, live: LiveTopology, plan: BgpPathPlan) -> None:
        self.live = live
        self.plan = plan
        self.name = f"BGP session with {plan.bird_address}"
        self.path: BgpPath
        self.started_s: float
        self._session = session
        live.start_service(self._start)

    def _start(self, live: LiveTopology) -> BgpPath:
        rebuilt = hasattr(self, "path")
        self.started_s = self.now_s()
        self.path = bgp_daemons(self._session).start(live.deployment.built, self.plan)
        if rebuilt:
            self.path.await_ready()  # a measurement follows at once
        return self.path

    def now_s(self) -> float:
        """Seconds on the run's monotonic clock."""
        return self._session.backend.clock.monotonic()

    @property
    def is_ready(self) -> bool:
        """True while its topology is deployed and everything is as planned."""
        return self.live.is_deployed and self.path.healthy()

    def sessions(self) -> SessionSampler:
        """For ``soak.run(..., also=[...])``: the session and BFD of the FRR that currently runs."""
        return SessionSampler(lambda: self.path.frr)

    def await_ready(self) -> None:
        """Wait until the session and BFD are up, and the routes of both directions are flows; also after an overload.

        All ``await_...`` methods raise DutFailure when the deadline passes, InconclusiveError if the daemons got too
        little CPU time, and TestbedError if a daemon is gone.
        """
        with judged_wait(self._pids):
            self.path.await_established(_BACK_WITHIN_S)
            self.path.await_ready()

    def await_established(self, deadline_s: float = ESTABLISHED_WITHIN_S) -> SessionState:
        with judged_wait(self._pids):
            return self.path.await_established(deadline_s)

    def await_received(self, prefixes: int, deadline_s: float) -> SessionState:
        neighbor, what = self.plan.bird_address, f"{prefixes} prefixes"
        with judged_wait(self._pids):
            return self.path.frr.await_session(neighbor, lambda seen: seen.received == prefixes, what, deadline_s)

    def await_installed(self, prefix: str, deadline_s: float) -> None:
        with judged_wait(self._pids):
            self.path.agent.await_installed(prefix, deadline_s)

    def await_count(self, prefixes: int, deadline_s: float) -> None:
        with judged_wait(self._pids):
            self.path.agent.await_count(prefixes, deadline_s)

    def _pids(self) -> dict[str, int]:
        return {**self.path.frr.pids(), **self.path.bird.pids()}

    def flaps(self) -> int | None:
        """How often the session left Established since FRR started; None if FRR does not report it."""
        return self.path.session().flaps

    def session_drops_since(self, before: SessionState, *trials: str) -> dict[str, Any]:
        """Fields of an Outcome: how often the session went down since ``before``, or why this is unknown."""
        now = self.path.session()
        if now.flaps is None or before.flaps is None:
            return {"missing": {"session_flaps": f"{self.name}: FRR does not report how often it went down"}}
        down = max(now.flaps - before.flaps, int(not now.established))
        return {"sessions": ObservedSessions(self.name, down, trials)}

    def keep_logs(self, why: str) -> None:
        """Add the ends of both speakers' logs to the evidence. ``why``: the reason, shown after the log's name."""
        for speaker in (self.path.frr, self.path.bird):
            for name, text in speaker.logs().items():
                self._session.recorder.emit(AttachmentData(f"{name}: {why}", text=text))

    def traffic(self, frame_size: int | Imix = 64, **changes: Any) -> Traffic:
        """Traffic from a client to the VM, and back."""
        return self.plan.traffic(frame_size, **changes)


class BgpPathDeployer:
    """The fixture ``bgp``. ``last``: the path of an earlier test, which this test reuses if it is still as planned."""

    def __init__(self, session: NfvSession, deploy: Deployer, last: list[LiveBgpPath]) -> None:
        self._session = session
        self._deploy = deploy
        self._last = last

    def __call__(self, plan: BgpPathPlan | None = None) -> LiveBgpPath:
        """Deploy S1 and start its daemons; ``path.await_ready()`` waits for the session and the flows.

        Args:
            plan: S1's own when None.

        Raises:
            ConfigError: a daemon refused its configuration.
            TestbedError: it could not be built, or a daemon did not start.
            UnavailableError: this testbed lacks what BGP needs.
        """
        plan = plan or BgpPathPlan()
        lacking = bgp_daemons(self._session).lacks()
        if lacking is not None:
            raise UnavailableError(lacking)
        for path in self._last:
            if path.plan == plan and path.is_ready:
                return path
            path.live.stop_services()
        self._last.clear()
        path = LiveBgpPath(self._session, self._deploy(plan.topology()), plan)
        self._last.append(path)
        return path


def open_speakers(session: NfvSession, opened: dict[str, BgpSpeaker]) -> None:
    """Open the speakers of the testbed file that are not in ``opened`` yet; errors as of ports.BgpDaemons.speaker."""
    for spec in session.backend.testbed.speakers:
        if spec.name not in opened:
            session.take_machine()
            opened[spec.name] = bgp_daemons(session).speaker(spec)


def bgp_daemons(session: NfvSession) -> BgpDaemons:
    """What starts routing daemons on this testbed; UnavailableError if nothing does."""
    return session.backend.daemons(BGP)
