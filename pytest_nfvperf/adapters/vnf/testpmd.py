"""A VNF that is a dpdk-testpmd process on virtio-user ports, driven by its console."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.generators.embedded.generator import eal_arguments
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.process.process import spawn
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.adapters.vnf.console import Console
from pytest_nfvperf.adapters.vnf.testpmd_command import PROGRAM, PROMPT, command
from pytest_nfvperf.adapters.vnf.testpmd_stats import parse_forward_stats
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.traffic.trial import VnfCounts
from pytest_nfvperf.ports.vnf import VnfSpec

MEMORY_MIB = 128
"""Hugepages of one testpmd: 16,384 buffers and room to spare."""

_VERSION = re.compile(r"RTE Version: 'DPDK ([^']+)'")
_READY_DEADLINE_S = 20.0
_ANSWER_DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True)
class TestpmdPlace:
    """Where a testpmd runs. ``cpu``: of the forwarding lcore; ``control_cpus``: of the console's."""

    __test__ = False

    cpu: int
    control_cpus: Sequence[int]
    hugepages: bool
    nice: int | None = None


class TestpmdVnf:
    """Fulfils ports.vnf.Vnf."""

    __test__ = False

    def __init__(self, journal: Journal, spec: VnfSpec, place: TestpmdPlace, *, start: str = "start") -> None:
        """Start it.

        Args:
            journal: of this run; its log is in the run directory.
            spec: what it shall be.
            place: where.
            start: its command that begins to forward, such as "start tx_first 32".

        Raises:
            TestbedError: there is no dpdk-testpmd here; says what to install.
        """
        _refuse_missing(spec.name)
        self._spec = spec
        self._start = start
        prefix = f"nfv-{journal.tag}-{spec.name}"
        eal = eal_arguments([place.cpu], place.control_cpus, prefix, MEMORY_MIB if place.hugepages else 0, ())
        self._process = spawn(
            journal,
            f"{PROGRAM} of VNF {spec.name}",
            command(eal, spec),
            log=journal.directory / f"testpmd-{spec.name}.log",
            pipes=True,
            nice=place.nice,
        )
        self._console = Console(self._process, PROMPT)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def processes(self) -> Mapping[int, CpuRole]:
        """Its own, by its id."""
        return {self.pid: CpuRole.VNF}

    def wait_ready(self) -> None:
        """Wait for its prompt, which comes once its ports are attached, and let it forward."""
        self._console.wait_prompt("its prompt, which comes once its ports are attached", _READY_DEADLINE_S)
        self._console.ask(self._start, _ANSWER_DEADLINE_S)

    def counts(self) -> tuple[VnfCounts, ...]:
        """From ``show fwd stats all``."""
        return forward_counts(self._spec, self._console.ask("show fwd stats all", _ANSWER_DEADLINE_S), self._version())

    def check_alive(self) -> None:
        """TestbedError when it has ended."""
        self._process.check()

    def close(self) -> None:
        """End it at once: there is nothing that it would save."""
        self._process.kill()

    def _version(self) -> str:
        return version_in(self._process.log)


def forward_counts(spec: VnfSpec, answer: str, version: str) -> tuple[VnfCounts, ...]:
    """Testpmd's statistics as those of frames that come in by each port and leave by the other.

    Raises:
        TestbedError: they are not understood, or a port is missing in them.
    """
    stats = parse_forward_stats(answer, version)
    if stats.keys() != set(range(len(spec.ports))):
        seen = ", ".join(map(str, sorted(stats))) or "none"
        raise TestbedError(
            f"dpdk-testpmd of DPDK {version} gives statistics of ports {seen}; VNF {spec.name!r} has "
            f"{len(spec.ports)}: {answer[:200]!r}"
        )
    last = len(spec.ports) - 1
    return tuple(
        VnfCounts(
            port=port.name,
            peer=spec.ports[last - number].name,
            received=stats[number].received,
            sent=stats[last - number].sent,
            ring_full=stats[last - number].tx_dropped,
            dropped=0,
        )
        for number, port in enumerate(spec.ports)
    )


def version_in(log: Path) -> str:
    """DPDK's version, as EAL says it in its log."""
    try:
        found = _VERSION.search(log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        found = None
    return found[1] if found else "of an unknown version"


def _refuse_missing(vnf: str) -> None:
    for program in (PROGRAM, "stdbuf"):
        if shutil.which(program) is None:
            raise TestbedError(
                f"VNF {vnf!r} asks for a {PROGRAM} process, and this machine has no {program}: "
                f'{install_hint(program)}, or use kind="loop"'
            )
