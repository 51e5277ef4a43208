"""What the DUT and the generator are: for headers, evidence and the fingerprint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DatapathInfo:
    """What the DUT is: for headers, evidence and the fingerprint."""

    kind: str  # "dpdk", "netdev", "system", "linux-bridge"
    version: str
    dpdk_version: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class GeneratorInfo:
    """What is generating: for headers, evidence and the fingerprint."""

    engine: str
    version: str
    detail: str
    cpus: tuple[int, ...]
