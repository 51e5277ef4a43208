"""Larger frames where the generator, and not the DUT, is the limit of a comparison."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from simulated_bench import Bench, OneBench

from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.comparison_fields import merge_fields
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.measurements import LARGER, ForwardingRate, Measurement, Subject
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import InvalidTrialsError, Trial
from pytest_nfvperf.model.disturbance.windows import ThreadWindows, Windows
from pytest_nfvperf.model.measure.outcome import Cost, Reading
from pytest_nfvperf.model.measure.profile import PROFILES
from pytest_nfvperf.model.statistics import Bound
from pytest_nfvperf.model.testbed.testbed import DatapathInfo
from pytest_nfvperf.model.topology.compose import bridge_chain, phy2phy
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import IMIXES, Traffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.session.comparison import _at_overload

CEILING = 9e6
WINDOWS = 20


class Runner:
    """A DUT that refuses frames of ``refuses_from`` bytes and more, and takes all smaller ones."""

    def __init__(self, refuses_from: int) -> None:
        self.sent: list[float] = []
        self.slow_once = False
        self._refuses_from = refuses_from
        self._generator = FakeGenerator(4e6, clock=VirtualClock(), ceiling_fps=CEILING)
        self._generator.attach([GeneratorPort(port.name, "", port.mac) for port in phy2phy().ports])

    def run_once(self, spec: TrialSpec, _remaining_s: float | None) -> Trial:
        size = spec.traffic.largest_frame_size
        self.sent.append(size)
        refused = (100,) * WINDOWS if size >= self._refuses_from else (0,) * WINDOWS
        flat, moved = (0,) * WINDOWS, (20_000,) * WINDOWS
        thread = ThreadWindows(flat, moved, refused, flat, moved, flat, flat, (1000,) * WINDOWS)
        result = self._generator.run_trial(spec)
        keeps_up, self.slow_once = size >= self._refuses_from and not self.slow_once, False
        refused_now, skipped_now = (3000, 100) if keeps_up else (100, 3000)
        counts = tuple(replace(each, refused=refused_now, skipped=skipped_now) for each in result.counts)
        result = replace(result, counts=counts, windows=Windows(5_000_000, (thread,)))
        return Trial(f"trial-{len(self.sent)}", result, None, Cost("trial-1"), 0.1)


def topology_with(mtu: int) -> Topology:
    made = phy2phy()
    return replace(made, ports=tuple(replace(port, mtu=mtu) for port in made.ports))


def made_ready(
    refuses_from: int, traffic: Traffic, mtu: int = 1500, line_rate_fps: float | None = None
) -> tuple[ForwardingRate, Runner, Any]:
    runner = Runner(refuses_from)
    live: Any = SimpleNamespace(
        topology=topology_with(mtu),
        runner=runner,
        datapath_info=DatapathInfo("dpdk", "3", None, ""),
        learn=lambda _: None,
    )
    figure = ForwardingRate(traffic, PROFILES["quick"], lambda *_: Limits(CEILING, line_rate_fps), larger=LARGER)
    figure.begin(live, None)
    while figure.outpaced and figure.grows:
        figure.grow()
        figure.begin(live, None)
    return figure, runner, live


def test_a_dut_that_is_the_limit_is_sent_what_was_asked_for() -> None:
    figure, runner, _ = made_ready(64, Traffic(frame_size=64))
    assert set(runner.sent) == {64}
    assert figure.facts()["notes"] == ()


def test_no_load_is_raised_that_the_generator_cannot_send() -> None:
    figure, runner, _ = made_ready(9000, Traffic(frame_size=1024))
    assert figure.outpaced
    assert len(runner.sent) == 2, "the rig's maximum, and once more than that"


@pytest.mark.parametrize(("refuses_from", "size"), [(100, 256), (256, 256), (500, 512), (9000, 512)])
def test_frames_grow_until_the_dut_is_the_limit(refuses_from: int, size: int) -> None:
    figure, _, _ = made_ready(refuses_from, Traffic(frame_size=64, flows=1000))
    assert figure.traffic == Traffic(frame_size=size, flows=1000)
    assert figure.facts()["mean_frame_size"] == size
    assert figure.facts()["notes"] == (
        f"frames have {size} bytes: with 64 a DUT forwards more than the generator can send",
    )


def test_a_moment_in_which_the_generator_was_slow_makes_no_frame_larger() -> None:
    figure, runner, live = made_ready(64, Traffic(frame_size=64))
    runner.slow_once = True
    figure.begin(live, None)
    assert not figure.outpaced


def test_nothing_grows_once_something_was_read() -> None:
    figure, _, live = made_ready(256, Traffic(frame_size=64))
    assert figure.grows
    with suppress(InvalidTrialsError):  # the pretended generator cannot hold so much
        figure.turn(live, None)
    assert not figure.grows


def test_a_subject_with_a_traffic_of_its_own_cannot_grow() -> None:
    study = Bench(lambda _: 4e6).study()
    subjects = [Subject("a", phy2phy()), Subject("b", phy2phy(), traffic=Traffic(frame_size=256))]
    with pytest.raises(ValueError, match="larger frames are for subjects that are all sent the same"):
        study.forwarding_rate("which", subjects, Traffic(frame_size=64), larger=LARGER)


def test_frames_that_a_port_does_not_take_are_not_tried() -> None:
    figure, _, _ = made_ready(9000, Traffic(frame_size=64), mtu=300)
    assert figure.traffic.frame_size == 256


def test_a_size_below_the_traffics_own_is_not_tried() -> None:
    figure, runner, _ = made_ready(9000, Traffic(frame_size=256))
    assert set(runner.sent) == {256, 512}
    figure, _, _ = made_ready(9000, Traffic(frame_size=IMIXES["simple"]))
    assert figure.traffic.frame_size == IMIXES["simple"]


def test_where_a_line_has_a_rate_the_line_is_the_limit() -> None:
    figure, _, _ = made_ready(9000, Traffic(frame_size=64), line_rate_fps=14.88e6)
    assert figure.traffic.frame_size == 64


class Sized(Measurement):
    """A figure whose second subject outpaces the rig with frames of less than 256 bytes.

    ``shows_late``: not as it begins, but in its readings.
    """

    name, units, reading_s, takes_turns = "sized", {"forwarding_rate": "pps"}, 0.1, True

    def __init__(self, bench: OneBench, *, shows_late: bool = False) -> None:
        self.size, self.outpaced, self.was_read = 64, False, False
        self.begun: list[tuple[int | None, int]] = []
        self.read_sizes: list[int] = []
        self._bench = bench
        self._shows_late = shows_late

    @property
    def grows(self) -> bool:
        return not self.was_read and self.has_larger

    @property
    def has_larger(self) -> bool:
        return self.size < 512

    def grow(self) -> None:
        self.size *= 2
        self.was_read = False

    def begin(self, _live: object, _remaining_s: float | None) -> None:
        self.begun.append((self._bench.ran[-1], self.size))
        self.outpaced = not self._shows_late and self._is_too_fast

    @property
    def _is_too_fast(self) -> bool:
        return self._bench.ran[-1] == 1 and self.size < 256

    def turn(self, _live: object, _remaining_s: float | None) -> Reading:
        self.was_read = True
        self.read_sizes.append(self.size)
        limited = {"forwarding_rate": (Bound.AT_LEAST, "generator-limited")} if self._is_too_fast else {}
        return Reading({"forwarding_rate": 1e6}, "trial-1", limited)

    read = turn

    def labels(self, _live: object) -> dict[str, str]:
        return {"frame_size": str(self.size)}

    def facts(self) -> dict[str, Any]:
        return {"mean_frame_size": float(self.size), "directions": 2}


def test_no_subject_is_read_before_all_are_slower_than_the_generator() -> None:
    bench = OneBench(lambda _: 4e6)
    figure = Sized(bench)
    subjects = [Subject(name, bridge_chain(1)) for name in ("slow", "fast")]
    outcomes = bench.study().compare("which", subjects, figure)
    sizes = [64, 64, 128, 128, 256, 256]
    assert figure.begun[: len(sizes)] == list(zip([0, 1] * 3, sizes, strict=True)), (
        "the baseline first, for its ceiling"
    )
    assert {size for _, size in figure.begun[len(sizes) :]} == {256}
    assert [outcome.label["frame_size"] for outcome in outcomes] == ["256", "256"]


def test_a_comparison_whose_readings_the_generator_limits_begins_anew_at_overload() -> None:
    bench = OneBench(lambda _: 4e6)
    figure = Sized(bench, shows_late=True)
    subjects = [Subject(name, bridge_chain(1)) for name in ("slow", "fast")]
    outcomes = bench.study().compare("which", subjects, figure)
    of_each = {size: figure.read_sizes.count(size) for size in dict.fromkeys(figure.read_sizes)}
    turns = PROFILES["quick"].comparison_turns * 3  # of both, and of the baseline's second build
    assert of_each == {64: 4 * turns, 128: 4 * turns, 256: 8 * turns}, "four blocks tell"
    assert [outcome.label["frame_size"] for outcome in outcomes] == ["256", "256"]
    assert all(outcome.sampled("forwarding_rate").bound is Bound.EXACT for outcome in outcomes)


def test_flows_that_are_new_in_each_trial_are_new_on_each_side_of_a_comparison() -> None:
    def forget(live: LiveTopology) -> None: ...

    figure = ForwardingRate(Traffic(), PROFILES["quick"], lambda *_: Limits(CEILING, None), before=forget)
    grown = cast("ForwardingRate", _at_overload(figure))
    assert (grown.before, grown.larger) == (forget, LARGER)


def test_notes_of_a_figure_and_of_what_was_found_stand_together() -> None:
    assert merge_fields({"notes": ("a",), "mean_frame_size": 64}, {"notes": ("b",), "samples": ()}) == {
        "notes": ("a", "b"),
        "mean_frame_size": 64,
        "samples": (),
    }
