"""The generator's side where instructions are counted: packet sockets of this kernel, in virtual time a guest's."""

from __future__ import annotations

from collections.abc import Callable

from pytest_nfvperf.adapters.generators.packet_socket.generator import ENGINE, PacketSocketGenerator
from pytest_nfvperf.adapters.virtual_time.clock import instruction_ns
from pytest_nfvperf.backends.generator_side import TakenMachine
from pytest_nfvperf.model.testbed.testbed import CpuPlan, GeneratorSpec, OvsSpec, Testbed
from pytest_nfvperf.ports.ceilings import Ceilings
from pytest_nfvperf.ports.generator import Generator
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

    def make(self, machine: TakenMachine, beside: str = "") -> Generator:  # noqa: ARG002
        """Open none yet: sockets are opened for each trial."""
        return PacketSocketGenerator(self._instruction_ns())

    def close(self) -> None:
        """Nothing was taken."""
