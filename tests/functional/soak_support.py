"""Short soaks on a real OVS with a real generator: what their tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from listed_sink import Listed

from pytest_nfvperf.adapters.evidence import hdr
from pytest_nfvperf.adapters.evidence.writer import samples_in
from pytest_nfvperf.adapters.generators.embedded.build import build
from pytest_nfvperf.adapters.host.cpus import discover_testbed
from pytest_nfvperf.adapters.process.process import Interrupts
from pytest_nfvperf.backends.embedded_side import EmbeddedSide
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.measure.rig import LiveTopology, Rig
from pytest_nfvperf.measure.soak import Soaker
from pytest_nfvperf.measure.trials import Context, InvalidTrialsError, Recorder, Trial
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.evidence.records import RecordKind
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.datapath import Sampler, SamplerReading
from pytest_nfvperf.ports.machine import Progress

LOAD = 50_000


_TRIES = 30


def undisturbed(measure: Callable[[], Outcome], trials: Mapping[str, Trial]) -> Outcome:
    """Measure again while the machine, on which others compute, disturbs every trial, or keeps it short of its load."""
    for _ in range(_TRIES - 1):
        with suppress(InvalidTrialsError):
            outcome = measure()
            result = trials[outcome.trials[-1]].result
            if result.judgement.conclusive and result.sustained_load:
                return outcome
    return measure()


@dataclass
class At:
    """A sampler that does something when it is read for the n-th time, the reading before the soak being the first."""

    number: int
    act: Callable[[], None]
    name: str = "fault"
    read_so_far: int = 0

    def read(self) -> SamplerReading:
        self.read_so_far += 1
        if self.read_so_far == self.number:
            self.act()
        return SamplerReading({"reads": self.read_so_far})


@dataclass
class Soaking:
    """A deployed topology, and what soaks it."""

    live: LiveTopology
    rig: Rig
    backend: LocalBackend
    soaker: Soaker
    listed: Listed
    directory: Path

    def run(self, seconds: float, *also: Sampler) -> Soak:
        soak = self.outcome(seconds, *also).soak
        assert soak is not None
        return soak

    def outcome(self, seconds: float, *also: Sampler, traffic: Traffic | None = None) -> Outcome:
        return self.soaker.run(self.live, traffic or Traffic(frame_size=64), LOAD, seconds, also)

    def recorded(self) -> dict[str, object]:
        (record,) = (record for record in self.listed.records if record.kind is RecordKind.SOAK)
        return record.data

    def vswitchd(self) -> int:
        return self.rig.datapath().instance.vswitchd.pid  # type: ignore[attr-defined, no-any-return]


@contextmanager
def soaking_on(topology: Topology, directory: Path, *, sample_s: float = 0.5) -> Iterator[Soaking]:
    """Deploy it on the embedded testbed; samples go to the directory."""
    build()
    testbed, listed = discover_testbed(), Listed()
    backend = LocalBackend(testbed, EmbeddedSide(testbed))
    context = Context(Recorder("soak", [listed], backend.clock, encode=hdr.encode), Progress(), backend.clock)
    rig = Rig(backend.parts(), context)
    profile = replace(QUICK, soak_sample_s=sample_s, warmup_s=0.1)
    try:
        live = rig.live(topology, 3)
        soaker = Soaker(
            profile,
            {"suite": "mine"},
            context,
            samples_in(directory),
            lambda: Interrupts(directory / "terminal.log"),
            lambda _: None,
            lambda *_: [float(LOAD)],
        )
        yield Soaking(live, rig, backend, soaker, listed, directory)
    finally:
        with suppress(TestbedError):  # of an OVS that a test killed
            rig.close()
        backend.close()
