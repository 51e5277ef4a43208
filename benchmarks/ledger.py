"""What the drop ledger costs: a snapshot of every counter, and the ledger itself."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from statistics import median

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.ovs.trial_ledger import trial_ledger
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, Dut
from pytest_nfvperf.model.topology.compose import compose, phy2phy, pvp
from pytest_nfvperf.model.topology.parts import endpoint, path, veth
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic

_REPEATS = 30
_LIMIT_S = 0.02


def ledger_cost(made: Bench) -> list[Figure]:
    """Snapshots of all sources on several topologies, and the making of a ledger from them."""
    cases = [
        ("phy2phy", phy2phy(), TESTBED_DUT),
        ("pvp", pvp(), TESTBED_DUT),
        ("phy2phy on veth", phy2phy(), Dut("netdev")),
        ("8 bridges joined by veth", _chain(8), Dut("netdev")),
        ("64 bridges joined by veth", _chain(64), Dut("netdev")),
    ]
    return [figure for name, topology, dut in cases for figure in _of(made, name, topology, dut)]


def _chain(bridges: int) -> Topology:
    names = [f"b{number}" for number in range(bridges)]
    links = [veth(near, far) for near, far in itertools.pairwise(names)]
    return compose("chain", endpoint("p0", names[0]), endpoint("p1", names[-1]), *links, path("p0", "p1"))


def _of(made: Bench, name: str, topology: Topology, dut: Dut) -> list[Figure]:
    live = made.rig.live(topology, 5, dut)
    collectors = made.rig.datapath().collectors()
    before = [collector.snapshot() for collector in collectors]
    trial = made.trial(live, Traffic(frame_size=64), 1000, 0.1)
    whole = _times(lambda: [collector.snapshot() for collector in collectors])
    after = [collector.snapshot() for collector in collectors]
    told = _times(lambda: trial_ledger(topology, trial.result, before, after))
    counters = sum(len(snapshot.counters) for snapshot in after)
    return [
        Figure(
            f"snapshot of all counters, {name}, median",
            f"{median(whole) * 1e3:.1f} ms",
            "< 20 ms",
            median(whole) < _LIMIT_S,
            f"{counters} counters, worst of {len(whole)}: {max(whole) * 1e3:.1f} ms",
        ),
        Figure(f"ledger from them, {name}", f"{median(told) * 1e3:.1f} ms", "< 20 ms", median(told) < _LIMIT_S),
    ]


def _times(work: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return times
