"""Samplers are read again and again while a trial runs, so they must be cheap: a few milliseconds of one CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class SamplerReading:
    """What one source said.

    Attributes:
        counters: rising counts by name; the sample holds by how much they rose. One that the source lacks is absent.
        gauges: figures that are what they are: bytes of memory, a session that is up (1) or not (0).
    """

    counters: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)


class Sampler(Protocol):
    """One source of samples."""

    @property
    def name(self) -> str:
        """What messages call it: "ovs", "bgp"."""
        ...

    def read(self) -> SamplerReading:
        """All it has now. Raises TestbedError when the source does not answer; it is asked again a second later."""
        ...


@runtime_checkable
class Sampled(Protocol):
    """A datapath, or anything else, that can be sampled."""

    def samplers(self) -> tuple[Sampler, ...]:
        """Its sources."""
        ...
