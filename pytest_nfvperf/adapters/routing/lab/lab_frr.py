"""An FRR that runs already and is somebody else's, as a ports.bgp_speaker.BgpSpeaker: looked at, and asked to announce.

It is neither started, stopped nor restarted, and its files are not touched. What it announces for us is a blackhole
route (staticd, or mgmtd where it runs: FRR 9 and newer) and a ``network`` statement (bgpd), given at run time and taken
back: the route because bgpd announces only what is in its table (``bgp network import-check``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.routing.frr.frr_config import static_route
from pytest_nfvperf.adapters.routing.frr.frr_state import session_state
from pytest_nfvperf.adapters.routing.frr.frr_vty import Vty
from pytest_nfvperf.adapters.routing.lab.lab_process import LabProcess
from pytest_nfvperf.adapters.routing.lab.lab_undo import Announced
from pytest_nfvperf.adapters.routing.speakers.awaiting import await_session
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.routing.bgp import (
    BfdTimers,
    Neighbor,
    SessionCondition,
    SessionState,
    SpeakerConfig,
    SpeakerInfo,
    family_of,
)
from pytest_nfvperf.model.testbed.testbed import LabSpeaker


class LabFrr:
    """FRR by the directory of its ``*.vty`` sockets.

    Args:
        journal: of this run: what is announced is noted before.
        spec: which one.

    Raises:
        TestbedError: bgpd does not listen there, or has no instance.
    """

    def __init__(self, journal: Journal, spec: LabSpeaker) -> None:
        self._name = spec.name
        self._directory = Path(spec.socket)
        advice = f"is FRR running, and is its directory right? (speaker {spec.name!r} of the testbed file)"
        self._process = LabProcess("bgpd", self._directory / "bgpd.vty", advice)
        self._routes = "mgmtd" if (self._directory / "mgmtd.vty").exists() else "staticd"
        self._vtys = {name: Vty(self._directory / f"{name}.vty", name) for name in ("bgpd", self._routes)}
        self._announced = Announced(journal)
        try:
            self.config = self._discover()
        except BaseException:
            self._vtys["bgpd"].close()
            raise

    def _discover(self) -> SpeakerConfig:
        summary = self._ask("show bgp summary json")
        families = [family for family in summary.values() if isinstance(family, dict) and family.get("as")]
        if not families:
            raise TestbedError(f"bgpd of speaker {self._name!r} has no neighbour: there is no session to watch")
        peers = self._ask("show bgp neighbors json")
        neighbors = tuple(
            Neighbor(address, told["remoteAs"], bfd=_bfd(told))
            for address, told in peers.items()
            if isinstance(told, dict) and told.get("remoteAs")
        )
        return SpeakerConfig(families[0]["as"], families[0]["routerId"], neighbors)

    def info(self) -> SpeakerInfo:
        """Engine, version, daemons."""
        version = self._vtys["bgpd"].run("show version").split()[1]
        return SpeakerInfo("FRR", version, ("bgpd",))

    def start(self) -> None:
        """It runs already; TestbedError when it does not."""
        self.check()

    def session(self, neighbor: str) -> SessionState:
        """The session with a neighbour."""
        known = self.config.neighbor(neighbor)
        return session_state(known, self._ask(f"show bgp neighbors {neighbor} json").get(neighbor, {}), "")

    def _ask(self, command: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = json.loads(self._run("bgpd", command))
        return answer

    def _run(self, daemon: str, *commands: str) -> str:
        try:
            return self._vtys[daemon].run(*commands)
        except TestbedError:
            self._process.check_after_error()  # that it died, or is stopped, says more
            raise

    def await_session(
        self, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
    ) -> SessionState:
        """Wait until a session is as wanted."""
        return await_session(self, neighbor, condition, awaited, deadline_s)

    def announce(self, prefixes: Sequence[str]) -> None:
        """Until ``withdraw`` or ``close``.

        Raises:
            ConfigError: it is in FRR's own configuration.
        """
        for prefix in prefixes:
            if prefix not in self._announced.prefixes:
                self._refuse_theirs(prefix)
                self._configure(self._routes, prefix, (), static_route(prefix))
                family = f"address-family {family_of(prefix)} unicast"
                self._configure("bgpd", prefix, (f"router bgp {self.config.asn}", family), f"network {prefix}")
        self.config = self.config.announcing(self._announced.prefixes)

    def _refuse_theirs(self, prefix: str) -> None:
        for daemon in (self._routes, "bgpd"):
            for line in self._run(daemon, "show running-config").splitlines():
                words = line.split()
                if prefix in words and (words[0] == "network" or words[1] == "route"):
                    raise ConfigError(
                        f"speaker {self._name!r} has {line.strip()!r} in its own configuration, which is left alone: "
                        "announce another prefix"
                    )

    def _configure(self, daemon: str, prefix: str, within: Sequence[str], line: str) -> None:
        commands = [("configure terminal", *within, statement, "end") for statement in (line, f"no {line}")]
        self._announced.note(prefix, daemon, self._directory / f"{daemon}.vty", commands[1])
        self._run(daemon, *commands[0])

    def withdraw(self, prefixes: Sequence[str]) -> None:
        """What we announced; FRR's own announcements stay."""
        for prefix in prefixes:
            self._announced.take_back(prefix)
        self.config = self.config.announcing(self._announced.prefixes)

    def pids(self) -> Mapping[str, int]:
        """Of bgpd."""
        return {} if self._process.pid is None else {"bgpd": self._process.pid}

    def restart(self) -> None:
        """TestbedError: it is not ours."""
        raise TestbedError(f"FRR of speaker {self._name!r} belongs to somebody else: nfvperf does not restart it")

    def check(self) -> None:
        """TestbedError when it has ended or is stopped."""
        self._process.check()

    def logs(self) -> Mapping[str, str]:
        """Where they are is not known."""
        return {}

    def close(self) -> None:
        """Take back what we announced. Can be called twice."""
        self.withdraw(self._announced.prefixes)
        for vty in self._vtys.values():
            vty.close()


def _bfd(told: Mapping[str, Any]) -> BfdTimers | None:
    found = told.get("peerBfdInfo")
    if not isinstance(found, dict):
        return None
    return BfdTimers(found.get("txMinInterval", BfdTimers().interval_ms), found.get("detectMultiplier", 3))
