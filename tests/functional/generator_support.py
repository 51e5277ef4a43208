"""What the generator's tests share: a built engine, a loop without a switch, rigs of both kinds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.generators.embedded.build import build
from pytest_nfvperf.adapters.generators.embedded.ceiling import VhostLoop, directions, loop_ports
from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.adapters.host.hugepages import read_hugepages
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, DirectionCounts, TrialSpec
from pytest_nfvperf.ports.generator import Generator, GeneratorPort

GENERATOR_CPU = 0
LOOP_CPU = 1
MTU = 9000


@dataclass(frozen=True)
class Rig:
    """A generator without ports, and the two ports to attach, which reach each other."""

    generator: Generator
    ports: tuple[GeneratorPort, ...]

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Both directions."""
        return directions(Traffic())

    def attach(self) -> Generator:
        """Attach both ports and let frames flow once."""
        self.generator.attach(self.ports)
        self.generator.wait_links_up(5.0)
        self.generator.learn(Traffic(), self.directions)
        return self.generator


def hugepages_mib(wanted: int = 128) -> int:
    """Memory for one engine: hugepages where some are free, else none."""
    return wanted if read_hugepages().free_mib >= 2 * wanted else 0


@contextmanager
def run_dir() -> Iterator[Path]:
    """A directory of the test's own, with a path short enough for sockets."""
    made = Path(tempfile.mkdtemp(prefix="nfvg-", dir="/run"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextmanager
def loop_in(directory: Path, *, drop_every: int = 0) -> Iterator[VhostLoop]:
    """A forwarding process that joins two sockets."""
    with closing(
        VhostLoop(
            build(),
            cpu=LOOP_CPU,
            control_cpus=[GENERATOR_CPU],
            run_dir=directory,
            file_prefix="loop",
            hugepages_mib=hugepages_mib(),
            drop_every=drop_every,
        )
    ) as loop:
        yield loop


@contextmanager
def embedded_in(
    directory: Path,
    prefix: str = "gen",
    *,
    cpus: tuple[int, ...] = (GENERATOR_CPU,),
    options: EngineOptions | None = None,
) -> Iterator[EmbeddedGenerator]:
    """An engine without ports."""
    generator = EmbeddedGenerator(
        build(),
        cpus=cpus,
        control_cpus=[GENERATOR_CPU],
        run_dir=directory,
        file_prefix=prefix,
        hugepages_mib=hugepages_mib(),
        options=options,
    )
    try:
        yield generator
    finally:
        generator.close()


@contextmanager
def looped_rig(directory: Path, loop: VhostLoop, *, cpus: tuple[int, ...] = (GENERATOR_CPU,)) -> Iterator[Rig]:
    """An engine and the two ports of a loop."""
    with embedded_in(directory, cpus=cpus) as generator:
        yield Rig(generator, tuple(loop_ports(loop.devices, mtu=MTU)))


def spec(
    directions: tuple[Direction, ...], load_fps: int = 20_000, duration_s: float = 0.1, **changes: object
) -> TrialSpec:
    """A trial that any machine can run; ``traffic`` and the rest can be given."""
    values: dict[str, object] = {"traffic": Traffic(), "residual_s": 0.3, **changes}
    return TrialSpec(load_fps=load_fps, duration_s=duration_s, directions=directions, **values)  # type: ignore[arg-type]


def check_identities(counts: DirectionCounts) -> None:
    """What holds of every trial on a loop that loses nothing."""
    assert counts.intended == counts.sent + counts.refused + counts.skipped
    assert counts.received == counts.sent > 0
    uncounted = (0, None)  # each engine counts what it can
    assert counts.foreign == 0
    assert counts.duplicated in uncounted
    assert counts.out_of_order in uncounted
    assert counts.corrupted in uncounted
    assert counts.misdirected in uncounted
    assert counts.received_bytes == counts.sent_bytes


def forwards_whole(generator: EmbeddedGenerator, topology: Topology) -> None:
    """Frames that the switch forwards come through whole."""
    generator.wait_links_up(5.0)
    generator.learn(Traffic(), topology.directions)
    for counts in generator.run_trial(spec(topology.directions)).counts:
        check_identities(counts)
