"""Searches over paths whose own work looks like a disturbance: whole trials are judged, not windows."""

from __future__ import annotations

import pytest
from simulated_bench import Bench

from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.search import Search
from pytest_nfvperf.model.measure.outcome import SearchStatus
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.unit.test_searches_by_windows import CAPACITY, OnASharedHost


@pytest.mark.parametrize(("topology", "windowed"), [(bridge_chain(2), True), (bridge_chain(2, link="veth"), False)])
def test_windows_judge_a_search_only_where_they_tell_something(topology: Topology, windowed: bool) -> None:
    bench = Bench(lambda _: CAPACITY)
    bench.generator = OnASharedHost(CAPACITY, shared=0.0)
    bench.generator.clock = bench.clock
    live = bench.redeploy(topology, TESTBED_DUT, quiet=True)
    search = Search(QUICK, {}, lambda *_: Limits(8e6, None), lambda _: 60.0)
    outcome = search.ndr_pdr(live, Traffic(frame_size=64))
    specs = [record.data["result"]["spec"] for record in bench.sink.records if record.kind == "trial"]
    judged = [spec for spec in specs if spec["purpose"] == "search"]
    assert judged
    assert {"window_s" in spec for spec in judged} == {windowed}
    if not windowed:
        ndr, pdr = outcome.goals
        assert (ndr.status, pdr.status) == (SearchStatus.FOUND, SearchStatus.FOUND)
        assert all(seen.why == () for seen in outcome.figures if seen.metric in {"ndr", "pdr"})
        assert ndr.load_fps == pytest.approx(CAPACITY, rel=0.02)
        assert not any(spec["purpose"] == "plateau" for spec in specs)
