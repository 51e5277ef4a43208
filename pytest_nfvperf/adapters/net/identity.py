"""Who a process is: a pid alone is reused, so its start time and the boot belong to it (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TAG_VARIABLE = "NFVPERF_TAG"
"""Environment variable by which every process that we spawn carries its run's tag."""

_PROC = Path("/proc")


def boot_id() -> str:
    """The kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot (field 22 of stat); None when it is gone.

    A zombie counts as gone: it runs nothing and holds nothing but its pid.
    """
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name may hold spaces and brackets; the fields after its last bracket do not.
    fields = stat[stat.rindex(")") + 2 :].split()
    state, started = fields[0], fields[19]
    return None if state in {"Z", "X"} else int(started)


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, not merely one number."""

    pid: int
    start_ticks: int

    @staticmethod
    def of(pid: int) -> ProcessId | None:
        """The identity of a running process; None when there is none."""
        ticks = start_ticks(pid)
        return None if ticks is None else ProcessId(pid, ticks)

    @staticmethod
    def own() -> ProcessId:
        """The identity of this process."""
        identity = ProcessId.of(os.getpid())
        if identity is None:
            raise RuntimeError("/proc does not show this process; is /proc mounted?")
        return identity

    def alive(self) -> bool:
        """True while this very process runs."""
        return start_ticks(self.pid) == self.start_ticks


def command_line(pid: int) -> str:
    """The command line, for messages; empty when the process is gone."""
    try:
        raw = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return raw.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", errors="replace")


def processes_tagged(tag: str) -> Iterator[ProcessId]:
    """Every process whose environment at exec carried our variable with this tag."""
    needle = f"{TAG_VARIABLE}={tag}".encode()
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:  # gone meanwhile, or a kernel thread
            continue
        if needle in environment.split(b"\0"):
            identity = ProcessId.of(int(entry.name))
            if identity is not None:
                yield identity
