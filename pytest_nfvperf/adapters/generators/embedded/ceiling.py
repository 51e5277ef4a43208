"""The rig's own ceiling: how fast the generator is with nothing in its way (docs/measuring-method.md, rule 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.adapters.generators.embedded.loopback import VhostLoop
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import Generator, GeneratorPort

METHOD = 4
"""Counts up when ceilings are measured in another way: those that were kept are measured anew then."""

_FIRST_LOAD_FPS = 1_000_000
_MAX_LOAD_FPS = 256_000_000
_OVERLOAD = 1.2
_PORTS = ("ceiling0", "ceiling1")
_SATURATED = 0.98
_MORE = 1.02
_WINDOW_S = 0.005
_FEWEST_WINDOWS = 4


@dataclass(frozen=True, slots=True)
class LoopRig:
    """Where a ceiling is measured, and with what.

    Attributes:
        binary: nfvperf-gen.
        cpus: the generator's polling CPUs.
        control_cpus: housekeeping.
        loop_cpu: the CPU that the DUT polls on in the measurement: it must be idle now.
        run_dir: existing directory.
        hugepages_mib: memory of each of the two processes.
        options: of both, such as the tag that a reaper knows them by.
    """

    binary: Path
    cpus: tuple[int, ...]
    control_cpus: tuple[int, ...]
    loop_cpu: int
    run_dir: Path
    hugepages_mib: int = 128
    options: EngineOptions | None = None


def measure_ceiling(rig: LoopRig, traffic: Traffic, settle: Callable[[Generator], object] = lambda _: None) -> float:
    """Loop two vhost-user ports without a DUT and return the highest rate received, in frames/s per direction.

    Args:
        rig: programs and CPUs.
        traffic: frame size, flows and directions of the measurement that the ceiling is for.
        settle: called before it, for who waits until the host has put the CPUs side by side.

    Takes about 2 s. Raises TestbedError when no frame came back.
    """
    tag = f"ceiling-{traffic.shape_label}"
    shared: dict[str, Any] = {
        "control_cpus": rig.control_cpus,
        "run_dir": rig.run_dir,
        "hugepages_mib": rig.hugepages_mib,
        "options": rig.options,
    }
    with VhostLoop(rig.binary, cpu=rig.loop_cpu, file_prefix=f"{tag}-loop", **shared) as loop:
        generator = EmbeddedGenerator(rig.binary, cpus=rig.cpus, file_prefix=tag, **shared)
        try:
            generator.attach(loop_ports(loop.devices, mtu=max(1500, traffic.largest_frame_size - 18)))
            generator.wait_links_up(5.0)
            settle(generator)
            return ceiling_of(generator, traffic, directions(traffic))
        finally:
            generator.close()


def loop_ports(devices: tuple[str, ...], *, mtu: int = 1500) -> list[GeneratorPort]:
    """The generator's two ports on a loop."""
    return [
        GeneratorPort(name=name, device=device, mac=f"02:00:00:00:00:{end + 1:02x}", mtu=mtu)
        for end, (name, device) in enumerate(zip(_PORTS, devices, strict=True))
    ]


def directions(traffic: Traffic) -> tuple[Direction, ...]:
    """One way, or both, between the two ports of :func:`loop_ports`."""
    there, back = Direction(_PORTS[0], _PORTS[1]), Direction(_PORTS[1], _PORTS[0])
    return (there, back) if traffic.bidirectional else (there,)


def ceiling_of(generator: Generator, traffic: Traffic, ways: tuple[Direction, ...], repeats: int = 5) -> float:
    """The highest rate received, in frames/s per direction.

    The load is doubled until it no longer comes through, then held a little above what did. The best
    of several trials, since a ceiling is what *can* be reached; a load that fails is tried again before it is
    believed, and the end is reached when several in a row bring no more, because a disturbed trial would cap every
    later search. Of each trial the upper quartile of short windows counts: most of it may be disturbed.
    """
    best = 0.0
    load = _FIRST_LOAD_FPS
    while load < _MAX_LOAD_FPS:
        rates = [_rate(generator, traffic, ways, load, 0.1)]
        while rates[-1] < _SATURATED * load and len(rates) < repeats:
            rates.append(_rate(generator, traffic, ways, load, 0.1))
        best = max(best, *rates)
        if max(rates) < _SATURATED * load:
            break
        load *= 2
    in_vain = 0
    while in_vain < repeats:
        rate = _rate(generator, traffic, ways, round(max(best, _FIRST_LOAD_FPS) * _OVERLOAD), 0.3)
        in_vain = 0 if rate > best * _MORE else in_vain + 1
        best = max(best, rate)
    if best == 0:
        raise TestbedError("the rig's ceiling cannot be measured: no frame came back through the loop")
    return best


def _rate(generator: Generator, traffic: Traffic, ways: tuple[Direction, ...], load: int, seconds: float) -> float:
    spec = TrialSpec(traffic, load, seconds, ways, latency=True, purpose="ceiling", window_s=_WINDOW_S)
    result = generator.run_trial(spec)
    rates = () if result.windows is None else result.windows.received_fps(seconds)
    if len(rates) < _FEWEST_WINDOWS:
        return result.received_fps or 0.0
    *_, upper = quantiles(rates, n=4)
    return upper / len(ways)
