"""What the DUT and the generator are: for headers, evidence and the fingerprint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DatapathInfo:
    """What the DUT is: for headers, evidence and the fingerprint.

    Attributes:
        kind: "dpdk", "netdev", "system" or "linux-bridge".
        version: of OVS, or of what else it is.
        dpdk_version: None without DPDK.
        detail: how it runs, in a sentence.
        installation: path of the program that forwards; empty where there is none of its own.
        origin: "installed", "prefix", "debian:bookworm", "git:<commit>"; empty where it is not known.
        cores: CPUs of its poll-mode threads, or of the thread that polls in their place, of each node; 0 for none.
        at_least: why it can do more than is seen here, such as nodes that share a CPU; empty where it cannot.
        short_turns: nodes that share a CPU take turns much shorter than a window of a trial (``Windows``), so that
            each window shows what all of them do.
        build: what is known of how it was built, by name: packages, options of configure, port types.
    """

    kind: str
    version: str
    dpdk_version: str | None
    detail: str
    installation: str = ""
    origin: str = ""
    build: tuple[tuple[str, str], ...] = ()
    cores: int = 0
    at_least: str = ""
    short_turns: bool = False


@dataclass(frozen=True, slots=True)
class GeneratorInfo:
    """What is generating: for headers, evidence and the fingerprint."""

    engine: str
    version: str
    detail: str
    cpus: tuple[int, ...]
