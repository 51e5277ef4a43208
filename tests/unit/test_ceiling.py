"""The rig's ceiling where something disturbs its measurement."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_nfvperf.adapters.generators.embedded.ceiling import ceiling_of, directions
from pytest_nfvperf.adapters.process.outputs import StoredValueFile
from pytest_nfvperf.backends import embedded_side
from pytest_nfvperf.backends.embedded_side import EmbeddedSide, loop_cpu
from pytest_nfvperf.backends.generator_side import digest
from pytest_nfvperf.measure.limits import CachedCeilings, Ceiling
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.comparison import differences
from pytest_nfvperf.model.testbed.cpu_neighbours import Cpu
from pytest_nfvperf.model.testbed.testbed import CpuPlan
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import SENDING
from tests.sample_run import TESTBED

TRUE_FPS = 14.8e6
ONE_WAY = Traffic(bidirectional=False)


@dataclass
class DisturbedRig:
    """Takes a share of what is due, in trials of these numbers."""

    disturbed: range
    left: float = 0.5
    trials: int = 0

    def run_trial(self, spec: TrialSpec) -> SimpleNamespace:
        self.trials += 1
        share = self.left if self.trials in self.disturbed else 1.0
        return SimpleNamespace(received_fps=min(spec.load_fps, TRUE_FPS) * share, windows=None)


class WindowedRig:
    """Two ways; six of ten windows are disturbed, so that each trial's mean is far below what the rig can do."""

    def run_trial(self, spec: TrialSpec) -> SimpleNamespace:
        rate = min(spec.load_fps, TRUE_FPS)
        rates = [2 * rate * (1.0 if at % 10 < 4 else 0.3) for at in range(round(spec.duration_s / 0.005))]
        return SimpleNamespace(received_fps=sum(rates) / len(rates) / 2, windows=SeenWindows(tuple(rates)))


@dataclass
class SeenWindows:
    rates: tuple[float, ...]

    def received_fps(self, duration_s: float) -> tuple[float, ...]:
        return self.rates


@pytest.mark.parametrize("disturbed", [range(0), range(1, 6), range(2, 7), range(2, 11), range(8, 14)])
def test_a_disturbance_of_five_trials_does_not_cap_the_ceiling(disturbed):
    rig = DisturbedRig(disturbed)
    assert ceiling_of(rig, ONE_WAY, directions(ONE_WAY)) == pytest.approx(TRUE_FPS)  # type: ignore[arg-type]
    assert rig.trials < 40


def test_a_machine_that_disturbs_more_than_half_of_the_time_does_not_cap_it_either():
    both = Traffic()
    assert ceiling_of(WindowedRig(), both, directions(both)) == pytest.approx(TRUE_FPS)  # type: ignore[arg-type]


def test_no_frame_at_all_is_an_error():
    with pytest.raises(TestbedError, match="no frame came back"):
        ceiling_of(DisturbedRig(range(1000), left=0), ONE_WAY, directions(ONE_WAY))  # type: ignore[arg-type]


def test_a_ceiling_that_does_not_last_is_not_kept(tmp_path: Path) -> None:
    found = [Ceiling(3e6, lasting=False), Ceiling(9e6)]
    ceilings = CachedCeilings(
        StoredValueFile(tmp_path / "ceilings.json", "here"), "vhost-user", lambda _traffic, _ways: found.pop(0)
    )
    assert ceilings.measure(Traffic(), 2) == 3e6
    assert ceilings.cached(Traffic(), 2) is None
    assert ceilings.measure(Traffic(), 2) == 9e6
    assert ceilings.cached(Traffic(), 2) == 9e6


def test_what_is_reached_today_does_not_lower_what_is_kept(tmp_path: Path) -> None:
    found = [Ceiling(9e6), Ceiling(3e6), Ceiling(9.5e6)]
    ceilings = CachedCeilings(
        StoredValueFile(tmp_path / "ceilings.json", "here"), "vhost-user", lambda _traffic, _ways: found.pop(0)
    )
    assert [(ceilings.measure(Traffic(), 2), ceilings.cached(Traffic(), 2)) for _ in range(3)] == [
        (9e6, 9e6),
        (3e6, 9e6),
        (9.5e6, 9.5e6),
    ]


def test_a_ceiling_of_an_earlier_method_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """METHOD 4 looped by DPDK's vhost, which was slower than OVS with large frames."""
    monkeypatch.setattr(embedded_side.build, "default_cache_dir", lambda: tmp_path)
    monkeypatch.setattr(EmbeddedSide, "_measure_ceiling", lambda *_: Ceiling(9e6))
    machine = SimpleNamespace(digest=lambda names, **more: digest(dict.fromkeys(names) | more))
    side = EmbeddedSide(TESTBED)
    with monkeypatch.context() as before:
        before.setattr(embedded_side, "METHOD", 4)
        assert side.ceilings(machine).measure(Traffic(), 2) == 9e6  # type: ignore[arg-type]
        assert side.ceilings(machine).cached(Traffic(), 2) == 9e6  # type: ignore[arg-type]
    assert side.ceilings(machine).cached(Traffic(), 2) is None  # type: ignore[arg-type]


def test_a_baseline_that_dpdks_driver_sent_is_refused_with_the_reason() -> None:
    then = {"sending": "bursts end with a line of descriptors, buffers in the order of memory"}
    assert differences(then, {"sending": SENDING}) == (f"sending: {then['sending']} then, {SENDING} now",)


def test_the_loop_takes_a_cpu_of_nobodys_where_no_file_names_the_duts() -> None:
    """Seen with the system's OVS, whose PMDs no key of the testbed file placed: IndexError, told as the DUT's."""
    machine = [Cpu(number, number, 0) for number in range(3)]
    assert loop_cpu(CpuPlan(housekeeping=(0,), pmd=(2,), generator=(1,)), machine) == 2
    assert loop_cpu(CpuPlan(housekeeping=(0,), pmd=(), generator=(1,)), machine) == 2
    assert loop_cpu(CpuPlan(housekeeping=(0,), pmd=(), generator=(1,)), machine[:2]) == 0
    with pytest.raises(ConfigError, match=r"dut\.ovs\.pmd_cpus: no CPU is left .*has CPUs 0, .*write 'pmd_cpus: "):
        loop_cpu(CpuPlan(housekeeping=(0,), pmd=(), generator=(0,)), machine[:1])
