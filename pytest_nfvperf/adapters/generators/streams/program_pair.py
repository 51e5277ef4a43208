"""Runs a client program in one namespace against a server in another, whichever program it is."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_nfvperf.adapters.net.threads import namespace_id
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import ManagedProcess, completed, describe_exit, spawn
from pytest_nfvperf.adapters.process.programs import not_installed
from pytest_nfvperf.model.errors import GeneratorError, TestbedError, UnavailableError
from pytest_nfvperf.ports.streams import StreamEnd

_VERSION_DEADLINE_S = 5.0
_LOOK_S = 0.1

GivesUp = Callable[[ManagedProcess], str | None]
"""Called while a client runs: returns what it did wrong, as "did not end within 8 s", or None to let it continue."""


class ProgramPair:
    """An installed program and its runs, one at a time; UnavailableError, with the package, if it is not installed.

    Its text names the program and both ends of the run, for messages.

    Attributes:
        what: the program exchanges, for messages: "requests".
        version: the program and its version, "iperf 2.1.8".
    """

    def __init__(self, journal: Journal, program: str, what: str) -> None:
        path = shutil.which(program)
        if path is None:
            raise UnavailableError(not_installed(program))
        self._path, self._name, self._what, self._journal = path, program, what, journal
        self.version = f"{program} {_version(path)}"
        self._runs = 0
        self._ends: Mapping[str, StreamEnd] = {}
        self._namespaces: Mapping[str, int | None] = {}
        self._files: list[Path] = []
        self._processes: list[ManagedProcess] = []

    @contextmanager
    def between(self, client: StreamEnd, server: StreamEnd) -> Iterator[None]:
        """One run. At its end its processes are killed and its files removed."""
        self._runs += 1
        self._ends = {"client": client, "server": server}
        self._namespaces = {end.namespace: namespace_id(end.namespace) for end in (client, server)}
        try:
            yield
        finally:
            while self._processes:
                self._processes.pop().kill()  # a client whose connects get no answer does not hear SIGTERM
            while self._files:
                self._files.pop().unlink(missing_ok=True)

    def __str__(self) -> str:
        client, server = self._ends["client"], self._ends["server"]
        return f"{self._name} from {client.namespace} to {server.address} in {server.namespace}"

    def file(self, what: str) -> Path:
        """A file in the run directory, removed at the run's end."""
        path = self._journal.directory / f"{self._name}-{self._runs}-{what}"
        self._files.append(path)
        return path

    def start(self, role: str, options: Sequence[str], cpus: tuple[int, ...]) -> ManagedProcess:
        process = spawn(
            self._journal,
            f"{self._name} {role}",
            [self._path, *options],
            log=self.file(role),
            cpus=cpus,
            netns=self._ends[role].namespace,
        )
        self._processes.append(process)
        return process

    def wait_client(self, process: ManagedProcess, gives_up: GivesUp) -> None:
        """Wait for the client's end; errors of ``await_end``, and TestbedError if a namespace was deleted meanwhile."""
        await_end(process, str(self), gives_up)
        # A process keeps its namespace alive though its name was removed: nobody knows where the run went on.
        for name, number in self._namespaces.items():
            if namespace_id(name) != number:
                raise TestbedError(f"network namespace {name} was deleted during the {self._what}")


def _version(path: str) -> str:
    """Such as ``2.1.8``. iperf prints it to standard error and exits with status 1."""
    done = completed([path, "--version"], _VERSION_DEADLINE_S)
    found = re.search(r"version (\S+)", done.stdout + done.stderr)
    if found is None:
        raise TestbedError(f"{path} --version does not say its version", evidence={"stderr": done.stderr})
    return found[1]


def await_end(process: ManagedProcess, what: str, gives_up: GivesUp) -> None:
    """Wait for a client's end; GeneratorError with the end of its log if it failed, or ``gives_up`` says why."""
    wrong, status = None, None
    while wrong is None and status is None:
        try:
            status = process.popen.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            wrong = gives_up(process)
    if status:
        wrong = f"failed: it {describe_exit(status)}"
    if wrong is not None:
        raise GeneratorError(f"{what} {wrong}", evidence={process.name: process.log_tail()})
