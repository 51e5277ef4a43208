"""Requests and responses: one message there and back at a time, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_nfvperf.model.errors import ArgumentError
from pytest_nfvperf.model.traffic.histogram import Histogram

MESSAGE_BYTES = (14, 65_000)
"""sockperf's header alone, and what fits its buffer."""


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """Requests over one TCP connection. Raises ValueError for those that cannot be measured.

    ``duration_s``: whole seconds. ``load_per_s``: sent whether or not responses are due; None: the next one when the
    last one was answered. ``client_cpus``, ``server_cpus``: CPUs that the two processes may run on; empty: any.
    """

    message_bytes: int = 64
    duration_s: int = 1
    load_per_s: int | None = None
    client_cpus: tuple[int, ...] = ()
    server_cpus: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        low, high = MESSAGE_BYTES
        if not low <= self.message_bytes <= high:
            raise ArgumentError(f"message_bytes must be {low}..{high}, not {self.message_bytes}")
        if self.duration_s < 1:
            raise ArgumentError(f"duration_s must be 1 s or more, not {self.duration_s}")
        if self.load_per_s is not None and self.load_per_s < 1:
            raise ArgumentError(f"load_per_s must be 1 or more, not {self.load_per_s}; None: as fast as responses come")


@dataclass(frozen=True, slots=True)
class RequestResult:
    """What became of the requests.

    ``times``: from a request's sending to its response's arrival, by the client's clock. ``elapsed_ns``: from the first
    request to the last.
    """

    spec: RequestSpec
    times: Histogram
    unanswered: int
    elapsed_ns: int
    engine: str

    @property
    def responses_per_s(self) -> float | None:
        """None when no time passed."""
        return self.times.total * 1e9 / self.elapsed_ns if self.elapsed_ns > 0 else None
