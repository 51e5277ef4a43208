"""The BGP speaker port. Every adapter passes tests/contract/test_bgp_speaker.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pytest_nfvperf.model.routing.bgp import SessionCondition, SessionState, SpeakerConfig, SpeakerInfo


class BgpSpeaker(Protocol):
    """A routing daemon, or several that belong together, with its own configuration and state.

    Every method raises TestbedError, with the end of the daemon's log, when a daemon has died or does not answer.
    """

    config: SpeakerConfig

    def info(self) -> SpeakerInfo:
        """Engine, version, daemons."""
        ...

    def start(self) -> None:
        """Check the configuration with the daemon's own checker, then start.

        Returns when the daemons answer; sessions come up later. Raises ConfigError for a configuration that the
        daemon refuses, with the daemon's own words, and TestbedError for a daemon that is not installed.
        """
        ...

    def session(self, neighbor: str) -> SessionState:
        """The session with a neighbour, by its address; KeyError for an unknown one. Under 20 ms."""
        ...

    def await_session(
        self, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
    ) -> SessionState:
        """Wait until a session is as wanted.

        Raises:
            DeadlineError: says what was awaited, and what was seen instead, with the daemon's log as evidence.
        """
        ...

    def announce(self, prefixes: Sequence[str]) -> None:
        """Originate these prefixes too. Returns when the daemon accepted them, not when neighbours know."""
        ...

    def withdraw(self, prefixes: Sequence[str]) -> None:
        """Stop originating these prefixes; ignores unknown ones."""
        ...

    def pids(self) -> Mapping[str, int]:
        """Process ids of the running daemons, by name: to cause faults, and to read their cost."""
        ...

    def restart(self) -> None:
        """Restart killed daemons with the same configuration."""
        ...

    def check(self) -> None:
        """Raise TestbedError if a daemon has died or is stopped."""
        ...

    def logs(self) -> Mapping[str, str]:
        """The last lines of the daemons' logs, by name, for errors."""
        ...

    def close(self) -> None:
        """Stop the daemons and remove what they left. Can be called twice."""
        ...
