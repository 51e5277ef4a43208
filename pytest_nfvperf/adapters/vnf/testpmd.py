"""A VNF that is a dpdk-testpmd process on virtio-user ports, driven by its console."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from pytest_nfvperf.adapters.generators.embedded.generator import eal_arguments
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import spawn
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.adapters.testpmd.console import (
    ANSWER_DEADLINE_S,
    PROGRAM,
    PROMPT,
    READY_DEADLINE_S,
    Console,
    forwarding_options,
    parse_forward_stats,
    version_in,
)
from pytest_nfvperf.model.errors import TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.topology.ports import VnfMode
from pytest_nfvperf.model.traffic.trial import VnfCounts
from pytest_nfvperf.ports.generator import Vnf, VnfSpec

MEMORY_MIB = 128
"""Hugepages of one testpmd: 16,384 buffers and a reserve."""


def vnf_options(spec: VnfSpec) -> list[str]:
    peers = [port.eth_peer for port in spec.ports] if spec.mode is VnfMode.MAC else []
    return forwarding_options(spec.mode, len(spec.ports), spec.queues, spec.mtu, peers)


def command(eal: Sequence[str], spec: VnfSpec) -> list[str]:
    # Its output is line-buffered: a pipe would hold back 4 KiB.
    vdevs: list[str] = []
    for number, port in enumerate(spec.ports):
        driver, _, rest = port.device.partition(",")
        vdevs += ["--vdev", f"{driver}{number},{rest}"]
    return ["stdbuf", "-oL", PROGRAM, *eal, "-v", *vdevs, "--", *vnf_options(spec)]


class TestpmdVnf(Vnf):
    __test__ = False

    def __init__(
        self,
        journal: Journal,
        spec: VnfSpec,
        cpu: int,
        control_cpus: Sequence[int],
        *,
        hugepages: bool,
        nice: int | None = None,
        start: str = "start",
    ) -> None:
        """Start it.

        ``cpu``: of the forwarding lcore. ``control_cpus``: of the console's. ``start``: the command that begins to
        forward, such as "start tx_first 32".

        Raises:
            TestbedError: there is no dpdk-testpmd here; names the package to install.
        """
        for program in (PROGRAM, "stdbuf"):
            if shutil.which(program) is None:
                raise TestbedError(
                    f"VNF {spec.name!r} asks for a {PROGRAM} process, and this machine has no {program}: "
                    f'{install_hint(program)}, or use kind="loop"'
                )
        self._spec = spec
        self._start = start
        prefix = f"nfv-{journal.tag}-{spec.name}"
        eal = eal_arguments([cpu], control_cpus, prefix, MEMORY_MIB if hugepages else 0, ())
        self._process = spawn(
            journal,
            f"{PROGRAM} of VNF {spec.name}",
            command(eal, spec),
            log=journal.directory / f"testpmd-{spec.name}.log",
            pipes=True,
            nice=nice,
        )
        self._console = Console(self._process, PROMPT)

    @property
    def pid(self) -> int:
        return self._process.pid

    def processes(self) -> Mapping[int, CpuRole]:
        return {self.pid: CpuRole.VNF}

    def wait_ready(self) -> None:
        self._console.wait_prompt("its prompt, which comes once its ports are attached", READY_DEADLINE_S)
        self._console.ask(self._start, ANSWER_DEADLINE_S)

    def counts(self) -> tuple[VnfCounts, ...]:
        answer = self._console.ask("show fwd stats all", ANSWER_DEADLINE_S)
        return forward_counts(self._spec, answer, version_in(self._process.log))

    def check_alive(self) -> None:
        self._process.check()

    def close(self) -> None:
        self._process.kill()


def forward_counts(spec: VnfSpec, answer: str, version: str) -> tuple[VnfCounts, ...]:
    """Testpmd's counts of frames that enter by each port and leave by the other; TestbedError if a port is missing."""
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
