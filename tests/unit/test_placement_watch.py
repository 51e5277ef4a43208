"""Trials keep to one band of CPU distance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.adapters.process.outputs import StoredValueFile
from pytest_nfvperf.measure.cpu_placement import LOOK_EVERY_S, PlacementWatch, read_round_trips
from pytest_nfvperf.measure.trials import Context, InvalidTrialsError, Recorder, TrialRunner
from pytest_nfvperf.model.disturbance.cpu_distance import Band, CpuDistance, Distance
from pytest_nfvperf.model.disturbance.policy import POLICY
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.ports.machine import Progress, StoredValue
from tests.unit.test_search_algorithms import VirtualClock

KNOWN = [100.0, 110.0, 105.0, 420.0, 430.0, 440.0]


class Remembered:
    def __init__(self, trips: Sequence[float]) -> None:
        self.trips = list(trips)

    def read(self) -> object:
        return list(self.trips)

    def write(self, value: object) -> None:
        assert isinstance(value, list)
        self.trips = list(value)


ONE_CORE = 44
"""Round trip between the two threads of a core, where both compute slowly, ns."""


class Moved(FakeGenerator):
    """Its CPU is where the script says, look by look; the last place holds for good. None: not to be had."""

    def __init__(self, trips: Sequence[int | None]) -> None:
        super().__init__(5e6)
        self.trips = list(trips)
        self.looks = 0

    def distances(self, cpus: Sequence[int]) -> tuple[Distance, ...]:
        trip = self.trips[min(self.looks, len(self.trips) - 1)]
        self.looks += 1
        return tuple(Distance(0, cpu, trip, slow=trip == ONE_CORE) for cpu in cpus)


def rig(
    trips: Sequence[int | None], known: Sequence[float] = KNOWN
) -> tuple[TrialRunner, TrialSpec, list[str], VirtualClock]:
    generator, clock, told = Moved(trips), VirtualClock(), []
    topology = phy2phy()
    generator.attach([GeneratorPort(port.name, "", port.mac) for port in topology.ports])
    generator.clock = clock
    placement = PlacementWatch((1,), Remembered(known), clock, told.append)
    context = Context(Recorder("r", [], clock), Progress(), clock, placement=placement)
    runner = TrialRunner(generator, [], check_alive=lambda: None, context=context, repeats=2)
    return runner, TrialSpec(Traffic(), 1_000_000, 1.0, topology.directions), told, clock


def test_a_trial_in_the_near_band_says_so() -> None:
    runner, spec, told, _ = rig([100, 110])
    trial = runner.run(spec)
    assert trial.result.valid
    assert trial.result.placement == CpuDistance(100, 110, far=False, near_ns=110)
    assert trial.result.placement.far_reason == ""
    assert told == []


@pytest.mark.parametrize("trips", [[100, 430, 100], [100, 430, 430, 100]])
def test_a_cpu_that_moved_spoils_the_trial_and_it_is_repeated(trips: list[int]) -> None:
    runner, spec, _, _ = rig(trips)
    disturbed = runner.run_once(spec)
    assert [reason.code for reason in disturbed.result.invalid] == [Reason.CPU_MOVED]
    assert "took 100 ns before it and 430 ns after" in str(disturbed.result.invalid[0])
    assert runner.run(spec).result.valid


def test_the_near_band_is_waited_for_and_that_is_told() -> None:
    runner, spec, told, clock = rig([430, 430, 430, 100])
    before = clock.monotonic()
    trial = runner.run(spec)
    assert trial.result.placement == CpuDistance(100, 100, far=False, near_ns=110)
    assert clock.monotonic() - before >= 3 * LOOK_EVERY_S
    assert len(told) == 3
    assert told[0].startswith(
        "waiting for the host: it keeps generator and DUT 430 ns apart (near: 100 .. 110 ns); at most"
    )


def test_what_does_not_come_back_is_measured_far_and_is_waited_for_once() -> None:
    runner, spec, told, clock = rig([430])
    before = clock.monotonic()
    trial = runner.run(spec)
    waited = clock.monotonic() - before
    assert trial.result.valid
    assert POLICY.retry_budget_s <= waited < POLICY.retry_budget_s + 3
    assert trial.result.placement is not None
    assert trial.result.placement.far_reason == (
        "the host keeps the CPUs of generator and DUT 430 ns apart (round trip of a cache line; near is up to 110 ns)"
    )
    told.clear()
    runner.run(spec)
    assert told == []


def test_after_the_near_band_was_seen_again_it_is_waited_for_again() -> None:
    runner, spec, told, _ = rig([*[430] * 90, 100, 100, 430, 100])
    runner.run(spec)
    while runner.run(spec).result.placement != CpuDistance(100, 100, far=False, near_ns=110):
        pass
    told.clear()
    runner.run(spec)
    assert len(told) == 1


def test_each_wait_in_vain_halves_the_next_one_and_one_that_was_not_makes_it_whole() -> None:
    """A host that keeps CPUs apart for minutes would cost a run a wait at each of its tests."""
    generator, clock = Moved([]), VirtualClock()
    placement = PlacementWatch((1,), Remembered(KNOWN), clock)

    def waited(trips: list[int]) -> float:
        generator.trips, generator.looks = trips, 0
        before = clock.monotonic()
        placement.settle(generator)
        gone = clock.monotonic() - before
        generator.trips = [100]
        placement.settle(generator)  # near again, so the next absence is another one
        return gone

    far, back = [430], [*[430] * 3, 100]
    for expected in (
        POLICY.retry_budget_s,
        POLICY.retry_budget_s / 2,
        POLICY.least_retry_budget_s,
        POLICY.least_retry_budget_s,
    ):
        assert expected <= waited(far) < expected + 3
    assert waited(back) < 3
    assert waited(far) >= POLICY.retry_budget_s


class Resting:
    """A DUT that knows whether it is stopped, and how often it was."""

    def __init__(self) -> None:
        self.stopped = False
        self.stops = 0

    def freeze(self) -> None:
        self.stopped = True
        self.stops += 1

    def thaw(self) -> None:
        self.stopped = False


def test_the_dut_rests_while_the_near_band_is_waited_for_and_works_when_it_is_looked_for() -> None:
    dut, clock, drawn = Resting(), VirtualClock(), []

    class Drawing(Moved):
        def distances(self, cpus: Sequence[int]) -> tuple[Distance, ...]:
            assert not dut.stopped
            return super().distances(cpus)

        def move_cpus_closer(self, cpu: int, other: int) -> None:
            drawn.append((cpu, other, dut.stopped))
            clock.sleep(0.2)

    placement = PlacementWatch((1,), Remembered(KNOWN), clock)
    assert placement.settle(Drawing([430, 430, 430, 100]), dut) == 100
    assert drawn == [(0, 1, True)] * 3
    assert placement.settle(Drawing([100]), dut) == 100
    assert len(drawn) == 3, "nobody rests where the CPUs are near"


def test_without_a_dut_that_rests_the_host_is_just_waited_for() -> None:
    generator, clock = Moved([430, 430, 430, 100]), VirtualClock()
    before = clock.monotonic()
    assert PlacementWatch((1,), Remembered(KNOWN), clock).settle(generator) == 100
    assert clock.monotonic() - before == pytest.approx(3 * LOOK_EVERY_S)


def test_a_dut_whose_rest_is_interrupted_goes_on() -> None:
    class Interrupted(Moved):
        def move_cpus_closer(self, cpu: int, other: int) -> None:
            raise KeyboardInterrupt

    dut = Resting()
    with pytest.raises(KeyboardInterrupt):
        PlacementWatch((1,), Remembered(KNOWN), VirtualClock()).settle(Interrupted([430]), dut)
    assert (dut.stops, dut.stopped) == (1, False)


def test_repeats_for_a_moving_host_have_a_time_of_their_own() -> None:
    runner, spec, _, clock = rig([100, 430] * 100)
    begun = clock.monotonic()
    with pytest.raises(InvalidTrialsError, match=r"trials in a row were invalid \(cpu_moved \d+x\)") as told:
        runner.run(spec)
    each_s = (clock.monotonic() - begun) / len(told.value.trials)
    free = len(told.value.trials) - 3
    assert (free - 1) * each_s < POLICY.moved_s <= free * each_s


@pytest.mark.parametrize(("trips", "known"), [([300, 420], []), ([300, 310], [300.0, 310.0, 305.0] * 9)])
def test_where_placement_never_changed_there_is_no_band_to_wait_for(trips: list[int], known: list[float]) -> None:
    runner, spec, told, _ = rig(trips, known)
    trial = runner.run(spec)
    assert trial.result.valid
    assert trial.result.placement is not None
    assert trial.result.placement.far_reason == ""
    assert told == []


NEVER_FAR = [50.0, 55.0, 60.0] * 100


@pytest.mark.parametrize("known", [[], [50.0], NEVER_FAR], ids=["new machine", "one look", "always near"])
def test_the_first_move_ever_spoils_its_trial(known: list[float]) -> None:
    looks_before = 1 if len(known) > 3 else 3
    runner, spec, _, _ = rig([*[50] * looks_before, *[410] * 20], known)
    disturbed = runner.run_once(spec)
    assert [reason.code for reason in disturbed.result.invalid] == [Reason.CPU_MOVED]
    assert "took 50 ns before it and 410 ns after" in str(disturbed.result.invalid[0])


def test_one_disturbed_reading_is_no_move_and_is_forgotten() -> None:
    runner, spec, told, _ = rig([50, 410, 52], NEVER_FAR)
    trial = runner.run_once(spec)
    assert trial.result.valid
    assert trial.result.placement == CpuDistance(50, 52)
    assert told == []


def test_a_second_band_is_waited_for_from_its_first_sight_on() -> None:
    runner, spec, told, _ = rig([*[410] * 20, 50], NEVER_FAR)
    assert runner.run(spec).result.placement == CpuDistance(50, 50, far=False, near_ns=60)
    assert told[0].startswith("waiting for the host: it keeps generator and DUT 410 ns apart (near: 50 .. 60 ns)")


def test_a_cpu_that_is_not_to_be_had_is_no_figure() -> None:
    runner, spec, _, _ = rig([None])
    trial = runner.run(spec)
    assert trial.result.valid
    assert trial.result.placement is None


def test_a_generator_that_cannot_tell_is_not_asked() -> None:
    placement = PlacementWatch((1,), StoredValue(), VirtualClock())
    assert placement.settle(FakeGenerator(1e6)) is None
    assert placement.bands is None


def test_round_trips_are_kept_by_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "round-trips.json"
    StoredValueFile(path, "here").write(KNOWN)
    StoredValueFile(path, "there").write([50.0])
    assert read_round_trips(StoredValueFile(path, "here")) == KNOWN
    assert read_round_trips(StoredValueFile(path, "nowhere")) == []
    path.write_text("{")
    assert read_round_trips(StoredValueFile(path, "here")) == []


def test_what_was_seen_is_kept_at_the_end() -> None:
    kept = Remembered(KNOWN)
    placement = PlacementWatch((1,), kept, VirtualClock())
    placement.settle(Moved([100]))
    placement.close()
    assert kept.trips == [*KNOWN, 100.0]
    assert placement.bands is not None
    assert placement.bands.near == Band(100.0, 110.0)


def test_a_memory_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    StoredValueFile(tmp_path / "file" / "round-trips.json", "here").write(KNOWN)
    assert (tmp_path / "file").read_bytes() == b""


def test_two_threads_of_a_core_are_no_band_that_others_are_far_from() -> None:
    """Seen on a host that sometimes put both CPUs on one core: runs waited for that, and no figure was exact."""
    runner, spec, told, _ = rig([*[ONE_CORE] * 40, 120], known=[100.0, 110.0, 120.0])
    for _ in range(20):
        assert runner.run(spec).result.placement == CpuDistance(ONE_CORE, ONE_CORE, far=False, near_ns=None)
    for _ in range(20):
        assert runner.run(spec).result.placement == CpuDistance(120, 120, far=False, near_ns=None)
    assert told == []


def test_round_trips_of_slow_cpus_are_not_remembered() -> None:
    store = Remembered([100.0, 110.0, 120.0])
    placement = PlacementWatch((1,), store, VirtualClock())
    generator = Moved([ONE_CORE, ONE_CORE, ONE_CORE, 115])
    for slow in (True, True, True, False):
        placement.settle(generator)
        assert placement.slow is slow
    placement.close()
    assert store.trips == [100.0, 110.0, 120.0, 115.0]
