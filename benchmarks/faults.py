"""Faults made on purpose: those of the machine never fail a test, and a flow that the DUT drops always does."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from threading import Timer

from benchmarks.competing_load import COPY, SPIN, runs
from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import InvalidTrialsError
from pytest_nfvperf.model.disturbance.cpu_distance import Distance
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.sla.judge import judge
from pytest_nfvperf.model.sla.verdict import Judgement, worst
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic
from tests.config_support import parse_sla

EACH = 9
"""Trials a fault: over 60 in all."""

LOAD_FPS, SECONDS, STOPPED_S = 1e6, 2.0, 0.02
"""Well below what the DUT bears; a stop of 20 ms is 1 % of it."""

FLOWS, DROPPED = 100, "198.18.0.38"
"""Distinct source addresses from 198.18.0.1 on, and that of the flow that is dropped: 1 % of one direction."""

SLA = parse_sla("schema: 1\nrules:\n  - require: {loss_ratio: '<= 0.1 %'}\n")

Fault = Callable[[Bench, LiveTopology], AbstractContextManager[object]]
"""Holds while a trial is run."""


def injected_faults(made: Bench) -> list[Figure]:
    """Fixed loads with a fault each, judged by a loss ratio of 0.1 %."""
    live = made.rig.live(phy2phy(), QUICK.invalid_trial_budget)
    found = {name: Counter(_judged(made, live, fault) for _ in range(EACH)) for name, fault in FAULTS.items()}
    dropped = Counter(_judged(made, live, _drop_flow) for _ in range(EACH))
    failed = sum(each[Judgement.FAIL] for each in found.values())
    return [
        Figure(
            "faults of the machine: false FAIL",
            f"{failed} of {EACH * len(FAULTS)}",
            "0",
            failed == 0,
            "; ".join(f"{name}: {_counted(each)}" for name, each in found.items()),
        ),
        Figure(
            "a flow of a hundred is dropped: FAIL",
            f"{dropped[Judgement.FAIL]} of {EACH}",
            f"{EACH} of {EACH}",
            dropped[Judgement.FAIL] == EACH,
            _counted(dropped),
        ),
    ]


def _counted(judged: Counter[Judgement]) -> str:
    return ", ".join(f"{count} {judgement}" for judgement, count in judged.items())


def _judged(made: Bench, live: LiveTopology, fault: Fault) -> Judgement:
    traffic = Traffic(frame_size=64, flows=FLOWS)
    search = made.search(QUICK)
    with fault(made, live):
        try:
            outcome = search.loss_at(live, traffic, LOAD_FPS, SECONDS)
        except InvalidTrialsError:
            return Judgement.INCONCLUSIVE
    return worst(judge(SLA.rules, outcome.label, outcome.figures, lambda _: None))


def embedded(made: Bench) -> EmbeddedGenerator:
    """The rig's generator; TestbedError where it is another one."""
    found = made.rig.generator()
    if not isinstance(found, EmbeddedGenerator):
        raise TestbedError(f"this benchmark needs the embedded generator, and the testbed has {found.info().engine}")
    return found


def _ovs(made: Bench) -> OvsDatapath:
    found = made.rig.datapath()
    if not isinstance(found, OvsDatapath):
        raise TestbedError(f"this benchmark needs Open vSwitch, and the testbed has {found.info().kind}")
    return found


@contextmanager
def _stops(pid: int) -> Iterator[None]:
    """Stop a process for 20 ms, again and again: each trial meets it, also one that is repeated."""
    timers: list[Timer] = []

    def stop() -> None:
        os.kill(pid, signal.SIGSTOP)
        timers[:] = [Timer(STOPPED_S, go_on)]
        timers[0].start()

    def go_on() -> None:
        os.kill(pid, signal.SIGCONT)
        timers[:] = [Timer(SECONDS / 3, stop)]
        timers[0].start()

    go_on()
    try:
        yield
    finally:
        timers[0].cancel()
        timers[0].join()
        timers[0].cancel()
        os.kill(pid, signal.SIGCONT)


@contextmanager
def _moves(generator: EmbeddedGenerator) -> Iterator[None]:
    """Looks at the distance alternate between what it is and 300 ns more, as if the host moved a CPU each time."""
    really, moved = generator.distances, False

    def pretended(cpus: Sequence[int]) -> tuple[Distance, ...]:
        nonlocal moved
        moved = not moved
        found = really(cpus)
        return tuple(replace(each, round_trip_ns=(each.round_trip_ns or 0) + 300 * moved) for each in found)

    generator.distances = pretended  # type: ignore[method-assign]
    try:
        yield
    finally:
        del generator.distances


@contextmanager
def _drop_flow(made: Bench, live: LiveTopology) -> Iterator[None]:
    instance = _ovs(made).instance
    live.learn(Traffic(frame_size=64, flows=FLOWS))
    words = [*instance.ofctl, "-O", "OpenFlow14"]
    bridge, match = f"unix:{instance.directory / live.topology.bridges[0]}.mgmt", f"ip,nw_src={DROPPED}"
    run([*words, "add-flow", bridge, f"priority=200,{match},actions=drop"])
    try:
        yield
    finally:
        run([*words, "del-flows", bridge, match])


FAULTS: dict[str, Fault] = {
    "none": lambda _, __: nullcontext(),
    "generator stopped for 20 ms": lambda made, _: _stops(embedded(made).pid),
    "vswitchd stopped for 20 ms": lambda made, _: _stops(_ovs(made).instance.pid),
    "a process spins on the generator's CPU": lambda made, _: runs(SPIN, _cpus(made)[0]),
    "a process spins on the PMD's CPU": lambda made, _: runs(SPIN, _cpus(made)[1]),
    "a process moves memory": lambda made, _: runs(COPY, _cpus(made)[0]),
    "the host moves a CPU": lambda made, _: _moves(embedded(made)),
}


def _cpus(made: Bench) -> tuple[int, int]:
    """Of the generator and of the PMD."""
    cpus = made.backend.testbed.cpus
    return cpus.generator[0], cpus.pmd[0]
