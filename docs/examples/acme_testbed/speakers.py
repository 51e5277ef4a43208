"""BGP on Acme's switch: two speakers that talk at once, and an agent that fills the switch's table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import pytest_nfvperf as nfv
from acme_testbed.routes import Routes
from pytest_nfvperf import routing

_LOOK_S = 0.01


class AcmeSpeaker:
    """Fulfils routing.BgpSpeaker. ``peer``: the one that it speaks with, known once both are made."""

    def __init__(self, config: routing.SpeakerConfig, routes: Routes) -> None:
        self.config = config
        self.peer: AcmeSpeaker | None = None
        self._routes = routes
        self._started_s: float | None = None

    def info(self) -> routing.SpeakerInfo:
        """Engine and version."""
        return routing.SpeakerInfo("acme-bgp", "1.0")

    def start(self) -> None:
        """Speak, and announce what is configured."""
        self._started_s = time.monotonic()
        self._routes.add(self.config.announced)

    def session(self, neighbor: str) -> routing.SessionState:
        """Established while both run."""
        known = self.config.neighbor(neighbor)
        if self.peer is None or self._started_s is None or self.peer._started_s is None:
            return routing.SessionState(neighbor, known.asn, routing.SessionStatus.ACTIVE, flaps=0)
        return routing.SessionState(
            neighbor,
            known.asn,
            routing.SessionStatus.ESTABLISHED,
            uptime_s=time.monotonic() - max(self._started_s, self.peer._started_s),
            flaps=0,
            received=len(self.peer.config.announced),
            sent=len(self.config.announced),
            bfd=routing.BfdStatus.UP if known.bfd else None,
        )

    def await_session(
        self, neighbor: str, condition: Callable[[routing.SessionState], bool], awaited: str, deadline_s: float
    ) -> routing.SessionState:
        """Look again and again."""
        until_s = time.monotonic() + deadline_s
        while not condition(state := self.session(neighbor)):
            if time.monotonic() > until_s:
                raise nfv.DeadlineError(f"awaited {awaited} for {deadline_s:g} s; seen: {state}")
            time.sleep(_LOOK_S)
        return state

    def announce(self, prefixes: Sequence[str]) -> None:
        """The switch forwards to them at once."""
        self.config = self.config.announcing(tuple(dict.fromkeys((*self.config.announced, *prefixes))))
        self._routes.add(prefixes)

    def withdraw(self, prefixes: Sequence[str]) -> None:
        """The switch forwards to them no longer."""
        gone = set(prefixes)
        self.config = self.config.announcing(tuple(one for one in self.config.announced if one not in gone))
        self._routes.remove(prefixes)

    def pids(self) -> Mapping[str, int]:
        """It is no process of this machine."""
        return {}

    def restart(self) -> None:
        """As ``start``."""
        self.start()

    def check(self) -> None:
        """It runs."""

    def logs(self) -> Mapping[str, str]:
        """It writes none."""
        return {}

    def close(self) -> None:
        """Speak no longer."""
        self._started_s = None
        self._routes.remove(self.config.announced)


class AcmeAgent:
    """Fulfils routing.RouteFollower: the switch's table is what the speakers announced."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def await_installed(self, prefix: str, deadline_s: float, *, gone: bool = False) -> None:
        """It is there at once, or never."""
        if (prefix in self._routes.present()) is gone:
            raise nfv.DeadlineError(f"{prefix} is {'still' if gone else 'not'} in the switch's table")

    def await_count(self, count: int, deadline_s: float) -> None:
        """They are there at once, or never."""
        if (seen := len(self._routes.present())) != count:
            raise nfv.DeadlineError(f"awaited {count} prefixes in the switch's table; seen: {seen}")

    def check(self) -> None:
        """It runs."""

    def close(self) -> None:
        """The switch forwards everything again."""
        self._routes.follows = False


class NoLink:
    """Fulfils routing.Link: Acme's cables cannot be pulled."""

    def down(self) -> None:
        """UnavailableError: nobody is there to pull it."""
        raise nfv.UnavailableError("Acme's cables cannot be pulled")

    def up(self) -> None:
        """It is."""

    def close(self) -> None:
        """Nothing to put back."""


class NoSteps:
    """Fulfils routing.Steps: the switch does not tell when it did what."""

    def since(self, began_ns: int, prefix: str, *, gone: bool) -> Mapping[str, float]:
        """None was seen."""
        return {}

    def close(self) -> None:
        """Nothing is watched."""


class AcmeBgp:
    """Fulfils routing.BgpDaemons."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def lacks(self) -> str | None:
        """Nothing: all is simulated."""
        return None

    def start(self, built: nfv.BuiltTopology, plan: routing.BgpPathPlan) -> routing.BgpParts:
        """Both speakers, with the switch's table empty before."""
        self._routes.follows = True
        dut = AcmeSpeaker(plan.frr_config(), self._routes)
        neighbor = AcmeSpeaker(plan.bird_config(), self._routes)
        dut.peer, neighbor.peer = neighbor, dut
        dut.start()
        neighbor.start()
        return routing.BgpParts(dut, neighbor, AcmeAgent(self._routes), routing.Links(NoLink(), NoLink()), NoSteps)

    def speaker(self, spec: routing.LabSpeaker) -> routing.BgpSpeaker:
        """ConfigError: a testbed of Acme's has none."""
        raise nfv.ConfigError(f"speaker {spec.name!r}: Acme's testbed has no routing daemons that run already")
