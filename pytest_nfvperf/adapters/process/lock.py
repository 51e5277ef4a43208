"""Locks by flock(2): the machine's measurement lock, and leases of testbeds.

Two runs must not measure on the same CPUs at once. The measurement lock is one file per measured CPU under the base
directory, so runs on disjoint CPU plans coexist. A measuring run holds it exclusively; functional tests, which judge no
rate, share it. The file stays: removing a locked file would let two holders in.

A lease of a testbed is a lock on the testbed file itself, or on a directory; nothing is written. Only its holder uses
the testbed. The kernel drops locks with the process, however it ends, so a worker that replaces a killed one finds the
testbed free.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.process.journal import RUN_DIR_VARIABLE, base_directory, command_line
from pytest_nfvperf.adapters.process.process import Deadline, wait_until
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError

_LOCKS = Path("/proc/locks")
WORKER = "PYTEST_XDIST_WORKER"
"""Environment variable that pytest-xdist sets in its workers."""


class Lease:
    """Holds a file or directory until ``close()`` or the end of the process."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def try_lease(path: Path, *, shared: bool = False) -> Lease | None:
    """Lock a file or a directory; None while another process holds it, ConfigError if it cannot be read or locked."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from error
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno not in {errno.EAGAIN, errno.EACCES}:
            raise ConfigError(
                f"cannot be locked: {error.strerror}; put it on a file system that has locks (flock(2)), as the "
                "machine's own disk has",
                file=str(path),
            ) from error
        return None
    return Lease(handle)


def lock_holder(status: os.stat_result) -> int | None:
    """The pid that locked this file (proc_locks(5)); None if it is not listed: another machine, a container."""
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        for line in _LOCKS.read_text(encoding="ascii").splitlines():
            match line.split():
                case [_, "FLOCK", _, _, pid, where, *_] if where == file and pid.isdigit():
                    return int(pid)
    return None


def holder_text(path: Path) -> str:
    """The holder's pid and command, as far as this user may see them."""
    pid = lock_holder(path.stat())
    if pid is None:
        return "a process that this user cannot see"
    return f"pid {pid}, command {command_line(pid) or 'unknown'!r}"


class MeasurementLock:
    """Holds CPUs, exclusively or shared, until ``close()`` or the end of the process."""

    def __init__(
        self,
        cpus: Iterable[int],
        tag: str,
        *,
        shared: bool = False,
        wait_s: float = 0.0,
        say: Callable[[str], None] = lambda _: None,
        base: Path | None = None,
    ) -> None:
        """Take the locks; TestbedError if another run holds one of the CPUs, which names it and says what to do.

        Args:
            cpus: every CPU whose owner polls or is measured (PMD, generator, VNF).
            tag: of this run; refused runs show it.
            shared: nothing is measured: others that share the CPUs may hold them, too.
            wait_s: how long to wait for other runs to finish, in s; 0: refuse at once.
            say: receives a line before a wait, which names the holder.
            base: the directory of all runs.
        """
        self._directory = base_directory(base)
        self._mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._held: list[int] = []
        self._deadline = Deadline(wait_s)
        self._wait_s, self._say = wait_s, say
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            # Always in rising order: two runs that wait for each other's CPUs cannot deadlock.
            for cpu in sorted(set(cpus)):
                self._held.append(self._take(cpu, tag))
        except OSError as error:
            self.close()
            advice = (
                "run as root" if error.errno in {errno.EACCES, errno.EPERM} else f"set {RUN_DIR_VARIABLE} to another"
            )
            raise ConfigError(f"cannot make a lock in {self._directory}: {error.strerror}; {advice}") from error
        except BaseException:
            self.close()
            raise

    def _take(self, cpu: int, tag: str) -> int:
        path = self._directory / f"measure-cpu{cpu}.lock"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._announce_wait(handle, cpu, path)
        try:
            wait_until(lambda: _try_lock(handle, self._mode), f"CPU {cpu}", self._deadline.left_s, interval_s=0.05)
        except DeadlineError as error:
            os.close(handle)
            raise TestbedError(self._refusal(cpu, path)) from error
        holder = {
            "pid": os.getpid(),
            "tag": tag,
            "command": " ".join(sys.argv),
            "worker": os.environ.get(WORKER, ""),
            "parent": os.getppid(),
            "shared": self._mode == fcntl.LOCK_SH,
        }
        os.ftruncate(handle, 0)  # among several that share it, the last one is recorded
        os.pwrite(handle, (json.dumps(holder) + "\n").encode(), 0)
        return handle

    def _announce_wait(self, handle: int, cpu: int, path: Path) -> None:
        if not self._wait_s or _try_lock(handle, self._mode):
            return
        sibling, wait = _sibling(path), f"waits up to {format_seconds(self._wait_s)} for its turn: CPU {cpu}"
        if not _holder(path).get("shared"):
            by = f"worker {sibling} of this run" if sibling else _read_holder(path)
            self._say(f"{wait} is being measured by {by}")
        elif not sibling:  # a sibling has ended its last functional test, and will end soon
            self._say(f"{wait} runs functional tests of {holder_text(path)}")

    def _refusal(self, cpu: int, path: Path) -> str:
        sibling = _sibling(path)
        waited = f" (waited {self._wait_s:g} s)" if self._wait_s else ""
        if _holder(path).get("shared"):
            return (
                f"CPU {cpu} runs functional tests of another run: {holder_text(path)}{waited}; wait longer "
                "(--nfv-wait), or stop it"
            )
        if sibling:
            return (
                f"CPU {cpu} is being measured by worker {sibling} of this very run{waited}: one testbed measures one "
                "test at a time. Wait longer (--nfv-wait), leave out -n, or give each worker a testbed with CPUs of "
                "its own (--nfv-testbed, once for each)"
            )
        return (
            f"CPU {cpu} is being measured by another run: {_read_holder(path)}{waited}; "
            "wait for it to end, stop it, or give this run other CPUs in the testbed file"
        )

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def __enter__(self) -> MeasurementLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _try_lock(handle: int, mode: int) -> bool:
    try:
        fcntl.flock(handle, mode | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in {errno.EAGAIN, errno.EACCES}:
            raise
        return False
    return True


def _holder(path: Path) -> dict[str, Any]:
    """What the holder wrote about itself; empty until it has."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _sibling(path: Path) -> str:
    """Name of the holder if it is a worker of the same run as this worker; else ""."""
    holder = _holder(path)
    ours = bool(os.environ.get(WORKER)) and holder.get("parent") == os.getppid()
    return str(holder.get("worker", "")) if ours else ""


def _read_holder(path: Path) -> str:
    holder = _holder(path)
    if not {"pid", "tag", "command"} <= holder.keys():
        return f"unknown holder (it has not written {path} yet)"
    return f"pid {holder['pid']}, run {holder['tag']}, command {holder['command']!r}"
