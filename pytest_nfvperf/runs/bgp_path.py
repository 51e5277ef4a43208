"""S1's path as it runs: waits for its session and its flows, and says whether it is healthy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.routing.bgp import BfdStatus, SessionState
from pytest_nfvperf.model.scenarios.bgp_path import BgpPathPlan
from pytest_nfvperf.ports.routing import BgpParts, Steps

ESTABLISHED_WITHIN_S = 5.0
_INSTALLED_WITHIN_S = 5.0


class BgpPath:
    """Daemons and agent of S1; ``close`` ends them. ``frr``: the DUT's. ``bird``: the neighbour."""

    def __init__(self, plan: BgpPathPlan, parts: BgpParts) -> None:
        self.plan = plan
        self.frr = parts.frr
        self.bird = parts.bird
        self.agent = parts.agent
        self.frr_link = parts.frr_link
        self.bird_link = parts.bird_link
        self._watch_steps = parts.watch_steps

    @contextmanager
    def steps(self) -> Iterator[Steps]:
        """Watch, within this context, how far each change of a route has come, and when."""
        watch = self._watch_steps()
        try:
            yield watch
        finally:
            watch.close()

    def await_established(self, deadline_s: float = ESTABLISHED_WITHIN_S) -> SessionState:
        """The session as FRR sees it, once it and its BFD session are up; DeadlineError says what was seen instead."""
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
        """The session as FRR sees it now."""
        return self.frr.session(self.plan.bird_address)

    def healthy(self) -> bool:
        """True while all of it runs and the session is up with nothing but what the plan announces."""
        with suppress(TestbedError):
            self.check()
            as_planned = self.bird.config.announced == (self.plan.clients,)
            return as_planned and self.session().established
        return False

    def check(self) -> None:
        """TestbedError when a daemon died or hangs, or the agent ended."""
        for part in (self.frr, self.bird, self.agent):
            part.check()

    def close(self) -> None:
        """End all. Can be called twice."""
        with ExitStack() as stack:
            for part in (self.frr_link, self.bird_link, self.agent, self.frr, self.bird):
                stack.callback(part.close)
