"""A rig as a run has it, with VNFs of every kind, for the tests of chains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.trial_ledger import trial_ledger
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.backends.local import LocalVnfs
from pytest_nfvperf.measure.clocks import SystemClock
from pytest_nfvperf.measure.rig import LiveTopology, Rig, RigParts
from pytest_nfvperf.measure.trials import Context, Recorder, Trial
from pytest_nfvperf.model.measure.ledger import Ledger
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.machine import Progress
from tests.functional.generator_support import embedded_in
from tests.functional.ovs_support import clean_run, testbed


class Parts(RigParts):
    pmd_cpus = 1

    def __init__(self, journal: Journal, bed: Testbed, generator: EmbeddedGenerator) -> None:
        self._journal, self._bed, self._generator = journal, bed, generator
        self.vnfs = LocalVnfs(journal, bed)

    def make_datapath(self, dut: Dut) -> OvsDatapath:
        return OvsDatapath.start(self._bed, self._journal, dut)

    def make_generator(self) -> EmbeddedGenerator:
        return self._generator

    def ledger(self, *of: Any) -> Ledger:
        return trial_ledger(*of)


@dataclass(frozen=True)
class VnfRig:
    """A rig, and the journal of all that it makes."""

    rig: Rig
    journal: Journal

    def deployment(self, topology: Topology) -> LiveTopology:
        """The topology, deployed, with its addresses learnt."""
        live = self.rig.live(topology, repeats=0)
        live.learn(Traffic(bidirectional=False))
        return live

    def trial(self, live: LiveTopology, load_fps: int, duration_s: float = 0.3) -> Trial:
        """One trial of the topology's directions, valid or not."""
        spec = TrialSpec(Traffic(), load_fps, duration_s, live.topology.directions, latency=False, residual_s=0.3)
        return live.runner.run_once(spec)


@contextmanager
def vnf_rig(datapath: str = "dpdk", vnf_kind: str | None = None) -> Iterator[VnfRig]:
    """A rig in a run of its own, of which nothing is left."""
    bed = testbed(datapath, vnf_kind=vnf_kind)
    clock = SystemClock()
    with (
        clean_run() as journal,
        embedded_in(journal.directory, "vnf", options=EngineOptions(learn_timeout_s=1.0)) as generator,
    ):
        rig = Rig(Parts(journal, bed, generator), Context(Recorder("vnf", [], clock), Progress(), clock))
        try:
            yield VnfRig(rig, journal)
        finally:
            rig.close()
