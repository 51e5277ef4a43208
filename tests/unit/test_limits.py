"""What bounds the load of a search: a ceiling that the DUT passes is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_bench import Bench

from pytest_nfvperf.measure.limits import HELD_AGAIN, OVERLOAD, Limits, plateaus, raised_by_plateau
from pytest_nfvperf.measure.measurer import WARM_UP
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.model.measure.outcome import SearchStatus
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.statistics import Bound
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.unit.test_search_algorithms import measurer_on
from tests.unit.test_searches_by_windows import CAPACITY, OnASharedHost


@pytest.mark.parametrize(
    ("ceiling_fps", "raised_fps"),
    [(4.5e6, 4.5e6 * OVERLOAD * HELD_AGAIN), (6.2e6, 6.2e6 * OVERLOAD * HELD_AGAIN), (7e6, None)],
)
def test_the_ceiling_is_what_is_offered_where_the_dut_passes_it(ceiling_fps: float, raised_fps: float | None) -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY))
    measurer.attempt(0.5, ceiling_fps, WARM_UP)
    read = plateaus(measurer, Limits(ceiling_fps, None))
    found = raised_by_plateau(Limits(ceiling_fps, None), read, measurer.trials)
    assert (None if found is None else found.ceiling_fps) == (raised_fps and pytest.approx(raised_fps))


def test_a_plateau_that_the_rig_limited_raises_no_ceiling() -> None:
    measurer = measurer_on(OnASharedHost(CAPACITY))
    measurer.attempt(0.5, 4.5e6, WARM_UP)
    (point,) = plateaus(measurer, Limits(4.5e6, None))
    limited = replace(point, generator_limited="room in its rings")
    assert raised_by_plateau(Limits(4.5e6, None), [limited], measurer.trials) is None
    assert raised_by_plateau(Limits(4.5e6, None), [], measurer.trials) is None
    assert raised_by_plateau(Limits(None, None), [point], measurer.trials) is None


def test_a_search_goes_beyond_a_ceiling_that_the_dut_passes() -> None:
    """Seen with 1518 bytes: NDR at least 2.41 Mpps, the ceiling, beside a plateau of 3.15."""
    bench = Bench(lambda _: CAPACITY)
    bench.generator = OnASharedHost(CAPACITY)
    bench.generator.clock = bench.clock
    live = bench.redeploy(bridge_chain(2), TESTBED_DUT, quiet=True)
    search = Search(QUICK, {}, lambda *_: Limits(4.5e6, None), lambda _: 60.0)
    outcome = search.ndr_pdr(live, Traffic(frame_size=64))
    assert [goal.status for goal in outcome.goals] == [SearchStatus.FOUND] * 2
    assert [outcome.figure(name, "pps").bound for name in ("ndr", "pdr")] == [Bound.EXACT] * 2
    assert outcome.goals[0].load_fps == pytest.approx(CAPACITY, rel=0.01)
    assert outcome.ceiling_fps == pytest.approx(4.5e6 * (OVERLOAD * HELD_AGAIN) ** 2)
