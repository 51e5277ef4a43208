"""Acme's tester, and the switch between its ports, in one simulation."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest_nfvperf as nfv
from acme_testbed.routes import Routes
from pytest_nfvperf import extend

CAPACITY_FPS = 4_000_000
"""Frames/s per direction that the switch forwards."""

_LATENCY_NS = 8_000


class AcmeClock:
    """The machine's time. A trial during which nothing happens is simulated at once: its time is skipped."""

    def __init__(self) -> None:
        self._skipped_s = 0.0

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic() + self._skipped_s

    def time_ns(self) -> int:
        """Wall clock, ns since the epoch."""
        return time.time_ns() + round(self._skipped_s * 1e9)

    def sleep(self, seconds: float) -> None:
        """Skip it."""
        self._skipped_s += seconds


class AcmeTester(extend.Generator):
    """It reports nothing during a trial, so a soak is not possible."""

    def __init__(self, clock: AcmeClock, routes: Routes) -> None:
        self._clock = clock
        self._routes = routes
        self._ports: dict[str, extend.GeneratorPort] = {}

    def info(self) -> extend.GeneratorInfo:
        """Engine, version, CPUs."""
        return extend.GeneratorInfo("acme", "1.0", "simulated", cpus=())

    def attach(self, ports: Sequence[extend.GeneratorPort]) -> None:
        """Take the ports."""
        for port in ports:
            if port.name in self._ports:
                raise nfv.ConfigError(f"port {port.name!r} is attached already")
            self._ports[port.name] = port

    def detach(self, names: Sequence[str]) -> None:
        """Let go of them."""
        for name in names:
            self._ports.pop(name, None)

    def wait_links_up(self, deadline_s: float) -> None:
        """They are up."""

    def learn(self, traffic: nfv.Traffic | nfv.TrafficMix, directions: Sequence[extend.Direction]) -> None:
        """The switch needs not to learn."""

    def run_trial(self, spec: extend.TrialSpec) -> extend.TrialResult:
        """In real time where something happens meanwhile, at once where not. It sends one class only."""
        if not isinstance(spec.traffic, nfv.Traffic):
            raise nfv.ConfigError("Acme's tester cannot count classes of traffic: send each by itself")
        if spec.traffic.frame_source is not None:
            raise nfv.UnavailableError("Acme's tester sends UDP over IP only, and no packets of your own")
        started_ns = time.monotonic_ns()
        if spec.purpose == "event":
            time.sleep(spec.duration_s)
        else:
            self._clock.sleep(spec.duration_s)
        targets = (spec.traffic.dst_ip, spec.traffic.src_ip)
        counts = tuple(
            self._counts(spec, direction, target, started_ns)
            for direction, target in zip(spec.directions, targets, strict=False)
        )
        return extend.TrialResult(spec, counts, extend.RigHealth(), started_ns=started_ns)

    def close(self) -> None:
        """Nothing runs."""

    def _counts(
        self, spec: extend.TrialSpec, direction: extend.Direction, target: str, started_ns: int
    ) -> extend.DirectionCounts:
        intended = round(spec.load_fps * spec.duration_s)
        sent = min(intended, round(CAPACITY_FPS * spec.duration_s))
        gaps = self._routes.gaps(target, started_ns, started_ns + round(spec.duration_s * 1e9))
        share = 1 - sum(end - begin for begin, end in gaps) / (spec.duration_s * 1e9)
        received = round(sent * share)
        size = spec.traffic.mean_frame_size
        latency = extend.Histogram(((_LATENCY_NS, received),), _LATENCY_NS, _LATENCY_NS) if spec.latency else None
        return extend.DirectionCounts(
            direction,
            intended=intended,
            sent=sent,
            refused=intended - sent,
            skipped=0,
            received=received,
            duplicated=None,  # it does not look
            out_of_order=None,
            foreign=0,
            corrupted=None,
            sent_bytes=round(sent * size),
            received_bytes=round(received * size),
            elapsed_ns=round(spec.duration_s * 1e9),
            latency=latency,
            latency_raw=latency,
            arrivals=_arrivals(spec, gaps, started_ns) if received else None,
        )


def _arrivals(spec: extend.TrialSpec, gaps: Sequence[tuple[int, int]], started_ns: int) -> extend.Arrivals:
    """When the frames were due that the switch forwarded, by its longest gap."""
    last_ns = round(spec.duration_s * 1e9)
    if not gaps:
        return extend.Arrivals(0, last_ns, gap_frames=0)
    begin_ns, end_ns = max(gaps, key=lambda gap: gap[1] - gap[0])
    missing = round((end_ns - begin_ns) / 1e9 * spec.load_fps)
    return extend.Arrivals(0, last_ns, missing, begin_ns - started_ns, end_ns - started_ns)
