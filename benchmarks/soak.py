"""What sampling a soak costs: soaks with and without samples in turns, and the CPU of those who take them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.table import Figure
from benchmarks.testbench import Bench
from pytest_nfvperf.adapters.evidence.writer import samples_in
from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator
from pytest_nfvperf.adapters.ovs.sampler import OvsSampler
from pytest_nfvperf.adapters.process.process import Interrupts
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.soak import Soaker
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.statistics import ratio_estimate
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.model.traffic.traffic import Traffic

_LOAD_FPS = 2e6
_SECONDS = 4.0
_ORDER = (False, True, True, False) * 3
_MOST_CORES = 0.02


def soak_sampling(made: Bench) -> list[Figure]:
    """A B B A ...: a plain trial, and a soak of the same load and length with a sample a second."""
    with TemporaryDirectory() as directory:
        return _compared(made, Path(directory))


def _compared(made: Bench, directory: Path) -> list[Figure]:
    live = made.rig.live(phy2phy(), 5)
    soaker = _soaker(made, directory)
    rates: dict[bool, list[float]] = {False: [], True: []}
    spent: dict[bool, list[tuple[float, ...]]] = {False: [], True: []}
    for sampled in _ORDER:
        before = _cpu_s(live)
        if sampled:
            soaker.run(live, Traffic(), _LOAD_FPS, _SECONDS)
        else:
            made.trial(live, Traffic(), _LOAD_FPS, 0.1)  # the soak's warm-up
            made.trial(live, Traffic(), _LOAD_FPS, _SECONDS)
        cpu_s = [(after - early) / _SECONDS for early, after in zip(before, _cpu_s(live), strict=True)]
        spent[sampled].append(tuple(cpu_s))
        result = list(made.rig.context.trials.values())[-1].result
        offered = result.offered / result.intended  # what the generator was away for is no matter of sampling's
        rates[sampled].append(result.received / result.spec.duration_s / offered)
    return [_cost(spent), _rate(rates)]


def _cpu_s(live: LiveTopology) -> tuple[float, ...]:
    """CPU time so far of this process, of ovs-vswitchd but for its PMDs, and of the generator but for its polling."""
    vswitchd = next(one for one in live.deployment.samplers if isinstance(one, OvsSampler))._instance.pid
    generator = live.deployment.generator
    if not isinstance(generator, EmbeddedGenerator):
        raise TestbedError("this benchmark needs the embedded generator")
    return time.process_time(), _threads_s(vswitchd, but="pmd-c"), _threads_s(generator.pid, but="dpdk-worker")


def _threads_s(pid: int, but: str) -> float:
    """By schedstat, ns; threads of some names left out."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    own = [task for task in tasks if not (task / "comm").read_text().startswith((but, "lcore-worker"))]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in own) / 1e9


def _soaker(made: Bench, directory: Path) -> Soaker:
    profile = replace(QUICK, warmup_s=0.1, rfc2544_residual_s=0.1)
    return Soaker(
        profile,
        {"suite": "benchmarks"},
        made.rig.context,
        samples_in(directory),
        lambda: Interrupts(directory / "terminal.log"),
        lambda _: None,
        lambda _live, _traffic, given: [given or 0.0],
    )


def _cost(spent: dict[bool, list[tuple[float, ...]]]) -> Figure:
    """Medians of the one side less those of the other."""
    without, with_samples = ([median(column) for column in zip(*spent[side], strict=True)] for side in (False, True))
    more = [after - before for before, after in zip(without, with_samples, strict=True)]
    names = ("collector", "ovs-vswitchd", "generator's other threads")
    return Figure(
        "CPU of sampling each second",
        f"{sum(more) * 100:.2f} % of a core",
        "< 2 %",
        sum(more) < _MOST_CORES,
        ", ".join(f"{name} {share * 100:+.2f} %" for name, share in zip(names, more, strict=True)),
    )


def _rate(rates: dict[bool, list[float]]) -> Figure:
    found = ratio_estimate(rates[False], rates[True])
    return Figure(
        "received rate with samples over without",
        f"{found.value * 100:.2f} % ({found.low * 100:.2f} .. {found.high * 100:.2f} %)",
        "no difference",
        not found.differs,
        f"{len(rates[True])} of {_SECONDS:g} s a side at {_LOAD_FPS / 1e6:g} Mpps per direction, in turns",
    )
