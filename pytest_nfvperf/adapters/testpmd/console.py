"""A running dpdk-testpmd: its command line, its console, and the statistics that it prints.

The command line is that of testpmd's guide ("Running the Application"). Its forward statistics are parsed strictly: an
unknown line is an error, never 0. Their format is that of ``show fwd stats all`` ("Testpmd Runtime Functions"),
unchanged from DPDK 20.11 to 25.11.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.process.process import Deadline, ManagedProcess
from pytest_nfvperf.model.errors import DeadlineError, TestbedError
from pytest_nfvperf.model.traffic.traffic import FCS_BYTES

_SHOWN_BYTES = 2000
_READ_BYTES = 1 << 16
_QUIET_S = 0.2
_END_S = 1.0
"""From its last output to its end, while the kernel frees its memory."""
PROGRAM = "dpdk-testpmd"
PROMPT = "testpmd> "
_MBUFS = 16384
_TX_DESCRIPTORS, _RX_DESCRIPTORS = 512, 1024
"""All frames in flight fit into the receiver's ring."""
_ETHERNET_HEADER_BYTES = 14
_USUAL_BYTES = 1518
_KNOWN_VERSIONS = "20.11 to 25.11"
_PORT = re.compile(r"-+ Forward statistics for port (\d+) +-+")
_TOTAL = re.compile(r"\++ Accumulated forward statistics for all ports ?\++")
_RULE = re.compile(r"-+|\++")
_COUNTS = re.compile(r"(RX|TX)-packets: (\d+) +(?:RX|TX)-dropped: (\d+) *(?:RX|TX)-total: (\d+)")
_ONE = re.compile(r"(RX-error|RX-nombufs): *(\d+)")
VERSION = re.compile(r"RTE Version: 'DPDK ([^']+)'")
_STREAM = re.compile(r"-+ Forward Stats for RX Port=.*-+")
_STREAM_COUNTS = re.compile(r"RX-packets: \d+ +TX-packets: \d+ +TX-dropped: \d+")
_BATCH = re.compile(r"port (\d+)/queue \d+: received \d+ packets")
_SOURCE = re.compile(r"src=((?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}) - dst=")
_CYCLES = re.compile(r"CPU cycles/packet=\S+ \(total cycles=(\d+) / total \S+ packets=(\d+)\) at (\d+) MHz Clock")
_SKIPPED = (_RULE, _ONE, _STREAM, _STREAM_COUNTS)
"""Lines without a count of a port: errors are counted in others, and a port's counts are the sums of its queues."""
READY_DEADLINE_S = 20.0
ANSWER_DEADLINE_S = 5.0


def forwarding_options(
    mode: str,
    ports: int,
    queues: int,
    mtu: int,
    eth_peers: Sequence[str | None] = (),
    rings: tuple[int | None, int | None] = (None, None),
) -> list[str]:
    """Arguments behind "--".

    ``eth_peers``: of mode mac, the MAC address that frames leaving by each port are sent to. ``rings``: descriptors of
    a receive and of a transmit ring; None: as in the generator's own forwarders.
    """
    received, sent = rings[0] or _RX_DESCRIPTORS, rings[1] or _TX_DESCRIPTORS
    options = [
        "-i",
        f"--forward-mode={mode}",
        f"--port-topology={'loop' if ports == 1 else 'paired'}",
        f"--rxq={queues}",
        f"--txq={queues}",
        f"--txd={sent}",
        f"--rxd={received}",
        f"--total-num-mbufs={max(_MBUFS, 2 * ports * queues * (received + sent))}",
        *(f"--eth-peer={number},{address}" for number, address in enumerate(eth_peers)),
    ]
    longest = mtu + _ETHERNET_HEADER_BYTES + FCS_BYTES
    return [*options, f"--max-pkt-len={longest}"] if longest > _USUAL_BYTES else options


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

    def ask(self, command: str, deadline_s: float, meanwhile: Callable[[int], None] = lambda _: None) -> str:
        """The answer to a command; ``meanwhile``, and errors, as of :meth:`wait_prompt`."""
        self._write(command)
        answer = self.wait_prompt(f"an answer to {command!r}", deadline_s, meanwhile)
        return answer.replace("\r\n", "\n").removeprefix(command).lstrip("\n")

    def ask_amid_output(self, command: str, deadline_s: float) -> str:
        """As ``ask``, while other threads of testpmd print.

        It writes its prompt a character at a time (DPDK's lib/cmdline), and what they print can come between. An empty
        line, after a second without output, has it print another one.
        """
        empty_lines: list[int] = []

        def ask_again(printed: int) -> None:
            empty_lines.append(printed)
            self._write("")

        answer, deadline = self.ask(command, deadline_s, ask_again), Deadline(deadline_s)
        # The prompts of empty lines would be taken for the next answers.
        while empty_lines and deadline.left_s and select.select([self._reader], [], [], _QUIET_S)[0]:
            if not (data := os.read(self._reader, _READ_BYTES)):
                break
            self._pending += data
        later, _, self._pending = self._pending.rpartition(self._prompt)
        return answer + later.decode(errors="replace")

    def _write(self, line: str) -> None:
        self._process.check()
        try:
            os.write(self._writer, f"{line}\n".encode())
        except OSError as error:
            raise self._ended("takes no commands any more") from error

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
    sides: dict[str, tuple[int, int]] | None = None
    strange = []
    for line in (raw.strip() for raw in text.splitlines()):
        known = not line or any(skipped.fullmatch(line) for skipped in _SKIPPED)
        if _TOTAL.fullmatch(line):
            break  # sums of what was read, and cycles
        if header := _PORT.fullmatch(line):
            known, sides = int(header[1]) not in ports, {}
            ports[int(header[1])] = sides
        elif sides is not None and (counts := _COUNTS.fullmatch(line)):
            known = counts[1] not in sides
            sides[counts[1]] = (int(counts[2]), int(counts[3]))
        strange += [] if known else [line]
    for number, of in ports.items():
        strange += [] if {*of} == {"RX", "TX"} else [f"port {number} with lines for {', '.join(of) or 'nothing'}"]
    if strange:
        raise TestbedError(
            f"dpdk-testpmd of DPDK {version} prints statistics that are not understood: {strange[0]!r}; the formats of "
            f'DPDK {_KNOWN_VERSIONS} are known. Take one of them; a VNF of kind "loop" needs none'
        )
    return {number: ForwardStats(*sides["RX"], *sides["TX"]) for number, sides in ports.items()}


def port_summary(text: str) -> list[tuple[int, str, bool]]:
    """Number, name of the device, and whether it has a link, of each port in an answer to ``show port summary all``."""
    rows = (line.split(maxsplit=5) for line in text.splitlines() if line[:1].isdigit())
    return [(int(number), device, status == "up") for number, _, device, _, status, _ in rows]


def received_sources(text: str) -> Iterator[tuple[int, str]]:
    """The port's number and the source address of each frame that ``set verbose 1`` printed."""
    port = -1
    for line in text.splitlines():
        if batch := _BATCH.search(line):
            port = int(batch[1])
        elif source := _SOURCE.search(line):
            yield port, source[1].lower()


def parse_core_cycles(text: str) -> tuple[int, int, int] | None:
    """TSC cycles that all threads spent on so many frames, and the TSC's MHz, of an answer to ``show fwd stats all``.

    None before the first frame, or where none are recorded (``--record-core-cycles``).
    """
    found = _CYCLES.search(text)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def version_in(log: Path) -> str:
    try:
        match = VERSION.search(log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        match = None
    return match[1] if match else "of an unknown version"
