"""Instructions per packet through chains of bridges: a program for a guest that lives in virtual time.

``python -m tests.kernel.chain_cost --to FILE``: one JSON object a line and chain, as :class:`ChainCost` has it. Exit
status 75: the rig failed, which another boot may mend.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from pathlib import Path

from pytest_nfvperf.adapters.machine.fingerprint import instruction_ns
from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.figure import Figure, exact
from pytest_nfvperf.model.measure.cpu_profile import INSTRUCTIONS, INSTRUCTIONS_PER_PACKET
from pytest_nfvperf.model.testbed.testbed import CpuPlan, GeneratorSpec, OvsSpec, Testbed
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.topology.links import Crossing
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import BuiltTopology
from tests.kernel.pktgen import Flow, received, send

LINKS = ("patch", "veth")
BRIDGES = (1, 2, 4, 8)
PACKETS = 2000
_GAP_NS = 200_000
SAMPLES = 3
# To nobody: the last interface counts the frame and its IP drops it, so no answer comes back. At a pace at which each
# packet is through before the next: those that queue for a softirq are counted late, or lost.
NOBODY = Flow(PACKETS, _GAP_NS, 64, "02:4e:46:ff:ff:01", "192.0.2.1")
_DEADLINE_S = 300.0  # virtual, as all times here: a wait for the host can take longer than it seems
PASSED_A_DEADLINE = 75  # EX_TEMPFAIL of sysexits(3)
_BURST = 20
_REST_S = 0.2
# nothing polls here, so all may share the one CPU of virtual time
GUEST = Testbed(
    name="guest",
    ovs=OvsSpec(datapath="system"),
    cpus=CpuPlan(housekeeping=(0,), pmd=(0,), generator=(0,)),
    ports=(),
    generator=GeneratorSpec(),
    links=(),
)


@dataclass(frozen=True, slots=True)
class InstructionCost:
    """Instructions that a sender and all that it sent through took.

    Attributes:
        packets: sent, each of which arrived.
        busy_ns: virtual time spent on them, in ns; idle time is not in it.
        instruction_ns: virtual time of one instruction, in ns.

    Raises:
        ValueError: no packet, or no time.
    """

    packets: int
    busy_ns: int
    instruction_ns: int

    def __post_init__(self) -> None:
        for name in ("packets", "busy_ns", "instruction_ns"):
            if getattr(self, name) < 1:
                raise ValueError(f"instructions per packet need {name} of at least 1, not {getattr(self, name)}")

    @property
    def instructions_per_packet(self) -> float:
        """CPU instructions a packet."""
        return self.busy_ns / self.instruction_ns / self.packets

    def figure(self) -> Figure:
        """The figure, as an SLA sees it."""
        rests_on = (
            f"virtual time: {self.busy_ns} ns busy, {self.instruction_ns} ns an instruction, {self.packets} packets"
        )
        return exact(INSTRUCTIONS_PER_PACKET, self.instructions_per_packet, INSTRUCTIONS, confidence=rests_on)


@dataclass(frozen=True, slots=True)
class ChainCost:
    """One chain's samples, the first (flows are set up, caches are cold) left out."""

    datapath: str
    link: str
    bridges: int
    samples: tuple[InstructionCost, ...]

    def to_json(self) -> str:
        """One line."""
        return json.dumps({**asdict(self), "time": "virtual"})

    @staticmethod
    def from_json(line: str) -> ChainCost:
        """Read a line."""
        raw = json.loads(line)
        samples = tuple(InstructionCost(**sample) for sample in raw["samples"])
        return ChainCost(raw["datapath"], raw["link"], raw["bridges"], samples)


def crossed_chain(bridges: int, link: str) -> Topology:
    """A chain between two namespaces whose bridges pass frames on by flows, without learning."""
    chain = bridge_chain(bridges, link=link, ends="namespace")
    pairs = [(name, pair) for name in chain.bridges for pair in permutations(chain.bridge_ports(name), 2)]
    return replace(chain, crossings=tuple(Crossing(name, *pair) for name, pair in pairs))


def measure(built: BuiltTopology, samples: int, ns: int) -> tuple[InstructionCost, ...]:
    """Send through a deployed chain; the first sample is thrown away."""
    wait_until(
        lambda: _passes(built),
        f"{built.topology.name} to pass every packet of a burst: flows are set up one bridge after the other",
        _DEADLINE_S,
    )
    return tuple(_sample(built, ns) for _ in range(1 + samples))[1:]


def _passes(built: BuiltTopology) -> bool:
    before = received(built.netns("end1"), "eth0")
    sent = send(built.netns("end0"), "eth0", replace(NOBODY, packets=_BURST))
    time.sleep(_REST_S)
    return received(built.netns("end1"), "eth0") - before == sent.packets


def _sample(built: BuiltTopology, ns: int) -> InstructionCost:
    """One run, every packet of which was sent and arrived."""
    last = built.netns("end1")
    before = received(last, "eth0")

    def arrived() -> int:
        return received(last, "eth0") - before

    sent = send(built.netns("end0"), "eth0", NOBODY)
    if sent.errors or sent.packets != NOBODY.packets:
        raise TestbedError(f"{built.topology.name}: {NOBODY.packets} packets were to be sent, pktgen's run was {sent}")
    wait_until(
        lambda: arrived() == sent.packets,
        f"{sent.packets} packets at the end of {built.topology.name}",
        _DEADLINE_S,
        last_seen=lambda: f"{arrived()} packets",
    )
    return InstructionCost(sent.packets, sent.busy_us * 1000, ns)


def run(to: Path, links: Sequence[str], bridges: Sequence[int]) -> None:
    """Measure each chain on the kernel datapath, and write its line as soon as it is known."""
    ns = instruction_ns()
    journal = open_journal()
    try:
        ovs = OvsDatapath.start(GUEST, journal)
        with to.open("a", encoding="ascii") as file:
            for link in links:
                for number in bridges:
                    built = ovs.build(crossed_chain(number, link))
                    built.wait_ready(_DEADLINE_S)
                    cost = ChainCost(ovs.info().kind, link, number, measure(built, SAMPLES, ns))
                    built.close()
                    print(cost.to_json(), file=file, flush=True)
                    shown = ", ".join(f"{sample.instructions_per_packet:.0f}" for sample in cost.samples)
                    print(f"{link} chain of {number}: {shown} instructions/packet (virtual time)", flush=True)
        ovs.close()
    finally:
        journal.close()


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernel.chain_cost", description=__doc__)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")
    parser.add_argument("--links", nargs="+", choices=LINKS, default=LINKS)
    parser.add_argument("--bridges", nargs="+", type=int, default=BRIDGES)
    options = parser.parse_args(argv)
    try:
        run(options.to, options.links, options.bridges)
    except TestbedError as error:
        # While the guest waits 50 ms for a file of the host's, 10 s of skipped time can pass, and a start's deadline.
        print(error, file=sys.stderr)
        return PASSED_A_DEADLINE
    return 0


if __name__ == "__main__":
    sys.exit(main())
