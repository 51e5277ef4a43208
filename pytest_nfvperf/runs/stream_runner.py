"""Streams on live topologies: validity first, repeats of invalid runs, evidence of all; and TCP throughput as a figure.

A chain that ends in namespaces has no generator port: its figure is the goodput of TCP, and what it cost at
both ends (S2: 1.0 core for the sender, 0.8 for the receiver).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.evidence.record import RecordKind
from pytest_nfvperf.model.evidence.records import StreamData
from pytest_nfvperf.model.ledger.ledger import deltas
from pytest_nfvperf.model.measure.profile import Profile
from pytest_nfvperf.model.measure.reading import Reading
from pytest_nfvperf.model.measure.stream_measurement import StreamResult, StreamSpec, WayCounts
from pytest_nfvperf.model.topology.topology import Nic
from pytest_nfvperf.ports.stream_engine import StreamEnd, StreamEngine
from pytest_nfvperf.runs.rig import LiveTopology
from pytest_nfvperf.runs.trials import Context, InvalidTrialsError

UNITS = {
    "tcp_throughput": "bps",
    "sender_cores": "cores",
    "receiver_cores": "cores",
    "datapath_cores": "cores",
    "retransmits": "segments",
}
"""What a reading holds, in which unit."""

_RUN_OVERHEAD_S = 0.5
"""Beside the streams' own time: processes, reports, counters."""


Cpus = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StreamRun:
    """A finished run with its place in the evidence. ``datapath_cores``: CPUs that the datapath's process used."""

    id: str
    result: StreamResult
    datapath_cores: float | None


class StreamRunner:
    """Runs streams between two namespaces of a live topology.

    Args:
        engine: makes the streams.
        context: evidence, progress and time.
        repeats: how often an invalid run is repeated.
        cpus: that client and server may run on, where a spec does not say; empty: any.
    """

    def __init__(
        self, engine: StreamEngine, context: Context, repeats: int, cpus: tuple[Cpus, Cpus] = ((), ())
    ) -> None:
        self._engine = engine
        self._context = context
        self._repeats = repeats
        self._cpus = cpus

    def run(self, live: LiveTopology, spec: StreamSpec, remaining_s: float | None = None) -> StreamRun:
        """Run until one is valid, from the topology's first namespace with an address to its last.

        Raises:
            InvalidTrialsError: none was within the budget.
            TestbedError: the topology has no two such namespaces, or the streams could not be had.
        """
        client, server = self._cpus
        spec = replace(spec, client_cpus=spec.client_cpus or client, server_cpus=spec.server_cpus or server)
        spoiled: list[StreamRun] = []
        while True:
            run = self._once(live, spec, remaining_s, spoiled[-1].id if spoiled else None)
            if run.result.valid:
                return run
            spoiled.append(run)
            if len(spoiled) > self._repeats:
                raise InvalidTrialsError(spoiled)

    def _once(
        self, live: LiveTopology, spec: StreamSpec, remaining_s: float | None, repeat_of: str | None
    ) -> StreamRun:
        client, server = stream_ends(live)
        purpose = f"{spec.streams} {spec.protocol.upper()} stream{'s' if spec.streams > 1 else ''}"
        self._context.progress.trial_started(purpose, 0, spec.duration_s, remaining_s)
        started, before = self._context.clock.monotonic(), live.counters()
        result = self._engine.run(spec, client, server)
        live.deployment.check_alive()
        wall_s = self._context.clock.monotonic() - started
        used_ns = {c.name: c.delta for b, a in zip(before, live.counters(), strict=True) for c in deltas(b, a)}
        run_id = self._context.recorder.next_id(RecordKind.STREAM)
        run = StreamRun(run_id, result, _cores(used_ns.get("vswitchd.cpu_ns"), result, wall_s))
        self._context.streams[run_id] = result
        self._context.recorder.emit(StreamData(result, wall_s, run.datapath_cores, repeat_of), run_id)
        self._context.progress.trial_finished(None, result.valid)
        return run


def _cores(cpu_ns: int | None, result: StreamResult, wall_s: float) -> float | None:
    """CPU time around the run over the time that streams flowed: as the ends' own cores are counted."""
    flowed_ns = result.client_cpu.elapsed_ns if result.client_cpu is not None else wall_s * 1e9
    return None if cpu_ns is None or flowed_ns <= 0 else cpu_ns / flowed_ns


def stream_ends(live: LiveTopology) -> tuple[StreamEnd, StreamEnd]:
    """The first and the last interface with an address, which are in different namespaces."""
    nics = [nic for nic in live.topology.nics if nic.addresses]
    if len({nic.namespace for nic in nics}) < 2:
        raise TestbedError(f"topology {live.name!r} has no two namespaces with addresses to send streams between")
    return _end(live, nics[0]), _end(live, nics[-1])


def _end(live: LiveTopology, nic: Nic) -> StreamEnd:
    return StreamEnd(live.netns(nic.namespace), nic.addresses[0].split("/")[0], nic.name)


@dataclass(frozen=True, slots=True)
class TcpThroughput:
    """Reads the goodput of TCP streams, and what they cost, on any topology with two namespaces.

    ``streams``: in parallel. Further settings are those of ``spec``, whose times the profile sets.
    """

    runner: StreamRunner
    profile: Profile
    spec: StreamSpec

    @property
    def name(self) -> str:
        """The outcome's algorithm."""
        return "tcp"

    @property
    def units(self) -> Mapping[str, str]:
        """Base units of the metrics."""
        return UNITS

    @property
    def reading_s(self) -> float:
        """Whole seconds of streams, and what surrounds them."""
        return self.spec.run_s + _RUN_OVERHEAD_S

    def read(self, live: LiveTopology, remaining_s: float | None) -> Reading:
        """One reading; InvalidTrialsError when the machine spoiled it."""
        run = self.runner.run(live, self.spec, remaining_s)
        (way,) = run.result.ways
        values = {name: value for name, value in _values(run, way).items() if value is not None}
        return Reading(values, run.id)

    def labels(self, live: LiveTopology) -> dict[str, str]:
        """What is really measured."""
        return {"topology": live.name, "datapath": live.datapath_kind, "streams": str(self.spec.streams)}

    def facts(self) -> dict[str, Any]:
        """Streams have no frame size."""
        return {"mean_frame_size": 0.0, "directions": 1}


def _values(run: StreamRun, way: WayCounts) -> dict[str, float | None]:
    client, server = run.result.client_cpu, run.result.server_cpu
    sender, receiver = (client, server) if way.way == "forward" else (server, client)
    return {
        "tcp_throughput": way.goodput_bps,
        "sender_cores": None if sender is None else sender.cores,
        "receiver_cores": None if receiver is None else receiver.cores,
        "datapath_cores": run.datapath_cores,
        "retransmits": None if way.retransmits is None else float(way.retransmits),
    }


def tcp_spec(profile: Profile, streams: int) -> StreamSpec:
    """So many TCP streams for as long as the profile says, after slow start and the bridges' learning."""
    return StreamSpec(
        streams=streams,
        duration_s=profile.comparison_stream_s,
        omit_s=profile.comparison_omit_s,
    )
