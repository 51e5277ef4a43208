"""A rig as a test run has it, for benchmarks: the same backend, evidence into a directory of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_nfvperf.adapters.evidence import hdr
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.backends.embedded_side import EmbeddedSide
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.measure.alternation import SideBySide
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.rig import LiveTopology, Rig
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.measure.streams import StreamRunner
from pytest_nfvperf.measure.study import Decided, Study
from pytest_nfvperf.measure.trials import Context, Recorder, Trial
from pytest_nfvperf.model.measure.profile import QUICK, Profile
from pytest_nfvperf.model.testbed.testbed import Dut
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.machine import Progress

Deployed = Callable[[LiveTopology], None]
"""Told of each topology of a comparison as soon as it stands, before it is measured."""


def _as_it_is(_: LiveTopology) -> None:
    """Leaves it alone."""


class _Rebuilt:
    """Stands every topology anew; what is lacking shows when it is built."""

    def __init__(self, rig: Rig, deployed: Deployed) -> None:
        self._rig = rig
        self._deployed = deployed

    def refuse_lacking(self, topology: Topology, dut: Dut) -> None:
        """Nothing is skipped in a benchmark."""

    def redeploy(self, topology: Topology, dut: Dut, *, quiet: bool) -> LiveTopology:  # noqa: ARG002 - no records here
        self._rig.remove_topology()
        return self._live(self._rig, topology, dut)

    def side_by_side(self, subjects: Sequence[tuple[Topology, Dut]]) -> SideBySide | None:
        """All of them at once, as a test run has them."""
        if not SideBySide.possible(self._rig, subjects):
            return None
        return SideBySide(self._rig, self._live)

    def _live(self, rig: Rig, topology: Topology, dut: Dut) -> LiveTopology:
        live = rig.live(topology, QUICK.invalid_trial_budget, dut)
        self._deployed(live)
        return live


class Bench:
    """A rig and what is needed to measure on it."""

    def __init__(self, backend: LocalBackend, results: Path) -> None:
        self.backend = backend
        recorder = Recorder(
            results.name, [EvidenceWriter(results / "evidence.jsonl")], backend.clock, encode=hdr.encode
        )
        self.rig = Rig(backend.parts(), Context(recorder, Progress(), backend.clock))

    def trial(
        self, live: LiveTopology, traffic: Traffic, load_fps: float, seconds: float, window_s: float | None = None
    ) -> Trial:
        """One trial, valid or not."""
        directions = live.topology.directions if traffic.bidirectional else live.topology.directions[:1]
        spec = TrialSpec(traffic, round(load_fps), seconds, directions, purpose="benchmark", window_s=window_s)
        return live.runner.run_once(spec)

    def search(self, profile: Profile) -> Search:
        """Searches as a test has them, without the machine's ceiling: both sides of a comparison alike."""
        return Search(profile, {"suite": "benchmarks"}, self._limits, lambda _: 0.0)

    def study(self, profile: Profile, decided: Decided, deployed: Deployed = _as_it_is) -> Study:
        """Comparisons as a test has them; ``deployed`` may change a topology before it is measured."""
        labels = {"suite": "benchmarks", "topology": "chain"}
        return Study(
            profile, labels, _Rebuilt(self.rig, deployed), self._limits, self._stream_runner, decided, self.rig.context
        )

    def _stream_runner(self) -> StreamRunner:
        return StreamRunner(self.rig.streams(), self.rig.context, QUICK.invalid_trial_budget, self.rig.parts)

    def _limits(self, live: LiveTopology, traffic: AnyTraffic) -> Limits:
        directions = len(live.topology.directions) if traffic.bidirectional else 1
        return Limits(self.rig.ceiling_fps(live, traffic, directions), None)


@contextmanager
def bench(results: Path) -> Iterator[Bench]:
    """A bench on this machine's embedded testbed."""
    testbed = discover_testbed()
    backend = LocalBackend(testbed, EmbeddedSide(testbed))
    backend.check()
    made = Bench(backend, results)
    try:
        yield made
    finally:
        made.rig.close()
        backend.close()
