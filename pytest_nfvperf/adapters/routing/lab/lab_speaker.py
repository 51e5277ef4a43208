"""A routing daemon that runs already and is somebody else's, as a ports.routing.BgpSpeaker.

It is looked at, and asked to announce. It is neither started, stopped nor restarted, and its files are not touched.
What it announces for us is given at run time, journaled before, and taken back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.routing.lab.lab_bird import LabBird
from pytest_nfvperf.adapters.routing.lab.lab_frr import LabFrr
from pytest_nfvperf.adapters.routing.lab.lab_process import LabProcess
from pytest_nfvperf.adapters.routing.lab.lab_undo import Announced
from pytest_nfvperf.adapters.routing.speakers.awaiting import await_session
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.routing.bgp import SessionCondition, SessionState, SpeakerConfig, SpeakerInfo
from pytest_nfvperf.model.testbed.testbed import LabSpeaker


class LabEngine(Protocol):
    """What FRR and BIRD do in ways of their own.

    ``name``: of the engine. ``process``: the daemon that has the sessions. ``config``: as the daemon tells it.
    """

    name: str
    process: LabProcess
    config: SpeakerConfig

    def version(self) -> str:
        """As the daemon says."""
        ...

    def session(self, neighbor: str) -> SessionState:
        """The session with a neighbour; KeyError for an unknown one."""
        ...

    def announce(self, prefix: str, announced: Announced) -> None:
        """Announce one more; ``announced`` is told before how to take it back.

        Raises:
            ConfigError: the daemon has it in its own configuration, or cannot announce it.
        """
        ...

    def close(self) -> None:
        """Hang up."""
        ...


class LabBgpSpeaker:
    """FRR or BIRD by its sockets.

    Args:
        journal: of this run: what is announced is noted before.
        spec: which one.

    Raises:
        ConfigError: it lacks what the testbed file names.
        TestbedError: it does not listen there, or has no session to watch.
    """

    def __init__(self, journal: Journal, spec: LabSpeaker) -> None:
        self._name = spec.name
        self._engine: LabEngine = LabFrr(spec) if spec.engine == "frr" else LabBird(spec)
        self._announced = Announced(journal)
        self.config = self._engine.config

    def info(self) -> SpeakerInfo:
        return SpeakerInfo(self._engine.name, self._engine.version(), (self._engine.process.name,))

    def start(self) -> None:
        """It runs already; TestbedError when it does not."""
        self.check()

    def session(self, neighbor: str) -> SessionState:
        return self._engine.session(neighbor)

    def await_session(
        self, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
    ) -> SessionState:
        return await_session(self, neighbor, condition, awaited, deadline_s)

    def announce(self, prefixes: Sequence[str]) -> None:
        """Until ``withdraw`` or ``close``.

        Raises:
            ConfigError: the daemon has one in its own configuration, or cannot announce it.
        """
        for prefix in prefixes:
            if prefix not in self._announced.prefixes:
                self._engine.announce(prefix, self._announced)
        self.config = self.config.announcing(self._announced.prefixes)

    def withdraw(self, prefixes: Sequence[str]) -> None:
        """What we announced; the daemon's own announcements stay."""
        for prefix in prefixes:
            self._announced.take_back(prefix)
        self.config = self.config.announcing(self._announced.prefixes)

    def pids(self) -> Mapping[str, int]:
        """Of the daemon that has the sessions."""
        process = self._engine.process
        return {} if process.pid is None else {process.name: process.pid}

    def restart(self) -> None:
        """TestbedError: it is not ours."""
        who = f"{self._engine.name} of speaker {self._name!r}"
        raise TestbedError(f"{who} belongs to somebody else: nfvperf does not restart it")

    def check(self) -> None:
        """TestbedError when it has ended or is stopped."""
        self._engine.process.check()

    def logs(self) -> Mapping[str, str]:
        """Where they are is not known."""
        return {}

    def close(self) -> None:
        """Take back what we announced. Can be called twice."""
        self.withdraw(self._announced.prefixes)
        self._engine.close()
