"""Runs one command in a guest that sees this machine's files and has Debian's kernel.

The guest boots, runs the command, and ends; a boot takes a few seconds. The host's root is read-only in it,
under a layer in memory. One folder is shared, in which results come back; others can be written where they are.
QEMU is a child of this run like any other: journaled, tagged and killed with its parent.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pytest_nfvperf.adapters.guest.initramfs import build_initramfs
from pytest_nfvperf.adapters.guest.kernel_image import QEMU, Kernel, need
from pytest_nfvperf.adapters.journal.journal import Journal, Kind
from pytest_nfvperf.adapters.process.process import ManagedProcess, describe_exit, spawn, tail
from pytest_nfvperf.adapters.virtual_time.machine import GuestMachine, Shared, Time, qemu_command
from pytest_nfvperf.adapters.vnf.guest import GuestWatch, HungGuestError
from pytest_nfvperf.model.errors import DeadlineError, TestbedError

BOOT_DEADLINE_S = 60.0
SHARED = Path("/guest")
"""Where the shared folder is in the guest."""
_OURS = ("command", "modules", "writable", "started", "status", "stdout", "stderr", "dmesg")
_SECOND_STAGE = Path(__file__).parent / "second_stage.sh"
_LOOK_S = 0.05
_CONSOLE_LINES = 80  # a panic with its registers and backtrace


@dataclass(frozen=True, slots=True)
class GuestRun:
    """A command that ran to its end in a guest.

    Attributes:
        status: its exit status.
        time: the guest's kind of time; figures of one kind are never set beside those of the other.
        boot_s: host seconds from QEMU's start to the command's.
        elapsed_s: host seconds from QEMU's start to its end.
        shared: the folder that was shared, with what the command wrote there and the guest's ``dmesg``.
    """

    command: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    time: Time
    boot_s: float
    elapsed_s: float
    shared: Path

    def __str__(self) -> str:
        shown = [f"`{shlex.join(self.command)}` {describe_exit(self.status)} in the guest ({self.time})"]
        shown += [f"--- {name} ---\n{text.rstrip()}" for name, text in self._texts() if text.strip()]
        return "\n".join(shown)

    def _texts(self) -> list[tuple[str, str]]:
        return [("stdout", self.stdout), ("stderr", self.stderr), ("kernel", tail(self.shared / "dmesg"))]


def run_in_guest(
    journal: Journal,
    kernel: Kernel,
    command: Sequence[str],
    shared: Path | Shared,
    *,
    machine: GuestMachine | None = None,
    deadline_s: float = 120.0,
    boot_deadline_s: float = BOOT_DEADLINE_S,
    stream: TextIO | None = None,
) -> GuestRun:
    """Boot a guest, run the command in it, and return how it went.

    Args:
        journal: of this run; the guest's own files are in its directory.
        kernel: what to boot.
        command: an argument list; programs and files are found where they are on this machine.
        shared: an existing folder, /guest in the guest; results of the command go there. Or that, and others that the
            command writes to at their own paths.
        machine: 2 CPUs on the wall clock by default.
        deadline_s: host seconds that the command may take.
        boot_deadline_s: host seconds until it must have begun.
        stream: its output is also written here, as it comes.

    Raises:
        ConfigError: QEMU is not installed; names the package.
        HungGuestError: the guest hangs at its start: it neither prints nor uses a CPU; with QEMU's own state.
        DeadlineError: says what was awaited, with the console's and the output's end; QEMU is gone by then.
        TestbedError: the guest ended without the command's status (a panic, QEMU died), with the console's end.
    """
    need(QEMU)
    machine = machine or GuestMachine()
    folders = Shared(shared) if isinstance(shared, Path) else shared
    directory = journal.directory / f"guest-{secrets.token_hex(3)}"
    entry = journal.note(Kind.DIRECTORY, str(directory))
    directory.mkdir()
    try:
        guest = _Guest(journal, kernel, command, folders, machine, directory, stream)
        return guest.run(boot_deadline_s, deadline_s)
    finally:
        journal.discard(directory, entry)


class _Guest:
    """One boot."""

    def __init__(
        self,
        journal: Journal,
        kernel: Kernel,
        command: Sequence[str],
        folders: Shared,
        machine: GuestMachine,
        directory: Path,
        stream: TextIO | None,
    ) -> None:
        self._command = tuple(command)
        self._shared = shared = folders.results
        self._writable = folders.writable
        self._machine = machine
        self._console = directory / "console"
        self._write_command()
        self._outputs = [_Follower(shared / name, stream) for name in ("stdout", "stderr")]
        initramfs = build_initramfs(kernel, directory, _SECOND_STAGE)
        argv = qemu_command(machine, kernel, initramfs, folders, self._console)
        self._began = time.monotonic()
        monitor = directory / "monitor"
        argv += ["-qmp", f"unix:{monitor},server=on,wait=off"]
        self._qemu: ManagedProcess = spawn(journal, "qemu", argv, log=directory / "qemu.log")
        outputs = [self._console, *(output.path for output in self._outputs)]
        self._watch = GuestWatch(self._qemu, outputs, (), monitor)

    def _write_command(self) -> None:
        for name in _OURS:
            (self._shared / name).unlink(missing_ok=True)
        (self._shared / "command").write_bytes(b"".join(part.encode() + b"\0" for part in self._command))
        (self._shared / "modules").write_text("".join(f"{name}\n" for name in self._machine.modules), encoding="ascii")
        writable = b"".join(os.fsencode(path.resolve()) + b"\0" for path in self._writable)
        (self._shared / "writable").write_bytes(writable)
        for name in ("stdout", "stderr"):
            (self._shared / name).touch()

    def run(self, boot_deadline_s: float, deadline_s: float) -> GuestRun:
        try:
            self._follow((self._shared / "started").exists, boot_deadline_s, "the guest to boot", self._watch_boot)
            boot_s = time.monotonic() - self._began
            self._follow(lambda: False, deadline_s, f"`{shlex.join(self._command)}` to end in the guest")
        finally:
            self._qemu.stop()
        return self._result(boot_s)

    def _watch_boot(self) -> None:
        """A guest that hangs at its start is told from a slow one; what the command does then is its own affair."""
        try:
            self._watch.look(0)
        except HungGuestError as error:
            error.evidence.update(self._evidence())
            raise

    def _follow(
        self, done: Callable[[], bool], deadline_s: float, awaited: str, look: Callable[[], None] = lambda: None
    ) -> None:
        """Pass the output on until done, or QEMU has ended."""
        end = time.monotonic() + deadline_s
        while not done():
            ended = _ended(self._qemu, _LOOK_S)
            for output in self._outputs:
                output.pump()
            if ended:
                return
            look()
            if time.monotonic() >= end:
                raise DeadlineError(
                    f"waited {deadline_s:g} s for {awaited}; QEMU (pid {self._qemu.pid}) still ran, and was killed",
                    evidence=self._evidence(),
                )

    def _result(self, boot_s: float) -> GuestRun:
        status = self._shared / "status"
        if not status.exists() or not status.read_text(encoding="ascii").strip():
            raise TestbedError(
                f"the guest ended without the status of `{shlex.join(self._command)}`; "
                f"QEMU {describe_exit(self._qemu.popen.returncode)}",
                evidence=self._evidence(),
            )
        stdout, stderr = (output.text() for output in self._outputs)
        number = int(status.read_text(encoding="ascii"))
        elapsed_s = time.monotonic() - self._began
        return GuestRun(self._command, number, stdout, stderr, self._machine.time, boot_s, elapsed_s, self._shared)

    def _evidence(self) -> dict[str, str]:
        texts = {"console": tail(self._console, _CONSOLE_LINES), "QEMU": self._qemu.log_tail()}
        return texts | {output.path.name: tail(output.path) for output in self._outputs}


class _Follower:
    """Passes on what is appended to a file."""

    def __init__(self, path: Path, stream: TextIO | None) -> None:
        self.path = path
        self._stream = stream
        self._seen = 0

    def pump(self) -> None:
        if self._stream is None:
            return
        with self.path.open("rb") as file:
            file.seek(self._seen)
            fresh = file.read()
        self._seen += len(fresh)
        self._stream.write(fresh.decode(errors="replace"))
        self._stream.flush()

    def text(self) -> str:
        return self.path.read_text(encoding="utf-8", errors="replace")


def _ended(process: ManagedProcess, within_s: float) -> bool:
    try:
        process.popen.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True
