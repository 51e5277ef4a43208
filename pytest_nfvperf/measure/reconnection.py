"""Measures how long a restart of the DUT interrupts what two namespaces send to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.streams import EndMeasurement, Ends, stream_ends
from pytest_nfvperf.measure.trials import Context
from pytest_nfvperf.model.errors import DutFailure, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.measure.streams import Reconnection, longest_gap_ns
from pytest_nfvperf.model.metrics import units_of
from pytest_nfvperf.ports.streams import Reachability, StreamEnd

_BEFORE_S, _AGAIN_S = 10.0, 30.0
_LOOK_ON_S = 0.5
"""Wait after the first datagram arrived again: the DUT may still replace the flows that it remembered."""


@dataclass(frozen=True, slots=True)
class ReconnectTime(EndMeasurement):
    """Restarts the DUT under a topology with two namespaces.

    Attributes:
        ends: the sender's namespace first; None: the topology's first one and its last.
        killed: by SIGKILL, as in a crash.
    """

    context: Context
    ends: Ends | None = None
    killed: bool = False
    name: ClassVar[str] = "reconnect"
    units: ClassVar[Mapping[str, str]] = units_of("reconnect_time", "restart_time")
    reading_s: ClassVar[float] = 3.0

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """UnavailableError if the DUT cannot be restarted; DutFailure if no datagram arrives again."""
        restart, reachability = live.deployment.restart, live.deployment.reachability
        if restart is None or reachability is None:
            raise UnavailableError(f"nobody here can restart the datapath {live.datapath_kind!r}, and watch meanwhile")
        between = stream_ends(live, self.ends)
        self.context.time_limit.check(self.reading_s)
        self.context.progress.trial_started("a restart", 0, self.reading_s, remaining_s)
        found = self._restart_and_watch(live, restart, reachability, between)
        live.deployment.check_alive()
        run_id = self.context.finish_run(found, (live.topology, live.dut))
        return Reading({"reconnect_time": found.outage_ns / 1e9, "restart_time": found.restart_ns / 1e9}, run_id)

    def _restart_and_watch(
        self, live: LiveTopology, restart: Callable[..., None], reachability: Reachability, ends: tuple[StreamEnd, ...]
    ) -> Reconnection:
        clock, (client, server) = self.context.clock, ends

        def now_ns() -> int:
            return int(clock.monotonic() * 1e9)

        def unreached(deadline_s: float, when: str) -> str:
            return (
                f"no datagram from {client.address} ({client.namespace}) arrived at {server.address} "
                f"({server.namespace}) within {deadline_s:g} s {when}; topology {live.name!r}"
            )

        with reachability.watch(client, server) as watch:
            if not watch.await_one(_BEFORE_S):
                raise TestbedError(unreached(_BEFORE_S, "before a restart of the DUT"))
            began_ns = now_ns()
            restart(killed=self.killed)
            live.apply_configure(self.context.recorder)
            restarted_ns = now_ns()
            if not watch.await_one(_AGAIN_S):
                raise DutFailure(unreached(_AGAIN_S, "after a restart of the DUT"))
            clock.sleep(_LOOK_ON_S)
            end_ns, arrived = now_ns(), watch.arrived()
            return Reconnection(
                outage_ns=longest_gap_ns(arrived, began_ns, end_ns),
                restart_ns=restarted_ns - began_ns,
                interval_ns=watch.interval_ns,
                sent=watch.sent,
                arrived=len(arrived),
            )
