"""The BGP session between Acme's two speakers, and what ends it: a speaker that died or hangs, a cable that is cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest_nfvperf as nfv
from acme_testbed.routes import Routes

_LOOK_S = 0.01


class Session:
    """Established while nothing is in its way. The switch forwards to what was announced as long as it is.

    Attributes:
        established_s: since when, time.monotonic(); None while it is not.
        flaps: how often it ended.
    """

    def __init__(self, routes: Routes, obstacles: Sequence[str]) -> None:
        """Begin without a session. ``obstacles``: what is in its way now."""
        self.established_s: float | None = None
        self.flaps = 0
        self._routes = routes
        self._obstacles = set(obstacles)
        self._learned: set[str] = set()
        self._lock = threading.Lock()

    def hinder(self, obstacle: str, *, keep_routes: bool = False) -> None:
        """Something is in its way from now on. ``keep_routes``: a speaker restarts gracefully (RFC 4724)."""
        with self._lock:
            self._obstacles.add(obstacle)
            if self.established_s is None:
                return
            self.established_s = None
            self.flaps += 1
            if not keep_routes:
                self._routes.remove(sorted(self._learned))

    def clear(self, obstacle: str) -> None:
        """It is in its way no longer."""
        with self._lock:
            self._obstacles.discard(obstacle)
            if not self._obstacles and self.established_s is None:
                self.established_s = time.monotonic()
                self._routes.add(sorted(self._learned))

    def learn(self, prefixes: Sequence[str]) -> None:
        """A speaker announces these, too."""
        with self._lock:
            self._learned.update(prefixes)
            if self.established_s is not None:
                self._routes.add(prefixes)

    def forget(self, prefixes: Sequence[str]) -> None:
        """It announces them no longer."""
        with self._lock:
            self._learned.difference_update(prefixes)
            self._routes.remove(prefixes)


class Cable:
    """A BgpPath.frr_link or bird_link: one of the two cables that the session crosses."""

    def __init__(self, name: str, session: Session) -> None:
        self._name = name
        self._session = session

    def down(self) -> None:
        """Both speakers notice at once."""
        self._session.hinder(self._name)

    def up(self) -> None:
        """The session comes back at once."""
        self._session.clear(self._name)

    def close(self) -> None:
        """As ``up``."""
        self.up()


def wait_until(met: Callable[[], bool], awaited: str, deadline_s: float, seen: Callable[[], object]) -> None:
    """Look again and again; TestbedError with what was seen last."""
    until_s = time.monotonic() + deadline_s
    while not met():
        if time.monotonic() > until_s:
            raise nfv.TestbedError(f"awaited {awaited} for {deadline_s:g} s; seen: {seen()}")
        time.sleep(_LOOK_S)
