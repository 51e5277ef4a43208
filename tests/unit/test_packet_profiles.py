"""One more trial of packets under a profiler of the poll-mode threads: which, when, and that it counts for nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from simulated_bench import CEILING, OneBench, SimulatedLive

from pytest_nfvperf.features.profile.perf import Profiles
from pytest_nfvperf.measure.clocks import TimeLimit
from pytest_nfvperf.measure.limits import OVERLOAD, Limits
from pytest_nfvperf.measure.measurements import Subject
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.measure.trials import TrialRunner
from pytest_nfvperf.model.disturbance.cpu_distance import Poller
from pytest_nfvperf.model.errors import GeneratorError, UnavailableError
from pytest_nfvperf.model.measure.cpu_profile import CpuProfile
from pytest_nfvperf.model.measure.ledger import CounterSnapshot
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.traffic.traffic import Traffic

PMD = Poller(1, 100, 101)
PACKETS, BUSY, IDLE = 1000, 90_000, 10_000
STACKS = ((("pmd-c01", "main", "receive"), 3), (("pmd-c01", "main", "send"), 1))
PURPOSE = "CPU profile"


class Polling(SimulatedLive):
    """A live topology whose DUT has a poll-mode thread, with counters."""

    services: tuple[object, ...] = ()
    polls = 0

    def __init__(self, topology: Any, runner: Any) -> None:
        super().__init__(topology, runner)
        self.generator, self.collectors = runner.generator, [SimpleNamespace(pollers=lambda: (PMD,))]

    def counters(self) -> list[CounterSnapshot]:
        self.polls += 1
        counted = {"packets_received": PACKETS, "cycles_busy": BUSY, "cycles_idle": IDLE}
        return [CounterSnapshot("pmd", 0, tuple((f"pmd.{name}", self.polls * n) for name, n in counted.items()))]


class ProfiledBench(OneBench):
    """With a profiler that notes whose threads it sampled on which topology; ``refuses``: why it cannot."""

    def __init__(self, directory: Path) -> None:
        super().__init__(lambda bridges: 4e6 / bridges)
        self.sampled: list[tuple[Any, int]] = []
        self.refuses = ""
        parts: Any = SimpleNamespace(make_profiler=lambda pollers: lambda work: self._sample(pollers, work))
        self.context = replace(self.context, profiling=Profiles(lambda: parts, directory, self.context))

    def _sample(self, pollers: Any, work: Any) -> CpuProfile:
        if self.refuses:
            raise UnavailableError(self.refuses)
        self.sampled.append((pollers, self.order[-1] if self.order else 0))
        work()
        return CpuProfile("cpu-clock", (1,), STACKS)

    def redeploy(self, topology: Any, dut: Any, *, quiet: bool) -> Polling:
        context = replace(self.context, deployed_on=(topology, dut))
        super().redeploy(topology, dut, quiet=quiet)
        runner = TrialRunner(self.generator, [], check_alive=lambda: None, context=context, repeats=1)
        return Polling(topology, runner)

    def live(self) -> Polling:
        return self.redeploy(bridge_chain(2), TESTBED_DUT, quiet=True)

    def recorded(self, kind: str) -> list[Any]:
        return [record for record in self.sink.records if record.kind == kind]

    def named(self, begin: str) -> list[str]:
        names = {record.data["name"]: record.data for record in self.recorded("attachment")}
        return [data["text"] for name, data in names.items() if name.startswith(begin)]


@pytest.fixture
def bench(tmp_path: Path) -> ProfiledBench:
    return ProfiledBench(tmp_path)


def search(line_rate_fps: float | None = None) -> Search:
    return Search(QUICK, {}, lambda *_: Limits(CEILING, line_rate_fps), lambda _: 60.0)


def profiled_loads(bench: ProfiledBench) -> list[int]:
    return [spec.load_fps for spec in bench.generator.specs if spec.purpose == PURPOSE]


def test_a_search_is_profiled_once_at_overload_and_no_record_has_the_trial(bench: ProfiledBench) -> None:
    """Steps: a search, then a trial at a low load of the same traffic. Verify: one profile, after the figures."""
    found = search().ndr_pdr(bench.live(), Traffic(frame_size=64))
    again = search().loss_at(bench.live(), Traffic(frame_size=64), 1e6, 0.5)
    assert bench.sampled == [([PMD], 2)]
    assert profiled_loads(bench) == [round(CEILING * OVERLOAD)]
    trials = [record.data["result"]["spec"]["purpose"] for record in bench.recorded("trial")]
    assert PURPOSE not in trials
    assert found.notes == again.notes == ()
    search().loss_of(bench.live(), Traffic(frame_size=128), 100)
    (told,) = bench.named("CPU profile of trial-")
    assert "100 cycles a packet, 90 without empty polls\n 75.0%    75 cycles  pmd-c01: receive\n" in told


def test_a_fixed_load_is_profiled_at_overload_and_ports_with_a_line_rate_at_the_load_tried(
    bench: ProfiledBench,
) -> None:
    search().loss_at(bench.live(), Traffic(frame_size=64), 1e6, 0.5)
    search(5e6).loss_at(bench.live(), Traffic(frame_size=128), 1e6, 0.5)
    assert profiled_loads(bench) == [round(CEILING * OVERLOAD), 1_000_000]


def test_figures_are_those_of_a_run_that_is_not_profiled(bench: ProfiledBench) -> None:
    plain = OneBench(lambda bridges: 4e6 / bridges).redeploy(bridge_chain(2), TESTBED_DUT, quiet=True)
    profiled = search().ndr_pdr(bench.live(), Traffic(frame_size=64))
    unprofiled = search().ndr_pdr(plain, Traffic(frame_size=64))
    assert profiled.goals == unprofiled.goals
    assert profiled.trials == unprofiled.trials


@pytest.mark.parametrize("in_rounds", [False, True])
def test_a_study_profiles_each_subject_and_compares(
    bench: ProfiledBench, monkeypatch: pytest.MonkeyPatch, *, in_rounds: bool
) -> None:
    if in_rounds:
        monkeypatch.setattr(bench, "side_by_side", lambda _: None)
    subjects = [Subject(str(number), bridge_chain(number)) for number in (1, 9)]
    one, nine = bench.study().forwarding_rate("bridges", subjects, Traffic(frame_size=64))
    assert bench.sampled == [([PMD], 1), ([PMD], 9)]
    assert [outcome.label["bridges"] for outcome in (one, nine)] == ["1", "9"]
    (changed,) = bench.named("what changed, bridges: 9 against 1")
    assert " 75.0% ->  75.0%    75 ->   75  pmd-c01: receive\n" in changed
    assert sum("bridges 9" in record.data["name"] for record in bench.recorded("attachment")) == 3


@pytest.mark.parametrize(
    ("hinder", "reason"),
    [
        (lambda bench, _: setattr(bench, "refuses", "perf is not installed"), "perf is not installed"),
        (lambda _, live: setattr(live, "collectors", []), "has no poll-mode threads"),
        (lambda _, live: setattr(live, "services", (object(),)), "sessions"),
    ],
)
def test_an_outcome_notes_why_it_has_no_profile(bench: ProfiledBench, hinder: Any, reason: str) -> None:
    live = bench.live()
    hinder(bench, live)
    outcome = search().loss_at(live, Traffic(frame_size=64), 1e6, 0.5)
    (note,) = outcome.notes
    assert note.startswith("no CPU profile: ")
    assert reason in note
    assert outcome.figures
    assert profiled_loads(bench) == []


def test_a_profile_takes_no_time_that_other_tests_need(bench: ProfiledBench) -> None:
    bench.context = replace(bench.context, time_limit=TimeLimit(60.0, bench.clock))
    bench.context.time_limit.reserved_s = 55.0
    parts: Any = SimpleNamespace(make_profiler=None)
    bench.context = replace(bench.context, profiling=Profiles(lambda: parts, Path("/nowhere"), bench.context))
    outcome = search().loss_at(bench.live(), Traffic(frame_size=64), 1e6, 0.5)
    assert "no time to spare" in outcome.notes[0]


def test_a_generator_that_dies_meanwhile_is_a_broken_testbed(bench: ProfiledBench) -> None:
    live = bench.live()
    bench.generator.fail_at = 3
    with pytest.raises(GeneratorError):
        search().loss_at(live, Traffic(frame_size=64), 1e6, 0.5)
    assert bench.sampled
