"""An FRR that runs already and is somebody else's.

What it announces for us is a ``network`` statement of bgpd and a blackhole route, because bgpd announces only what is
in its table (``bgp network import-check``). The route is staticd's, or mgmtd's where that runs (FRR 9 and newer).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.routing.frr.frr_config import static_route
from pytest_nfvperf.adapters.routing.frr.frr_state import frr_session_state
from pytest_nfvperf.adapters.routing.frr.frr_vty import Vty
from pytest_nfvperf.adapters.routing.lab.lab_process import LabProcess
from pytest_nfvperf.adapters.routing.lab.lab_undo import Announced
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.routing.bgp import BfdTimers, Neighbor, SessionState, SpeakerConfig, family_of
from pytest_nfvperf.model.testbed.testbed import LabSpeaker


class LabFrr:
    """Fulfils lab_speaker.LabEngine: FRR by the directory of its ``*.vty`` sockets.

    Args:
        spec: which one.

    Raises:
        TestbedError: bgpd does not listen there, or has no instance.
    """

    name = "FRR"

    def __init__(self, spec: LabSpeaker) -> None:
        self._speaker = spec.name
        self._directory = Path(spec.socket)
        advice = f"is FRR running, and is its directory right? (speaker {spec.name!r} of the testbed file)"
        self.process = LabProcess("bgpd", self._directory / "bgpd.vty", advice)
        self._routes = "mgmtd" if (self._directory / "mgmtd.vty").exists() else "staticd"
        self._vtys = {name: Vty(self._directory / f"{name}.vty", name) for name in ("bgpd", self._routes)}
        try:
            self.config = self._discover()
        except BaseException:
            self._vtys["bgpd"].close()
            raise

    def _discover(self) -> SpeakerConfig:
        summary = self._ask("show bgp summary json")
        families = [family for family in summary.values() if isinstance(family, dict) and family.get("as")]
        if not families:
            raise TestbedError(f"bgpd of speaker {self._speaker!r} has no neighbour: there is no session to watch")
        peers = self._ask("show bgp neighbors json")
        neighbors = tuple(
            Neighbor(address, told["remoteAs"], bfd=_bfd(told))
            for address, told in peers.items()
            if isinstance(told, dict) and told.get("remoteAs")
        )
        return SpeakerConfig(families[0]["as"], families[0]["routerId"], neighbors)

    def version(self) -> str:
        """Of bgpd."""
        return self._vtys["bgpd"].run("show version").split()[1]

    def session(self, neighbor: str) -> SessionState:
        """The session with a neighbour."""
        known = self.config.neighbor(neighbor)
        return frr_session_state(known, self._ask(f"show bgp neighbors {neighbor} json").get(neighbor, {}), "")

    def _ask(self, command: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = json.loads(self._run("bgpd", command))
        return answer

    def _run(self, daemon: str, *commands: str) -> str:
        try:
            return self._vtys[daemon].run(*commands)
        except TestbedError:
            self.process.check_after_error()  # that it died, or is stopped, says more
            raise

    def announce(self, prefix: str, announced: Announced) -> None:
        """A route and a ``network`` statement.

        Raises:
            ConfigError: it is in FRR's own configuration.
        """
        self._refuse_theirs(prefix)
        family = f"address-family {family_of(prefix)} unicast"
        self._configure(announced, self._routes, prefix, (), static_route(prefix))
        self._configure(announced, "bgpd", prefix, (f"router bgp {self.config.asn}", family), f"network {prefix}")

    def _refuse_theirs(self, prefix: str) -> None:
        for daemon in (self._routes, "bgpd"):
            for line in self._run(daemon, "show running-config").splitlines():
                words = line.split()
                if prefix in words and (words[0] == "network" or words[1] == "route"):
                    raise ConfigError(
                        f"speaker {self._speaker!r} has {line.strip()!r} in its own configuration, which is left "
                        "alone: announce another prefix"
                    )

    def _configure(self, announced: Announced, daemon: str, prefix: str, within: Sequence[str], line: str) -> None:
        commands = [("configure terminal", *within, statement, "end") for statement in (line, f"no {line}")]
        announced.note(prefix, daemon, self._directory / f"{daemon}.vty", commands[1])
        self._run(daemon, *commands[0])

    def close(self) -> None:
        """Hang up."""
        for vty in self._vtys.values():
            vty.close()


def _bfd(told: Mapping[str, Any]) -> BfdTimers | None:
    found = told.get("peerBfdInfo")
    if not isinstance(found, dict):
        return None
    return BfdTimers(found.get("txMinInterval", BfdTimers().interval_ms), found.get("detectMultiplier", 3))
