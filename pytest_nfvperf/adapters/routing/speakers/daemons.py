"""The processes of one speaker: journaled, in one namespace, with one private directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.journal.journal import Journal, Kind
from pytest_nfvperf.adapters.process.process import ManagedProcess, run, spawn, tail, wait_until
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.model.errors import ConfigError, TestbedError

NICE = -10
"""Of each daemon's session. Where they share a CPU with the generator (-15), one with the usual priority waits 80 ms
before it runs at each step from a neighbour's message to a flow, and BFD's 900 ms are soon over. With this they run at
once, and take from the generator what they need: skipped frames, which are counted."""

BULK_DEADLINE_S = 60.0
"""For what may be about 100,000 prefixes."""
_START_DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that stays in the foreground. ``socket``: where it answers, relative to the directory, if it does."""

    name: str
    argv: tuple[str, ...]
    socket: str | None = None


class Daemons:
    """Starts them in the order given, and ends them in the other."""

    def __init__(
        self,
        journal: Journal,
        namespace: str,
        role: str,
        *,
        cpus: Sequence[int] = (),
        nice: int | None = NICE,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Make the directory.

        Args:
            journal: of this run.
            namespace: under /run/netns.
            role: names the directory; two speakers of a run need two.
            cpus: that they may run on; all when empty.
            nice: of each one's session; None for ours.
            env: variables added to ours.
        """
        self.directory = journal.directory / role
        self._journal = journal
        self._namespace = namespace
        self._cpus = cpus
        self._nice = nice
        self._env = env
        self._wanted: dict[str, Daemon] = {}
        self._running: dict[str, ManagedProcess] = {}
        self._entry = journal.note(Kind.DIRECTORY, str(self.directory))
        self.directory.mkdir()

    def start(self, daemon: Daemon) -> ManagedProcess:
        """Start one; its output goes to NAME.log."""
        self._wanted[daemon.name] = daemon
        if daemon.socket is not None:
            (self.directory / daemon.socket).unlink(missing_ok=True)  # of one that was killed: nobody listens there
        process = self._running[daemon.name] = spawn(
            self._journal,
            daemon.name,
            daemon.argv,
            log=self.directory / f"{daemon.name}.log",
            netns=self._namespace,
            cpus=self._cpus,
            nice=self._nice,
            env=self._env,
        )
        return process

    def await_answer(self, name: str, ask: Callable[[], object]) -> None:
        """Wait until a daemon that was started answers. ``ask``: raises TestbedError as long as it does not."""

        def answers() -> bool:
            self.check()
            try:
                ask()
            except TestbedError:
                return False
            return True

        wait_until(answers, f"{name} to answer", _START_DEADLINE_S)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Around a command: when it fails, say that a daemon died or is stopped, or what the logs have."""
        try:
            yield
        except TestbedError as error:
            self.check()
            error.evidence.update(self.logs())
            raise

    def start_missing(self) -> list[str]:
        """Start those again that have ended; their names."""
        missing = [name for name in self._wanted if not self._running[name].running()]
        for name in missing:
            self._running[name].stop()  # it has ended: this forgets it
            self.start(self._wanted[name])
        return missing

    def pids(self) -> dict[str, int]:
        """Process ids by name, of those that run."""
        return {name: process.pid for name, process in self._running.items() if process.running()}

    def check(self) -> None:
        """TestbedError, with the end of its log, for one that has ended or is stopped."""
        for name, process in self._running.items():
            try:
                process.check()
            except TestbedError as error:
                error.evidence.update(self.logs())
                raise
            if is_stopped(process.pid):
                raise TestbedError(
                    f"{name} (pid {process.pid}) is stopped (SIGSTOP): it neither speaks nor answers",
                    evidence=self.logs(),
                )

    def logs(self) -> Mapping[str, str]:
        """The ends of their logs."""
        return {path.name: tail(path) for path in sorted(self.directory.glob("*.log"))}

    def close(self) -> None:
        """End all and remove the directory. Can be called twice."""
        for process in reversed(self._running.values()):
            if is_stopped(process.pid):
                process.kill()  # it would not hear of SIGTERM before the deadline
            else:
                process.stop()
        self._running.clear()
        self._wanted.clear()
        self._journal.discard(self.directory, self._entry)


def is_stopped(pid: int) -> bool:
    """True for a process that SIGSTOP stopped (proc_pid_stat(5), state T)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"


def checked_configuration(name: str, argv: Sequence[str]) -> str:
    """Have a daemon check its configuration; what it printed.

    Raises:
        ConfigError: it refuses it, with the daemon's own words.
    """
    try:
        return run(argv, deadline_s=BULK_DEADLINE_S)
    except TestbedError as error:
        raise refusal(name, error.evidence.get("stderr", "").strip() or error.message) from error


def refusal(name: str, words: str) -> ConfigError:
    """The error for a configuration that a daemon does not take."""
    return ConfigError(f"{name} refuses the configuration made for it: {words}")


def executable(name: str, directories: Sequence[str]) -> str:
    """The path of a daemon; TestbedError that says which package has it."""
    for directory in directories:
        path = Path(directory) / name
        if os.access(path, os.X_OK):
            return str(path)
    raise TestbedError(f"{name} is not installed (looked in {', '.join(directories)}): {install_hint(name)}")
