"""How long a restart of the DUT interrupts what two namespaces send to each other, as figures that a study compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.streams import Ends, stream_ends
from pytest_nfvperf.measure.trials import Context
from pytest_nfvperf.model.errors import DutFailure, TestbedError, UnavailableError
from pytest_nfvperf.model.evidence.records import RecordKind
from pytest_nfvperf.model.measure.outcome import Reading
from pytest_nfvperf.model.measure.streams import Reconnection, longest_gap_ns
from pytest_nfvperf.ports.datapath import Restart
from pytest_nfvperf.ports.machine import Clock
from pytest_nfvperf.ports.streams import Reachability, StreamEnd

UNITS = {"reconnect_time": "s", "restart_time": "s"}

_BEFORE_S, _AGAIN_S = 10.0, 30.0
_LOOK_ON_S = 0.5
"""After the first datagram arrived again: the DUT may still replace the flows that it remembered."""
_READING_S = 3.0


@dataclass(frozen=True, slots=True)
class ReconnectTime:
    """Restarts the DUT under a topology with two namespaces.

    ``ends``: the sender's first; None: the topology's first one and its last. ``killed``: by SIGKILL, as in a crash.
    """

    context: Context
    ends: Ends | None = None
    killed: bool = False

    @property
    def name(self) -> str:
        return "reconnect"

    @property
    def units(self) -> Mapping[str, str]:
        return UNITS

    @property
    def reading_s(self) -> float:
        return _READING_S

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """UnavailableError for a DUT that cannot be restarted; DutFailure if they do not reach each other again."""
        restart, reachability = live.deployment.restart, live.deployment.reachability
        if restart is None or reachability is None:
            raise UnavailableError(f"nobody here can restart the datapath {live.datapath_kind!r}, and watch meanwhile")
        between = stream_ends(live, self.ends)
        self.context.progress.trial_started("a restart", 0, _READING_S, remaining_s)
        found = self._watched(live, restart, reachability, between)
        live.deployment.check_alive()
        run_id = self.context.recorder.next_id(RecordKind.RECONNECTION)
        self.context.recorder.emit(found, run_id)
        self.context.others.append(run_id)
        self.context.places.ran(run_id, (live.topology, live.dut))
        self.context.progress.trial_finished(None, True)
        return Reading({"reconnect_time": found.outage_ns / 1e9, "restart_time": found.restart_ns / 1e9}, run_id)

    def _watched(
        self, live: LiveTopology, restart: Restart, reachability: Reachability, between: tuple[StreamEnd, StreamEnd]
    ) -> Reconnection:
        clock = self.context.clock
        with reachability.watch(*between) as watch:
            if not watch.await_one(_BEFORE_S):
                raise TestbedError(_unreached(live, between, _BEFORE_S, "before a restart of the DUT"))
            began_ns = _now_ns(clock)
            restart(killed=self.killed)
            restarted_ns = _now_ns(clock)
            if not watch.await_one(_AGAIN_S):
                raise DutFailure(_unreached(live, between, _AGAIN_S, "after a restart of the DUT"))
            clock.sleep(_LOOK_ON_S)
            now_ns, arrived = _now_ns(clock), watch.arrived()
            return Reconnection(
                outage_ns=longest_gap_ns(arrived, began_ns, now_ns),
                restart_ns=restarted_ns - began_ns,
                interval_ns=watch.interval_ns,
                sent=watch.sent,
                arrived=len(arrived),
            )

    def labels(self, live: LiveTopology) -> dict[str, str]:
        return {"topology": live.name, "datapath": live.datapath_kind}

    def facts(self) -> dict[str, Any]:
        return {"mean_frame_size": 0.0, "directions": 1}


def _now_ns(clock: Clock) -> int:
    return int(clock.monotonic() * 1e9)


def _unreached(live: LiveTopology, between: tuple[StreamEnd, StreamEnd], deadline_s: float, when: str) -> str:
    client, server = between
    return (
        f"no datagram from {client.address} ({client.namespace}) arrived at {server.address} ({server.namespace}) "
        f"within {deadline_s:g} s {when}; topology {live.name!r}"
    )
