"""Ceilings in recordings: a search below another ceiling asks for other loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.generator import Ceilings

COMMAND = "ceiling"


class RecordedCeilings:
    """Ceilings that are written down as they are asked for."""

    def __init__(self, ceilings: Ceilings, path: Path) -> None:
        self._ceilings = ceilings
        self._path = path

    def cached(self, traffic: Traffic, directions: int) -> float | None:
        """As kept, and noted when it is."""
        known = self._ceilings.cached(traffic, directions)
        if known is not None:
            self._note(traffic, directions, known)
        return known

    def measure(self, traffic: Traffic, directions: int) -> float | None:
        """Measured and noted."""
        found = self._ceilings.measure(traffic, directions)
        self._note(traffic, directions, found)
        return found

    def _note(self, traffic: Traffic, directions: int, fps: float | None) -> None:
        exchange = {"cmd": COMMAND, "arguments": _asked(traffic, directions), "answer": {"ok": True, "fps": fps}}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**exchange, "seconds": 0.0}) + "\n")


class ReplayedCeilings:
    """Ceilings as a recording has them; unknown where it has none."""

    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        self._known = {
            json.dumps(exchange["arguments"], sort_keys=True): exchange["answer"]["fps"]
            for exchange in exchanges
            if exchange.get("cmd") == COMMAND
        }

    def cached(self, traffic: Traffic, directions: int) -> float | None:
        """As recorded."""
        fps: float | None = self._known.get(json.dumps(_asked(traffic, directions), sort_keys=True))
        return fps

    def measure(self, traffic: Traffic, directions: int) -> float | None:
        """Nothing can be measured."""
        return self.cached(traffic, directions)


def _asked(traffic: Traffic, directions: int) -> dict[str, Any]:
    return {"frame_size": traffic.shape_label, "directions": directions}
