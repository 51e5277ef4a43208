"""Routing daemons in namespaces: their processes, control sockets, logs, and waits for their sessions."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pytest_nfvperf.adapters.process.journal import Journal, Kind
from pytest_nfvperf.adapters.process.process import ManagedProcess, process_state, run, spawn, tail, wait_until
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.features.routing.model import BfdStatus
from pytest_nfvperf.features.routing.ports import BgpSpeaker
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.ports.datapath import SamplerReading

NICE = -10
"""Priority of the daemons. At the usual one, a daemon that shares a CPU with the generator (-15) waits 80 ms at each
step from a neighbour's message to a flow, and BFD's 900 ms soon pass. At this one daemons run at once. They take CPU
time from the generator, which then skips frames; those are counted."""

BULK_DEADLINE_S = 60.0
"""For operations on up to about 100,000 prefixes."""
ANSWER_DEADLINE_S = 2.0
_START_DEADLINE_S = 10.0


class ControlSocket:
    """A connection to a daemon's Unix socket, opened when first used, and again after an error.

    Args:
        path: the socket.
        daemon: its name, for messages.
        greet: called with each new connection.
    """

    def __init__(self, path: Path, daemon: str, greet: Callable[[socket.socket], object]) -> None:
        self._path = path
        self.daemon = daemon
        self._greet = greet
        self._socket: socket.socket | None = None

    @contextmanager
    def opened(self, deadline_s: float) -> Iterator[socket.socket]:
        """The connection, for one exchange. ``deadline_s``: for each send and receive.

        Raises:
            TestbedError: nobody answers, or not in time.
        """
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
                self._socket.settimeout(deadline_s)
                self._socket.connect(str(self._path))
                self._greet(self._socket)
            self._socket.settimeout(deadline_s)
            yield self._socket
        except OSError as error:
            self.close()
            why = f"no answer within {deadline_s:g} s" if isinstance(error, TimeoutError) else str(error)
            raise TestbedError(f"{self.daemon} does not answer on {self._path}: {why}") from error
        except TestbedError:
            raise  # the daemon answered, and refused
        except BaseException:
            self.close()  # a signal handler interrupted the exchange: the pending answer fits no later command
            raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class RoutingDaemons:
    """The processes of one speaker: journaled, in one namespace, with one private directory.

    Args:
        journal: of this run.
        namespace: under /run/netns.
        role: names the directory; two speakers of a run need two.
        cpus: that they may run on; all when empty.
        nice: of each daemon's session; None: as this process.
        env: added to this process's environment.
    """

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
        self.directory = journal.directory / role
        self._journal = journal
        self._spawn = partial(spawn, journal, netns=namespace, cpus=cpus, nice=nice, env=env)
        self._wanted: dict[str, tuple[tuple[str, ...], str | None]] = {}
        self._running: dict[str, ManagedProcess] = {}
        self._entry = journal.note(Kind.DIRECTORY, str(self.directory))
        self.directory.mkdir()

    def run_daemon(self, name: str, argv: tuple[str, ...], socket: str | None = None) -> ManagedProcess:
        """Start one that stays in the foreground; its output goes to NAME.log. ``socket``: in the directory, if any."""
        self._wanted[name] = argv, socket
        if socket is not None:
            (self.directory / socket).unlink(missing_ok=True)  # left by a killed daemon: nobody listens there
        process = self._running[name] = self._spawn(name, argv, log=self.directory / f"{name}.log")
        return process

    def await_answer(self, name: str, ask: Callable[[], object]) -> None:
        """Wait until a started daemon answers. ``ask``: raises TestbedError while it does not."""

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
        """Around a command: if it fails, report a dead or stopped daemon instead, or add the logs as evidence."""
        try:
            yield
        except TestbedError as error:
            self.check()
            error.evidence.update(self.logs())
            raise

    def start_missing(self) -> list[str]:
        """Start the ended daemons again; returns their names."""
        missing = [name for name in self._wanted if not self._running[name].running()]
        for name in missing:
            self._running[name].stop()  # it has ended: this removes it from the journal
            self.run_daemon(name, *self._wanted[name])
        return missing

    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._running.items() if process.running()}

    def check(self) -> None:
        """Raise TestbedError, with the ends of the logs, for a daemon that has ended or is stopped."""
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
        return {path.name: tail(path) for path in sorted(self.directory.glob("*.log"))}

    def close(self) -> None:
        for process in reversed(self._running.values()):
            if is_stopped(process.pid):
                process.kill()  # a stopped process handles no SIGTERM
            else:
                process.stop()
        self._running.clear()
        self._wanted.clear()
        self._journal.discard(self.directory, self._entry)


def is_stopped(pid: int) -> bool:
    return process_state(pid).startswith("T")


def check_configuration(name: str, argv: Sequence[str]) -> str:
    """Have a daemon check its configuration; returns its output. ConfigError has the daemon's words."""
    try:
        return run(argv, deadline_s=BULK_DEADLINE_S)
    except TestbedError as error:
        raise configuration_refused(name, error.evidence.get("stderr", "").strip() or error.message) from error


def configuration_refused(name: str, words: str) -> ConfigError:
    return ConfigError(f"{name} refuses the configuration made for it: {words}")


def executable(name: str, directories: Sequence[str]) -> str:
    """The path of a daemon; if it is not installed, a TestbedError names its package."""
    found = shutil.which(name, path=os.pathsep.join(directories))
    if found is None:
        raise TestbedError(f"{name} is not installed (looked in {', '.join(directories)}): {install_hint(name)}")
    return found


class NewLines:
    """Complete lines of a log since the last read.

    Logs say why a session went down: once it is up again its daemon no longer reports the reason.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = 0

    def read(self) -> list[str]:
        if not self._log.exists():
            return []
        with self._log.open("rb") as log:
            log.seek(self._offset)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.decode(errors="replace").splitlines()


class SessionSampler:
    """Reads sessions during a soak: for each neighbour ``.up``, ``.flaps`` and prefixes, and ``.up`` of its BFD.

    Fulfils ports.datapath.Sampler. A dead or stopped daemon is a reading: its sessions are down. A daemon that does not
    answer gives no reading.

    Args:
        speaker: returns the current speaker: a topology that is built again has another one.
        of: prefix of all names, where several speakers are sampled: ``dut.bgp.12.12.12.2.up``.
    """

    def __init__(self, speaker: Callable[[], BgpSpeaker], of: str = "") -> None:
        self.name = f"bgp of {of}" if of else "bgp"
        self._of = f"{of}." if of else ""
        self._speaker = speaker

    def read(self) -> SamplerReading:
        speaker = self._speaker()
        neighbors = [neighbor.address for neighbor in speaker.config.neighbors]
        try:
            speaker.check()
        except TestbedError:
            return SamplerReading(gauges={f"{self._of}bgp.{neighbor}.up": 0.0 for neighbor in neighbors})
        counters: dict[str, int] = {}
        gauges: dict[str, float] = {}
        for neighbor in neighbors:
            state = speaker.session(neighbor)
            session = f"{self._of}bgp.{neighbor}"
            gauges[f"{session}.up"] = float(state.established)
            if state.flaps is not None:
                counters[f"{session}.flaps"] = state.flaps
            if state.received is not None:
                gauges[f"{session}.prefixes"] = float(state.received)
            if state.bfd is not None:
                gauges[f"{self._of}bfd.{neighbor}.up"] = float(state.bfd is BfdStatus.UP)
        return SamplerReading(counters, gauges)
