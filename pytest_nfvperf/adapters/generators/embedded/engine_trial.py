"""A trial of the embedded engine that tells its counts while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_nfvperf.adapters.generators.engine import EngineLink
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.traffic.interval_counts import IntervalCounts, IntervalLatency, SoFar
from pytest_nfvperf.model.traffic.trial import TrialResult

_GRACE_S = 10.0


class EngineTrial:
    """Fulfils ports.generator.RunningTrial.

    Args:
        engine: has the trial's request already.
        request_id: of that request.
        interval_s: between its lines.
        most_skipped: see the port.
        finish: makes the result of the engine's answer.
    """

    def __init__(
        self,
        engine: EngineLink,
        request_id: int,
        interval_s: float,
        most_skipped: float,
        finish: Callable[[Mapping[str, Any]], TrialResult],
    ) -> None:
        self.most_skipped = most_skipped
        self._engine = engine
        self._request = request_id
        self._interval_s = interval_s
        self._finish = finish
        self._stopped = False
        self._stop_asked: list[int] = []
        self._result: TrialResult | None = None

    def next_interval(self) -> IntervalCounts | None:
        """The next line of the engine's that is an interval."""
        while self._result is None or self._stop_asked:
            line = self._engine.read("the next interval", self._interval_s + _GRACE_S)
            if "interval" in line:
                return interval_counts(line["interval"])
            self._take_answer(line)
        return None

    def _take_answer(self, line: dict[str, Any]) -> None:
        """The trial's, or that of ``stop``: a trial that had just ended had nothing to stop, which is as good."""
        if line.get("id") == self._request:
            self._result = self._finish(self._engine.checked("trial", line))
        elif line.get("id") in self._stop_asked:
            self._stop_asked.remove(line["id"])
        else:
            raise GeneratorError(f"the generator answered {str(line)[:200]} in the middle of a trial")

    def stop(self) -> None:
        """Ask the engine to send no more."""
        if not self._stopped and self._result is None:
            self._stopped = True
            self._stop_asked.append(self._engine.send("stop", _GRACE_S))

    def result(self) -> TrialResult:
        """The answer's."""
        if self._result is None:
            raise GeneratorError("the trial has not ended: read its intervals to the last")
        return self._result


def interval_counts(data: Mapping[str, Any]) -> IntervalCounts:
    """A line's ``interval`` (docs/engine-protocol.md)."""
    return IntervalCounts(
        at_ns=data["at_ns"],
        directions=tuple(_so_far(stream) for stream in data["streams"]),
        absent_ns=sum(worker["absent_ns"] for worker in data["workers"]),
        longest_poll_gap_ns=max(worker["longest_poll_gap_ns"] for worker in data["workers"]),
    )


def _so_far(stream: Mapping[str, Any]) -> SoFar:
    counts = {name: stream[name] for name in ("sent", "refused", "skipped", "received", "highest_seq")}
    marks = {name: stream[name] for name in ("duplicated", "out_of_order", "corrupted")}
    latency = stream.get("latency")
    return SoFar(**counts, **marks, latency=IntervalLatency(**latency) if latency is not None else None)
