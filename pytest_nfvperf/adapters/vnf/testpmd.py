"""A VNF that is a dpdk-testpmd process on virtio-user ports, driven by its console.

The command line is that of testpmd's guide ("Running the Application"). Its forward statistics are parsed strictly: an
unknown line is an error, never 0. Their format is that of ``show fwd stats all`` ("Testpmd Runtime Functions"),
unchanged from DPDK 20.11 to 25.11.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.generators.embedded.generator import eal_arguments
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import Deadline, ManagedProcess, spawn
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.topology.ports import VnfMode
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES
from pytest_nfvperf.model.traffic.trial import VnfCounts
from pytest_nfvperf.ports.generator import Vnf, VnfSpec

_SHOWN_BYTES = 2000
_READ_BYTES = 1 << 16
_END_S = 1.0
"""From its last output to its end, while the kernel frees its memory."""
PROGRAM = "dpdk-testpmd"
PROMPT = "testpmd> "
_MBUFS = 16384
_TX_DESCRIPTORS, _RX_DESCRIPTORS = 512, 1024
"""As in the generator's own forwarders: all frames in flight fit into the receiver's ring."""
_ETHERNET_HEADER_BYTES = 14
_USUAL_BYTES = 1518
_KNOWN_VERSIONS = "20.11 to 25.11"
_PORT = re.compile(r"-+ Forward statistics for port (\d+) +-+")
_TOTAL = re.compile(r"\++ Accumulated forward statistics for all ports ?\++")
_RULE = re.compile(r"-+|\++")
_COUNTS = re.compile(r"(RX|TX)-packets: (\d+) +(?:RX|TX)-dropped: (\d+) *(?:RX|TX)-total: (\d+)")
_ONE = re.compile(r"(RX-error|RX-nombufs): *(\d+)")
MEMORY_MIB = 128
"""Hugepages of one testpmd: 16,384 buffers and a reserve."""
_VERSION = re.compile(r"RTE Version: 'DPDK ([^']+)'")
_READY_DEADLINE_S = 20.0
_ANSWER_DEADLINE_S = 5.0


class Console:
    """The console of a process that was spawned with pipes. Every error carries the end of the process's log.

    ``prompt``: printed when the process is ready for a command.
    """

    def __init__(self, process: ManagedProcess, prompt: str) -> None:
        stdin, stdout = process.popen.stdin, process.popen.stdout
        assert stdin is not None
        assert stdout is not None
        self._process = process
        self._reader, self._writer = stdout.fileno(), stdin.fileno()
        self._prompt = prompt.encode()
        self._pending = b""
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def wait_prompt(self, awaited: str, deadline_s: float, meanwhile: Callable[[int], None] = lambda _: None) -> str:
        """The output until the next prompt.

        Args:
            awaited: for messages.
            deadline_s: seconds until the prompt must have come.
            meanwhile: called about once a second with the number of bytes printed so far; it may raise to end the wait.

        Raises:
            DeadlineError: no prompt in time; with the last output.
            TestbedError: the process ended.
        """
        deadline = Deadline(deadline_s)
        while self._prompt not in self._pending:
            late = not deadline.left_s
            readable = deadline.look(lambda seconds: select.select([self._reader], [], [], seconds)[0])
            if not readable:
                meanwhile(len(self._pending))
                if not late:
                    continue
                printed = self._pending[-_SHOWN_BYTES:].decode(errors="replace")
                seen = f"{printed!r} (process state: {self._process.state()})"
                message = f"{self._process.name}: waited {deadline_s:g} s for {awaited}; last seen: {seen}"
                raise DeadlineError(message, evidence=self._evidence())
            data = os.read(self._reader, _READ_BYTES)
            if not data:
                raise self._ended("closed its console")
            self._pending += data
        text, _, self._pending = self._pending.partition(self._prompt)
        return text.decode(errors="replace")

    def ask(self, command: str, deadline_s: float) -> str:
        self._process.check()
        try:
            os.write(self._writer, f"{command}\n".encode())
        except OSError as error:
            raise self._ended("takes no commands any more") from error
        answer = self.wait_prompt(f"an answer to {command!r}", deadline_s)
        return answer.replace("\r\n", "\n").removeprefix(command).lstrip("\n")

    def _ended(self, what: str) -> TestbedError:
        """The error of a process that ended; if it still runs, ``what`` it did to its console."""
        with suppress(subprocess.TimeoutExpired):
            self._process.popen.wait(_END_S)
        try:
            self._process.check()
        except TestbedError as error:
            return error
        return TestbedError(f"{self._process.name} {what}", evidence=self._evidence())

    def _evidence(self) -> dict[str, str]:
        return {self._process.log.name: self._process.log_tail()}


def forwarding_options(spec: VnfSpec) -> list[str]:
    options = [
        "-i",
        f"--forward-mode={spec.mode}",
        f"--port-topology={'loop' if len(spec.ports) == 1 else 'paired'}",
        f"--rxq={spec.queues}",
        f"--txq={spec.queues}",
        f"--txd={_TX_DESCRIPTORS}",
        f"--rxd={_RX_DESCRIPTORS}",
        f"--total-num-mbufs={_MBUFS}",
    ]
    if spec.mode is VnfMode.MAC:
        options += [f"--eth-peer={number},{port.eth_peer}" for number, port in enumerate(spec.ports)]
    longest = spec.mtu + _ETHERNET_HEADER_BYTES + FCS_BYTES
    return [*options, f"--max-pkt-len={longest}"] if longest > _USUAL_BYTES else options


def command(eal: Sequence[str], spec: VnfSpec) -> list[str]:
    # Its output is line-buffered: a pipe would hold back 4 KiB.
    vdevs: list[str] = []
    for number, port in enumerate(spec.ports):
        driver, _, rest = port.device.partition(",")
        vdevs += ["--vdev", f"{driver}{number},{rest}"]
    return ["stdbuf", "-oL", PROGRAM, *eal, "-v", *vdevs, "--", *forwarding_options(spec)]


@dataclass(frozen=True, slots=True)
class ForwardStats:
    """Testpmd's counts of one port since ``start``. ``tx_dropped``: frames that found the port's ring full."""

    received: int
    rx_dropped: int
    sent: int
    tx_dropped: int


def parse_forward_stats(text: str, version: str) -> dict[int, ForwardStats]:
    """The counts in an answer to ``show fwd stats all``, by testpmd's number of the port.

    Raises:
        TestbedError: a line of another format, a port twice, or a port without both of its lines.
    """
    ports: dict[int, dict[str, tuple[int, int]]] = {}
    port: int | None = None
    for line in (raw.strip() for raw in text.splitlines()):
        if header := _PORT.fullmatch(line):
            port = int(header[1])
            if port in ports:
                raise _unknown(line, version)
            ports[port] = {}
        elif _TOTAL.fullmatch(line):
            break  # sums of what was read
        elif counts := _COUNTS.fullmatch(line):
            if port is None or counts[1] in ports[port]:
                raise _unknown(line, version)
            ports[port][counts[1]] = (int(counts[2]), int(counts[3]))
        elif line and not _RULE.fullmatch(line) and not _ONE.fullmatch(line):
            raise _unknown(line, version)
    for number, sides in ports.items():
        if sides.keys() != {"RX", "TX"}:
            raise _unknown(f"port {number} with lines for {', '.join(sides) or 'nothing'}", version)
    return {number: ForwardStats(*sides["RX"], *sides["TX"]) for number, sides in ports.items()}


def _unknown(line: str, version: str) -> TestbedError:
    return TestbedError(
        f"dpdk-testpmd of DPDK {version} prints statistics that are not understood: {line!r}; the formats of DPDK "
        f'{_KNOWN_VERSIONS} are known. Run the VNF as kind "loop", or with another DPDK'
    )


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
        self._console.wait_prompt("its prompt, which comes once its ports are attached", _READY_DEADLINE_S)
        self._console.ask(self._start, _ANSWER_DEADLINE_S)

    def counts(self) -> tuple[VnfCounts, ...]:
        answer = self._console.ask("show fwd stats all", _ANSWER_DEADLINE_S)
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


def version_in(log: Path) -> str:
    try:
        match = _VERSION.search(log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        match = None
    return match[1] if match else "of an unknown version"
