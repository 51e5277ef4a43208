"""Durations come of the monotonic clock; a suspend disturbs what it falls into; a stamp is before or after a step."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_nfvperf
from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.features.routing.bird import bird_session
from pytest_nfvperf.features.routing.model import Neighbor
from pytest_nfvperf.features.routing.route_agent import monotonic_of
from pytest_nfvperf.measure.clocks import Stopwatch, VirtualClock
from pytest_nfvperf.measure.trials import Context, Recorder, TrialRunner
from pytest_nfvperf.model.disturbance.trial import Reason
from pytest_nfvperf.model.evidence.records import RunEndData, Span
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.ports.machine import Progress
from tests.sample_run import write_sample

PACKAGE = Path(pytest_nfvperf.__file__).parent
WALL_CLOCK = {
    ("time", "time"), ("time", "time_ns"), ("time", "localtime"), ("time", "gmtime"), ("time", "strftime"),
    ("datetime", "now"), ("datetime", "today"), ("datetime", "utcnow"), ("date", "today"),
}  # fmt: skip
FOR_PEOPLE = {
    "plugin/run_state.py": "names of directories",
    "measure/clocks.py": "when a record was written",
    "session/last_run.py": "how old an earlier run is, by the name of its directory",
    "features/history/command.py": "a run of a clock that was not set is refused",
    "features/versions/origins.py": "when a version was added",
    "adapters/ovs/offload.py": "lines of OVS's log have times of it",
    "adapters/process/process.py": "the kernel stamps packets by it, and iperf times by it; a step is seen",
}
SECOND = 10**9


def _asks_wall_clock(file: Path) -> bool:
    names = [node.func for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    asked = [(name.value, name.attr) for name in names if isinstance(name, ast.Attribute)]
    owners = [(of.id if isinstance(of, ast.Name) else getattr(of, "attr", ""), attr) for of, attr in asked]
    return any(owner in WALL_CLOCK for owner in owners)


def test_the_wall_clock_is_asked_only_where_people_read_it() -> None:
    """A duration of it is wrong by an hour once somebody sets it. Whoever adds a place says here what for."""
    asking = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if _asks_wall_clock(file)}
    assert asking == set(FOR_PEOPLE)


@given(
    before=st.integers(-(10**18), 2 * 10**18),
    step_s=st.one_of(st.integers(-(10**9), -4), st.integers(4, 10**9)),
    since=st.integers(0, 10**15),
    lasted=st.integers(0, 3 * SECOND),
    share=st.floats(0, 1),
    stepped_before=st.booleans(),
)
def test_a_stamp_is_dated_across_any_step(
    before: int, step_s: int, since: int, lasted: int, share: float, stepped_before: bool
) -> None:
    """Steps that are longer than it lasts from one look to the next cannot be mistaken."""
    at, after = since + int(lasted * share), before + step_s * SECOND
    stamp = at + (after if stepped_before else before)
    assert monotonic_of(stamp, (after, before), since, since + lasted) == at


def runner(generator: FakeGenerator) -> TrialRunner:
    clock = generator.clock
    context = Context(Recorder("r", [], clock), Progress(), clock)
    return TrialRunner(generator, [], check_alive=lambda: None, context=context)


@pytest.mark.parametrize(("asleep_s", "said"), [(0.0, []), (0.005, []), (3600.0, ["3600.0 s"]), (0.5, ["0.5 s"])])
def test_a_trial_during_which_the_machine_slept_is_invalid(
    monkeypatch: pytest.MonkeyPatch, asleep_s: float, said: list[str]
) -> None:
    generator = FakeGenerator(1e6, clock=VirtualClock())
    topology = phy2phy()
    generator.attach([GeneratorPort(port.name, "", port.mac) for port in topology.ports])
    true, slept = time.clock_gettime_ns, [0]
    monkeypatch.setattr(
        time, "clock_gettime_ns", lambda which: true(which) + (slept[0] if which == time.CLOCK_BOOTTIME else 0)
    )
    execute = generator.run_trial

    def sleeping(spec: TrialSpec) -> object:
        slept[0] = int(asleep_s * SECOND)
        return execute(spec)

    trial = runner(generator).run_once(TrialSpec(Traffic(), 1000, 1.0, topology.directions), execute=sleeping)  # type: ignore[arg-type]
    found = [reason for reason in trial.result.invalid if reason.code is Reason.SUSPENDED]
    assert [reason.detail for reason in found] == [f"the machine was suspended for {text} meanwhile" for text in said]


PROTOCOL = [
    "peer0      BGP        ---        up     2026-10-25 01:30:00.000  Established",
    "  BGP state:          Established",
]


@pytest.mark.parametrize(
    ("status", "uptime_s"),
    [
        ("Current server time is 2026-10-25 01:30:12.500", 12.5),
        ("Current server time is 2027-10-25 01:30:00.000", 365 * 86400.0),
        ("Current server time is 2026-10-25 01:29:00.000", 0.0),  # it went back by an hour: never below 0
        ("Current server time is 25.10. 01:30", None),  # a lab's own format: not known is not 0
    ],
)
def test_how_long_a_session_of_bird_is_up_goes_by_its_own_clock(status: str, uptime_s: float | None) -> None:
    answers = {
        "show protocols all peer0": PROTOCOL,
        "show status": ["BIRD 2.0.12", "Router ID is 1.1.1.1", "Hostname is müller", status],
    }
    seen = bird_session(answers.__getitem__, Neighbor("12.12.12.2", 65001), "peer0")
    assert seen.uptime_s == uptime_s


def test_how_long_a_run_took_is_what_its_process_measured(tmp_path: Path) -> None:
    """Steps: a run whose clock was set back by a year in its middle. Verify: its start, and that it took no year."""
    run = read_run(str(write_sample(tmp_path)))  # a string, as a user types it
    assert isinstance(run, RunEvidence)
    assert run.path == tmp_path / "evidence.jsonl"
    began, ended = run.started_ns, run.ended_ns
    run.spans_ns = dict.fromkeys(run.spans_ns, (began, began - 365 * 86400 * SECOND))
    run.ends = {}
    assert run.started_ns == began < ended
    assert run.took_s == 0.0
    run.ends = {file: RunEndData(0, 12.5) for file in run.runs}
    assert run.took_s == 12.5


def test_time_within_a_span_counts_for_the_innermost_one() -> None:
    clock = VirtualClock()
    stopwatch = Stopwatch(clock)
    clock.sleep(1)
    with stopwatch.of(Span.CEILING):
        clock.sleep(2)
        with stopwatch.of(Span.BUILDING):
            clock.sleep(4)
            with stopwatch.of(Span.CEILING):
                clock.sleep(8)
            with stopwatch.of(Span.OTHER):
                clock.sleep(256)
            clock.sleep(16)
        with stopwatch.of(Span.WAITING):
            clock.sleep(32)
        clock.sleep(64)
    clock.sleep(128)
    assert stopwatch.seconds() == {"ceiling": 74.0, "building": 20.0, "waiting": 32.0, "other": 385.0}
    stopwatch.restart()
    assert stopwatch.seconds() == {"other": 0.0}


def test_a_span_that_raises_counts_and_ends() -> None:
    clock = VirtualClock()
    stopwatch = Stopwatch(clock)

    def broken() -> None:
        with stopwatch.of(Span.BUILDING), stopwatch.of(Span.TRIALS):
            clock.sleep(3)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken()
    clock.sleep(5)
    assert stopwatch.seconds() == {"trials": 3.0, "building": 0.0, "other": 5.0}


@pytest.mark.parametrize(
    ("skipped", "purpose", "span"),
    [(0.0, "search", "trials"), (0.5, "search", "invalid"), (0.0, "warm-up", "warm_up"), (0.5, "warm-up", "warm_up")],
)
def test_a_trial_counts_for_what_it_turned_out_to_be(skipped: float, purpose: str, span: str) -> None:
    topology, clock = phy2phy(), VirtualClock()
    # Above its ceiling a generator offers less than was asked for, which makes the trial invalid.
    generator = FakeGenerator(1e6, clock=clock, ceiling_fps=1000 * (1 - skipped) or None)
    generator.attach([GeneratorPort(port.name, "", port.mac) for port in topology.ports])
    measured = runner(generator)
    trial = measured.run_once(TrialSpec(Traffic(), 1000, 2.0, topology.directions, purpose=purpose))
    assert trial.result.valid is (skipped == 0.0)
    spent = measured.recorder.stopwatch.seconds()
    assert spent[span] == pytest.approx(trial.wall_s)
    assert sum(spent.values()) == clock.monotonic()
