"""The generator of virtual time: bursts over rings that stay whole, and which engine sends by which ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from pytest_nfvperf.adapters.generators.frames import intended_frames
from pytest_nfvperf.adapters.generators.packet_socket import MOST_FLOWS
from pytest_nfvperf.adapters.ovs.counters import OvsCollector
from pytest_nfvperf.features.virtual_time.counting_generators import (
    BURST_FRAMES,
    CountedBursts,
    CountingGenerator,
)
from pytest_nfvperf.measure.measurements import per_packet
from pytest_nfvperf.model.disturbance.trial import InvalidReason, Reason, TrialResult
from pytest_nfvperf.model.errors import ConfigError, UnavailableError
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, RigHealth, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from tests.sample_trials import counts_of

RING, VETH = "net_virtio_user,path=/x/p.sock,server=1", "net_af_packet,iface=p0"
THERE, BACK = Direction("p0", "p1"), Direction("p1", "p0")


def port(name: str, device: str = RING) -> GeneratorPort:
    return GeneratorPort(name, device, "02:00:00:00:00:01")


class Rings:
    """As the embedded generator. In some trials it is away, and skips a part; the DUT may lose all of some.

    ``away``: frames skipped in the n-th trial. ``lost``: trials whose frames the DUT loses.
    """

    def __init__(self, away: Mapping[int, int] | None = None, lost: frozenset[int] = frozenset()) -> None:
        self.sent: list[tuple[Direction, int]] = []
        self.attached: list[str] = []
        self.closed = 0
        self.busy_ns = 0
        self._away = dict(away or {})
        self._lost = lost

    def info(self) -> None: ...

    def attach(self, ports: list[GeneratorPort]) -> None:
        self.attached += [each.name for each in ports]

    def detach(self, names: list[str]) -> None:
        self.attached = [name for name in self.attached if name not in names]

    def wait_links_up(self, deadline_s: float) -> None: ...

    def close(self) -> None:
        self.closed += 1

    def run_trial(self, spec: TrialSpec) -> TrialResult:
        (direction,) = spec.directions
        frames = intended_frames(spec.load_fps, spec.duration_s)
        number = len(self.sent)
        skipped = self._away.get(number, 0)
        sent = frames - skipped
        self.sent.append((direction, sent))
        self.busy_ns += 2_000 * sent
        received = 0 if number in self._lost else sent
        counts = counts_of(direction, sent=sent, received=received, skipped=skipped, elapsed_ns=1)
        late = (InvalidReason(Reason.SKIPPED_FRAMES, "away"),) if skipped else ()
        return TrialResult(spec, (counts,), RigHealth(), invalid=late)


def trial(frames: int, flows: int = 1, directions: tuple[Direction, ...] = (THERE, BACK)) -> TrialSpec:
    return TrialSpec(Traffic(flows=flows), frames, 1.0, directions)


def test_frames_go_in_bursts_by_turns() -> None:
    rings = Rings()
    result, bursts = CountedBursts(2, rings).run_counted(trial(70), lambda: rings.busy_ns)
    assert rings.sent == [(THERE, 32), (BACK, 32), (THERE, 32), (BACK, 32), (THERE, 6), (BACK, 6)]
    assert [(count.intended, count.sent, count.received) for count in result.counts] == [(70, 70, 70)] * 2
    assert per_packet(list(bursts), 2) == 1000


def test_what_was_skipped_is_sent_after_its_burst_and_costs_nobody_anything() -> None:
    """Else the ring's index would be no multiple of four to the end of the run, and every burst cost more."""
    rings = Rings(away={1: 13})
    result, bursts = CountedBursts(2, rings).run_counted(trial(64, directions=(THERE,)), lambda: rings.busy_ns)
    assert rings.sent == [(THERE, 32), (THERE, 19), (THERE, 13)]
    assert [burst.frames for burst in bursts] == [32, 19]
    assert [burst.busy_ns for burst in bursts] == [64_000, 38_000]
    assert result.valid
    assert (result.counts[0].sent, result.counts[0].skipped, result.lost) == (64, 0, 0)


def test_a_generator_that_stays_away_is_not_waited_for_for_ever() -> None:
    rings = Rings(away=dict.fromkeys(range(99), 1))
    result, _ = CountedBursts(2, rings).run_counted(trial(1, directions=(THERE,)), lambda: 0)
    assert (result.counts[0].sent, result.counts[0].skipped) == (0, 1)
    assert len(rings.sent) < 10


def test_a_burst_has_a_frame_of_each_flow() -> None:
    rings = Rings()
    CountedBursts(2, rings).run_trial(trial(400, flows=100, directions=(THERE,)))
    assert [frames for _, frames in rings.sent] == [100] * 4
    with pytest.raises(ConfigError, match=rf"at most {MOST_FLOWS} flows are sent, not {MOST_FLOWS + 1}"):
        CountedBursts(2, rings).run_trial(trial(400, flows=MOST_FLOWS + 1))


def test_learning_goes_on_until_whole_bursts_come_through() -> None:
    rings = Rings(lost=frozenset({2, 3, 5}))
    CountedBursts(2, rings).learn(Traffic(flows=50), (THERE, BACK))
    assert {frames for _, frames in rings.sent} == {BURST_FRAMES}
    assert len(rings.sent) == 8, "a first round, two in which some were lost, and one in which none was"


def test_a_dut_without_a_forwarding_thread_is_refused() -> None:
    with pytest.raises(ConfigError, match="this DUT has none that forwards"):
        CountedBursts(2, Rings()).run_counted(trial(32), None)


class Sockets(Rings):
    instruction_ns = 2


@pytest.fixture
def both() -> Iterator[tuple[CountingGenerator, Sockets, list[Rings]]]:
    sockets, started = Sockets(), []

    def start() -> CountedBursts:
        started.append(Rings())
        return CountedBursts(2, started[-1])

    made = CountingGenerator(sockets, start)
    yield made, sockets, started
    made.close()
    assert sockets.closed == 1
    assert all(one.closed == 1 for one in started)


def test_the_ports_say_which_engine_sends(both: tuple[CountingGenerator, Sockets, list[Rings]]) -> None:
    generator, sockets, started = both
    generator.attach([port("p0", VETH), port("p1", VETH)])
    generator.run_trial(trial(32, directions=(THERE,)))
    assert (len(sockets.sent), started) == (1, [])
    generator.detach(["p0", "p1"])
    generator.attach([port("p0"), port("p1")])
    generator.run_trial(trial(32, directions=(THERE,)))
    assert (len(sockets.sent), started[0].sent) == (1, [(THERE, 32)])
    generator.detach(["p0", "p1"])
    generator.attach([port("p0", VETH), port("p1", VETH)])
    generator.run_trial(trial(32, directions=(THERE,)))
    assert (len(sockets.sent), len(started), len(started[0].sent)) == (2, 1, 1)


def test_ports_of_two_kinds_are_refused(both: tuple[CountingGenerator, Sockets, list[Rings]]) -> None:
    generator, sockets, started = both
    with pytest.raises(ConfigError, match=r"p0 are rings of DPDK and p1 are not: .* ports are of one kind"):
        generator.attach([port("p0"), port("p1", VETH)])
    assert (sockets.attached, started) == ([], [])


class Listing:
    """An OVS with DPDK that lists its PMDs' counters in one way."""

    def __init__(self, known: bool, text: str) -> None:
        self.ctl = self
        self.sockets, self.ofctl = None, ()
        self.options = type("Options", (), {"dpdk": True, "datapath_type": "netdev"})
        self._known = known
        self._text = text

    def usage(self, command: str) -> str | None:
        return "" if self._known else None

    def call(self, *words: str) -> str:
        return self._text


def test_with_dpdk_the_pmds_busy_cycles_are_what_forwarding_took() -> None:
    text = "".join(
        f"pmd thread numa_id 0 core_id {core}:\n  idle cycles: 900 (90%)\n  processing cycles: {busy} (10%)\n"
        for core, busy in ((0, 1_000), (1, 234))
    )
    assert OvsCollector(Listing(True, text), list).forwarding_ns() == 1_234


def test_a_version_that_does_not_list_them_is_refused_with_what_to_do() -> None:
    text = "pmd thread numa_id 0 core_id 0:\n  Iterations: 5\n  - Used TSC cycles: 900 (90%)\n"
    with pytest.raises(UnavailableError, match=r"does not list the cycles .* use the datapath netdev"):
        OvsCollector(Listing(False, text), list).forwarding_ns()
