"""The generator's side where instructions are counted, in virtual time in a guest.

Frames go by packet sockets of the guest's kernel, and over the rings of OVS with DPDK by the embedded generator.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_nfvperf.adapters.generators.embedded import build
from pytest_nfvperf.adapters.generators.embedded.counted_bursts import CountedBursts
from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.adapters.generators.packet_socket import ENGINE, PacketSocketGenerator
from pytest_nfvperf.adapters.host.virtual_clock import instruction_ns
from pytest_nfvperf.adapters.journal.journal import TAG_VARIABLE, Kind, note_process
from pytest_nfvperf.backends.counting_generator import CountingGenerator
from pytest_nfvperf.backends.generator_side import Engine, TakenMachine
from pytest_nfvperf.model.testbed.testbed import CpuPlan, GeneratorSpec, OvsSpec, Testbed
from pytest_nfvperf.ports.generator import Ceilings, Generator
from pytest_nfvperf.runs.ceilings import NoCeilings
from pytest_nfvperf.runs.placement import ForgottenRoundTrips, RoundTrips

# Nothing polls here, so all may share the one CPU of virtual time.
VIRTUAL_TESTBED = Testbed(
    name="virtual-time",
    ovs=OvsSpec(datapath="netdev"),
    cpus=CpuPlan(housekeeping=(0,), pmd=(0,), generator=(0,)),
    ports=(),
    generator=GeneratorSpec(engine=ENGINE),
    links=(),
)
"""What a run in virtual time is on: a private OVS's userspace datapath without DPDK, where no test asks for another."""


class PacketSocketSide:
    """Fulfils GeneratorSide.

    Args:
        an_instruction_ns: virtual time of one instruction, in ns; ConfigError where time is not virtual.
    """

    def __init__(self, an_instruction_ns: Callable[[], int] = instruction_ns) -> None:
        self._instruction_ns = an_instruction_ns

    def check(self) -> None:
        """ConfigError where time is not virtual."""
        self._instruction_ns()

    def describe(self) -> str:
        """What a second is."""
        return f"packet sockets, in virtual time: {self._instruction_ns()} ns an instruction"

    def line_rate_bps(self) -> float | None:
        """None: its ports are veth pairs."""
        return None

    def polling_cpus(self) -> tuple[int, ...]:
        """None: nothing polls."""
        return ()

    def round_trips(self, machine: TakenMachine) -> RoundTrips:  # noqa: ARG002 - as GeneratorSide has it
        """None: there is one CPU."""
        return ForgottenRoundTrips()

    def ceilings(self, machine: TakenMachine) -> Ceilings:  # noqa: ARG002
        """None: there are no rates."""
        return NoCeilings()

    def beside_mib(self) -> int | None:
        """None: readings do not alternate, because nothing disturbs them."""
        return None

    def make(self, machine: TakenMachine, beside: str = "") -> Generator:
        """Start nothing yet: sockets are opened for each trial, and the program when the first ring is attached."""
        return CountingGenerator(
            PacketSocketGenerator(self._instruction_ns()), lambda: self._start_rings(machine, beside)
        )

    def _start_rings(self, machine: TakenMachine, beside: str) -> CountedBursts:
        journal, cpus = machine.journal, VIRTUAL_TESTBED.cpus
        program = build.find(portable=True)
        entry = journal.note(Kind.PROCESS, build.PROGRAM)
        generator = EmbeddedGenerator(
            program,
            cpus=cpus.generator,
            control_cpus=cpus.housekeeping,
            run_dir=journal.directory,
            file_prefix=f"nfv-{journal.tag}-gen{beside}",
            options=EngineOptions(nice=0, env={TAG_VARIABLE: journal.tag}),
            on_spawn=lambda pid: note_process(journal, entry, pid),
        )
        return CountedBursts(self._instruction_ns(), generator)

    def close(self) -> None:
        """Nothing was taken."""


PACKET_SOCKETS = Engine(lambda _: PacketSocketSide())
