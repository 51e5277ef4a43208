"""Tells a guest that hangs at its start from one that is slow.

A slow guest prints, or uses its CPUs, or waits for the host to give it one. A hung one does neither: seen are a QEMU
to whose vhost-user socket nobody connects, and one whose far end connected and says nothing. Both sleep for ever before
the guest's first instruction, and do not answer their monitor.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pytest_nfvperf.adapters.process.process import ManagedProcess
from pytest_nfvperf.adapters.process.schedstat import read_schedstat
from pytest_nfvperf.model.errors import TestbedError

HUNG_S = 15.0
"""Silent and idle for so long, a guest hangs: emulated and starting, it is idle for less than a second at a time."""
_LOOK_S = 1.0
_IDLE_SHARE = 0.02
"""Of one CPU: QEMU's own timers use less."""
_MONITOR_S = 1.0
_CONNECTED = "03"
"""State of a Unix socket in /proc/net/unix (SS_CONNECTED)."""


class HungGuestError(TestbedError):
    """The guest hangs. ``printed``: it had said something before."""

    def __init__(self, message: str, evidence: dict[str, str], *, printed: bool) -> None:
        super().__init__(message, evidence=evidence)
        self.printed = printed


class GuestWatch:
    """Watches one boot; call ``look`` often.

    Args:
        process: QEMU.
        outputs: files that the guest writes to.
        sockets: its vhost-user sockets, on which QEMU listens.
        monitor: QEMU's own (QMP).
        hung_s: seconds without any sign of life.
    """

    def __init__(
        self,
        process: ManagedProcess,
        outputs: Sequence[Path],
        sockets: Sequence[Path],
        monitor: Path,
        hung_s: float = HUNG_S,
    ) -> None:
        self._process = process
        self._outputs = tuple(outputs)
        self._sockets = tuple(sockets)
        self._monitor = monitor
        self._hung_s = hung_s
        self._seen_at = self._alive_at = time.monotonic()
        self._printed, self._cpu_s = 0, 0.0

    def look(self, printed_bytes: int) -> None:
        """Look for a sign of life.

        Args:
            printed_bytes: what it has printed elsewhere than in ``outputs`` so far.

        Raises:
            HungGuestError: there was none for too long; with what QEMU is doing.
        """
        now = time.monotonic()
        if now - self._seen_at < _LOOK_S:
            return
        printed = printed_bytes + sum(_size(path) for path in self._outputs)
        cpu_s = wanted_cpu_s(self._process.pid)
        if printed > self._printed or cpu_s - self._cpu_s > _IDLE_SHARE * (now - self._seen_at):
            self._alive_at = now
        self._seen_at, self._printed, self._cpu_s = now, printed, cpu_s
        if now - self._alive_at > self._hung_s:
            message = (
                f"{self._process.name} hangs: for {self._hung_s:g} s it printed nothing and used no CPU "
                f"({cpu_s:.1f} s since its start)"
            )
            raise HungGuestError(message, self._evidence(), printed=printed > 0)

    def _evidence(self) -> dict[str, str]:
        connections = "\n".join(f"{path}: {connection(path)}" for path in self._sockets)
        return {
            "vhost-user": connections,
            "QEMU's monitor": ask_status(self._monitor),
            self._process.log.name: self._process.log_tail(),
        }


def wanted_cpu_s(pid: int) -> float:
    """Seconds that its threads ran on a CPU or waited for one (/proc/PID/task/TID/schedstat); 0 when it is gone."""
    total_ns = 0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # ended meanwhile
                counted = read_schedstat(task)
                total_ns += counted.ran_ns + counted.waited_ns
    return total_ns / 1e9


def connection(path: Path, table: Path = Path("/proc/net/unix")) -> str:
    """Who is at the other end of a socket that QEMU listens on, in words."""
    states = [
        fields[5]
        for line in table.read_text(encoding="utf-8").splitlines()
        if (fields := line.split()) and fields[-1] == str(path)
    ]
    if not states:
        return "nobody listens"
    return "connected" if _CONNECTED in states else "nobody has connected"


def ask_status(monitor: Path) -> str:
    """QEMU's answer to ``query-status``; that it does not answer says that its main loop does not run."""
    try:
        with socket.socket(socket.AF_UNIX) as connected:
            connected.settimeout(_MONITOR_S)
            connected.connect(str(monitor))
            with connected.makefile("rw", encoding="utf-8") as lines:
                lines.readline()
                for command in ("qmp_capabilities", "query-status"):
                    lines.write(json.dumps({"execute": command}) + "\n")
                    lines.flush()
                    answer = lines.readline()
                return answer.strip()
    except OSError as error:
        return f"does not answer: {error}"


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0
