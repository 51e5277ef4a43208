"""Who a process is: a pid alone is reused, so its start time and the boot belong to it (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

TAG_VARIABLE = "NFVPERF_TAG"
"""Environment variable by which every process that we spawn carries its run's tag."""

_PROC = Path("/proc")


def boot_id() -> str:
    """The kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def pid_namespace() -> int | None:
    """The number of the namespace in which our pids mean something (pid_namespaces(7)); None where it is not told."""
    try:
        return (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return None


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
    yield from _processes(lambda process: _is_tagged(process, tag))


def processes_of_run(tag: str, journal: Path) -> Iterator[ProcessId]:
    """Every process that a dead run left: those with its tag, and those that are still about to get it.

    A child that was forked but has not yet replaced itself by its command has its parent's environment,
    but also its parent's open files, the journal among them.
    """
    # In this order: one that gets its tag between the two looks is seen by the second.
    yield from _processes(lambda process: _writes_to(process, str(journal)) or _is_tagged(process, tag))


def _processes(wanted: Callable[[Path], bool]) -> Iterator[ProcessId]:
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            found = wanted(entry)
        except OSError:  # gone meanwhile
            continue
        identity = ProcessId.of(int(entry.name)) if found else None
        if identity is not None:
            yield identity


def _is_tagged(process: Path, tag: str) -> bool:
    return f"{TAG_VARIABLE}={tag}".encode() in (process / "environ").read_bytes().split(b"\0")


def _writes_to(process: Path, file: str) -> bool:
    """True for who has the file open for writing; who only reads it (tail -f) is somebody else."""
    for fd in (process / "fd").iterdir():
        try:
            if str(fd.readlink()) == file and _is_writable(process, fd.name):
                return True
        except OSError:  # closed meanwhile
            continue
    return False


def _is_writable(process: Path, fd: str) -> bool:
    info = (process / "fdinfo" / fd).read_text(encoding="ascii")
    flags = next(line.split()[1] for line in info.splitlines() if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
