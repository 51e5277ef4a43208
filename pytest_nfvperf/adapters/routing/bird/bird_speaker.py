"""BIRD 2 as a ports.routing.BgpSpeaker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.process.programs import PROGRAMS
from pytest_nfvperf.adapters.routing.bird.bird_config import ROUTES, configuration, protocol_name, routes
from pytest_nfvperf.adapters.routing.bird.bird_control import BirdControl
from pytest_nfvperf.adapters.routing.bird.bird_state import bfd_status, bird_session_state, server_time
from pytest_nfvperf.adapters.routing.speakers.awaiting import await_session
from pytest_nfvperf.adapters.routing.speakers.daemons import (
    BULK_DEADLINE_S,
    Daemon,
    Daemons,
    checked_configuration,
    executable,
)
from pytest_nfvperf.adapters.routing.speakers.session_log import BirdLog
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.routing.bgp import SessionCondition, SessionState, SpeakerConfig, SpeakerInfo

DIRECTORIES = PROGRAMS["bird"].directories


class BirdSpeaker:
    """BIRD in a namespace, in a private directory.

    Args:
        journal: of this run.
        namespace: under /run/netns, with the addresses that it speaks from.
        config: what it is. All its BFD sessions have one set of timers, as BIRD has them by interface.
        role: names its directory.
        cpus: CPUs that it may run on; all when empty.
    """

    def __init__(
        self, journal: Journal, namespace: str, config: SpeakerConfig, *, role: str = "bird", cpus: Sequence[int] = ()
    ) -> None:
        self.config = config
        _refuse_two_timers(config)
        self._binary = executable("bird", DIRECTORIES)
        # In UTC: what BIRD prints without a zone must not go back by an hour when summer time ends.
        self._daemons = Daemons(journal, namespace, role, cpus=cpus, env={"TZ": "UTC"})
        self._control = BirdControl(self._daemons.directory / "bird.ctl")
        self._log = BirdLog(self._daemons.directory / "bird.log")
        self._version = "not started"

    def info(self) -> SpeakerInfo:
        """Engine, version once it was started, daemons."""
        return SpeakerInfo("BIRD", self._version, ("bird",))

    def start(self) -> None:
        """Have BIRD check its configuration, then start it."""
        directory = self._daemons.directory
        (directory / "bird.conf").write_text(configuration(self.config, directory), encoding="utf-8")
        self._write_routes()
        checked_configuration("bird", [self._binary, "-p", "-c", str(directory / "bird.conf")])
        self._daemons.start(self._daemon())
        self._daemons.await_answer("bird", self._ask_version)

    def _daemon(self, *more: str) -> Daemon:
        directory = self._daemons.directory
        argv = (self._binary, "-f", "-c", str(directory / "bird.conf"), "-s", str(directory / "bird.ctl"), *more)
        return Daemon("bird", argv, "bird.ctl")

    def _write_routes(self) -> None:
        for family, name in ROUTES.items():
            (self._daemons.directory / name).write_text(routes(self.config.announced, family), encoding="ascii")

    def _ask_version(self) -> None:
        self._version = self._control.run("show status")[0].split()[-1]

    def session(self, neighbor: str) -> SessionState:
        known = self.config.neighbor(neighbor)
        name = protocol_name(self.config.neighbors.index(known))
        lines = self._run(f"show protocols all {name}")
        bfd = bfd_status(known, self._run("show bfd sessions")) if known.bfd is not None else None
        now = server_time(self._run("show status"))
        return bird_session_state(known, lines, ends=self._log.ends_of(name), now=now, bfd=bfd)

    def _run(self, command: str, *, deadline_s: float | None = None) -> list[str]:
        with self._daemons.explaining():
            return self._control.run(command, deadline_s=deadline_s)

    def await_session(
        self, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
    ) -> SessionState:
        return await_session(self, neighbor, condition, awaited, deadline_s)

    def announce(self, prefixes: Sequence[str]) -> None:
        """Static routes to nowhere, exported."""
        known = set(self.config.announced)
        self._originate((*self.config.announced, *(prefix for prefix in prefixes if prefix not in known)))

    def withdraw(self, prefixes: Sequence[str]) -> None:
        """Take static routes away."""
        gone = set(prefixes)
        self._originate(tuple(prefix for prefix in self.config.announced if prefix not in gone))

    def _originate(self, prefixes: tuple[str, ...]) -> None:
        self.config = self.config.announcing(prefixes)
        self._write_routes()
        self._run("configure soft", deadline_s=BULK_DEADLINE_S)

    def pids(self) -> Mapping[str, int]:
        """Process ids by daemon."""
        return self._daemons.pids()

    def restart(self) -> None:
        """Start again if it ended; with graceful restart it takes up the sessions of before (bird -R)."""
        if self._daemons.pids():
            return
        self._control.close()
        self._daemons.start(self._daemon(*(["-R"] if self.config.graceful_restart else [])))
        self._daemons.await_answer("bird", self._ask_version)

    def check(self) -> None:
        """TestbedError when it has died or is stopped."""
        self._daemons.check()

    def logs(self) -> Mapping[str, str]:
        return self._daemons.logs()

    def close(self) -> None:
        """Stop it and remove its directory."""
        self._control.close()
        self._daemons.close()


def _refuse_two_timers(config: SpeakerConfig) -> None:
    timers = {neighbor.bfd for neighbor in config.neighbors if neighbor.bfd is not None}
    if len(timers) > 1:
        raise ConfigError("BIRD has BFD timers by interface, not by neighbour: give all neighbours the same BfdTimers")
