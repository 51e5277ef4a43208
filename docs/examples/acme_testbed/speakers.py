"""BGP on Acme's switch: two speakers, a process each, and an agent that fills the switch's table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest_nfvperf as nfv
from acme_testbed.daemon import Daemon
from acme_testbed.routes import Routes
from acme_testbed.session import Cable, Session, wait_until
from pytest_nfvperf import extend


class AcmeSpeaker(extend.BgpSpeaker):
    """A speaker in a process of its own.

    Args:
        role: "dut" or "neighbour".
        config: what it is configured with.
        session: with the other speaker.
        learned: prefixes that the other speaker announces.
    """

    def __init__(
        self, role: str, config: extend.SpeakerConfig, session: Session, learned: Callable[[], Sequence[str]]
    ) -> None:
        self.config = config
        self._role = role
        self._session = session
        self._learned = learned
        self._daemon = Daemon(self._notify)

    def _notify(self, runs: bool) -> None:
        """The process runs, or not any more: so does the session."""
        if runs:
            self._session.clear(self._role)
        else:
            self._session.hinder(self._role, keep_routes=self.config.graceful_restart)

    def info(self) -> extend.SpeakerInfo:
        """Engine and version."""
        return extend.SpeakerInfo("acme-bgp", "1.0", ("acme-bgpd",))

    def start(self) -> None:
        """Speak, and announce what is configured."""
        self._session.learn(self.config.announced)
        self._daemon.start()

    def session(self, neighbor: str) -> extend.SessionState:
        """As both see it."""
        self.check()
        known = self.config.neighbor(neighbor)
        since_s, flaps = self._session.established_s, self._session.flaps
        if since_s is None:
            return extend.SessionState(neighbor, known.asn, extend.SessionStatus.ACTIVE, flaps=flaps)
        return extend.SessionState(
            neighbor,
            known.asn,
            extend.SessionStatus.ESTABLISHED,
            uptime_s=time.monotonic() - since_s,
            flaps=flaps,
            received=len(self._learned()),
            sent=len(self.config.announced),
            bfd=extend.BfdStatus.UP if known.bfd else None,
        )

    def announce(self, prefixes: Sequence[str]) -> None:
        """The switch forwards to them at once."""
        self.config = self.config.with_prefixes(prefixes)
        self._session.learn(prefixes)

    def withdraw(self, prefixes: Sequence[str]) -> None:
        """The switch forwards to them no longer."""
        self.config = self.config.without_prefixes(prefixes)
        self._session.forget(prefixes)

    def pids(self) -> Mapping[str, int]:
        """Of its process."""
        return {} if self._daemon.pid is None else {"acme-bgpd": self._daemon.pid}

    def restart(self) -> None:
        """Start it again, if it was killed."""
        self._daemon.start()

    def check(self) -> None:
        """TestbedError when it was killed."""
        if self._daemon.pid is None:
            raise nfv.TestbedError(f"acme-bgpd of the {self._role} does not run")

    def close(self) -> None:
        """Speak no longer."""
        self._daemon.close()
        self._session.forget(self.config.announced)


class AcmeAgent:
    """A BgpPath.agent: the switch's table is what the speakers announced."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def await_installed(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        """Until it is in the table, or not any more."""
        awaited = f"{prefix} to be {'gone from' if gone else 'in'} the switch's table"
        wait_until(lambda: (prefix in self._routes.present()) is not gone, awaited, deadline_s, self._count)

    def await_count(self, count: int, deadline_s: float) -> None:
        """Until so many are in the table."""
        awaited = f"{count} prefixes in the switch's table"
        wait_until(lambda: len(self._routes.present()) == count, awaited, deadline_s, self._count)

    def _count(self) -> str:
        return f"{len(self._routes.present())} prefixes"

    def check(self) -> None:
        """It runs."""

    def close(self) -> None:
        """The switch forwards everything again."""
        self._routes.follows = False


class NoSteps:
    """What BgpPath.watch_steps returns: the switch does not tell when it did what."""

    def since(self, began_ns: int, prefix: str, *, gone: bool) -> Mapping[str, float]:
        """None was seen."""
        return {}

    def close(self) -> None:
        """Nothing is watched."""


class AcmeBgp:
    """Starts the daemons: what AcmeBackend.daemons() returns."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def lacks(self) -> str | None:
        """Nothing: all is simulated."""
        return None

    def start(self, built: extend.BuiltTopology, plan: nfv.BgpPathPlan) -> extend.BgpPath:
        """Both speakers, with the switch's table empty before."""
        self._routes.follows = True
        session = Session(self._routes, obstacles=("dut", "neighbour"))
        dut = AcmeSpeaker("dut", plan.frr_config(), session, lambda: neighbor.config.announced)
        neighbor = AcmeSpeaker("neighbour", plan.bird_config(), session, lambda: dut.config.announced)
        dut.start()
        neighbor.start()
        cables = Cable("the DUT's cable", session), Cable("the neighbour's cable", session)
        return extend.BgpPath(plan, dut, neighbor, AcmeAgent(self._routes), *cables, NoSteps)

    def speaker(self, spec: Any) -> extend.BgpSpeaker:
        """ConfigError: a testbed of Acme's has none."""
        raise nfv.ConfigError(f"speaker {spec.name!r}: Acme's testbed has no routing daemons that run already")
