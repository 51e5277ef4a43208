"""The rig's own ceiling, measured once and kept (docs/measuring-method.md, rule 3).

A ceiling belongs to a machine and a generator: the cache is keyed by a fingerprint of both, the
port kind, the frame size, the headers and the number of directions. It does not depend on the flows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.model.traffic.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A measured ceiling, frames/s per direction. ``lasting``: not where the host kept the CPUs apart meanwhile."""

    fps: float
    lasting: bool = True


Meter = Callable[[Traffic, int], Ceiling]


class NoCeilings:
    """Where the generator's own limit cannot be measured: its ports are cabled to the DUT."""

    def cached(self, traffic: Traffic, directions: int) -> float | None:
        """Unknown."""

    def measure(self, traffic: Traffic, directions: int) -> float | None:
        """Not possible."""


class CachedCeilings:
    """Ceilings in a JSON file: ``{fingerprint: {"vhost-user 64 x2": frames_per_second}}``.

    Args:
        path: the file; made when first written.
        fingerprint: what a ceiling holds for; another one is measured anew.
        port_kind: such as "vhost-user".
        meter: measures (traffic, directions).
    """

    def __init__(self, path: Path, fingerprint: str, port_kind: str, meter: Meter) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._port_kind = port_kind
        self._meter = meter

    def cached(self, traffic: Traffic, directions: int) -> float | None:
        """The kept ceiling, frames/s per direction; None when it was not measured yet."""
        return self._read().get(self._fingerprint, {}).get(self._key(traffic, directions))

    def measure(self, traffic: Traffic, directions: int) -> float | None:
        """Measure, and keep what lasts: another run measures again what does not."""
        ceiling = self._meter(traffic, directions)
        if not ceiling.lasting:
            return ceiling.fps
        kept = self._read()
        kept.setdefault(self._fingerprint, {})[self._key(traffic, directions)] = ceiling.fps
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        fresh.write_text(json.dumps(kept, indent=1, sort_keys=True))
        fresh.replace(self._path)
        return ceiling.fps

    def _key(self, traffic: Traffic, directions: int) -> str:
        return f"{self._port_kind} {traffic.shape_label} x{directions}"

    def _read(self) -> dict[str, dict[str, float]]:
        try:
            kept = json.loads(self._path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}  # a cache: what cannot be read is measured again
        return kept if isinstance(kept, dict) else {}
