"""What a TRex server can send, measured on its own ports without asking what becomes of the frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_nfvperf.adapters.generators.trex.generator import TrexGenerator
from pytest_nfvperf.model.traffic.traffic import MAX_FRAME_SIZE, Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort

_DURATION_S = 0.3
_START_FPS = 50_000_000
_ENOUGH = 0.97
_MTU = MAX_FRAME_SIZE - 18


def measure(generator: TrexGenerator, numbers: Sequence[int], traffic: Traffic, directions: int) -> float:
    """Frames/s per direction that the server sends when it is asked for more, or for its line rate.

    Args:
        generator: connected, its ports free.
        numbers: of TRex's ports; the first one or two send.
        traffic: what is sent.
        directions: how many ports send at once.
    """
    ports = [
        GeneratorPort(f"ceiling{number}", str(number), f"02:00:00:00:7e:{number:02x}", mtu=_MTU)
        for number in numbers[:2]
    ]
    generator.attach(ports)
    try:
        names = [port.name for port in ports]
        both = [Direction(names[0], names[-1]), Direction(names[-1], names[0])][:directions]
        rates = [held.speed_bps for held in generator.held.values() if held.speed_bps]
        load = int(min([traffic.line_rate_fps(rate) for rate in rates], default=_START_FPS))
        while True:
            spec = TrialSpec(traffic, load, _DURATION_S, tuple(both), latency=False, residual_s=0.0, purpose="ceiling")
            reached = generator.run_trial(replace(spec, saturating=True)).offered_fps or 0.0
            if reached >= load * _ENOUGH:
                return reached
            # A server that is asked for far too much spends its time on being late.
            load = max(1, int(reached / _ENOUGH))
    finally:
        generator.detach([port.name for port in ports])
