"""Routing daemons in namespaces: how they start, what their sessions did, and what is awaited of them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.journal.journal import Journal, Kind
from pytest_nfvperf.adapters.process.process import ManagedProcess, run, spawn, tail, wait_until
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.features.routing.model import BfdStatus, SessionCondition, SessionState
from pytest_nfvperf.features.routing.ports import BgpSpeaker
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from pytest_nfvperf.ports.datapath import SamplerReading

# Waiting for a session of any speaker.

_INTERVAL_S = 0.02


def await_session(
    speaker: BgpSpeaker, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
) -> SessionState:
    """Look until the session is as wanted; a daemon that died or was stopped ends the wait, one that is busy does not.

    Raises:
        DeadlineError: what was awaited, the session as it was last seen, and the ends of the logs.
        TestbedError: a daemon is gone or hangs.
    """
    seen: SessionState | str = "nothing yet"

    def look() -> SessionState | None:
        nonlocal seen
        speaker.check()
        try:
            state = speaker.session(neighbor)
        except TestbedError as error:
            seen = error.message
            return None
        seen = state
        return state if condition(state) else None

    try:
        return wait_until(
            look,
            f"{speaker.info().engine} of AS {speaker.config.asn}: {awaited}",
            deadline_s,
            interval_s=_INTERVAL_S,
            last_seen=lambda: str(seen),
        )
    except DeadlineError as error:
        error.evidence.update(speaker.logs())
        raise


# The processes of one speaker: journaled, in one namespace, with one private directory.

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


class RoutingDaemons:
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
        return {path.name: tail(path) for path in sorted(self.directory.glob("*.log"))}

    def close(self) -> None:
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


# Why sessions went down, from the daemons' logs: once a session is up again its daemon has forgotten the reason.

_BIRD = re.compile(r"<(?:TRACE|RMT|ERR|WARN|BUG)> (\w+): (.+)")
_BIRD_CLOSED = "BGP session closed"
_BIRD_ASIDE = ("Neighbor graceful restart", "State changed")
_FRR_DOWN = re.compile(r"%ADJCHANGE: neighbor ([0-9a-fA-F.:]+)\(.*\) in vrf \S+ Down ?(.*)")


class _NewLines:
    """A log's lines since the last look; it is read once only, however often it is asked."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = 0

    def read(self) -> list[str]:
        """Whole lines."""
        if not self._log.exists():
            return []
        with self._log.open("rb") as log:
            log.seek(self._offset)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.decode(errors="replace").splitlines()


class BirdLog:
    """Counts the ends of sessions, which BIRD does not, by the names of protocols."""

    def __init__(self, log: Path) -> None:
        self._new = _NewLines(log)
        self._before: dict[str, str] = {}
        self._closed: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}

    def ends_of(self, name: str) -> tuple[int, str]:
        """How often a session ended, and why it did last."""
        for line in self._new.read():
            found = _BIRD.search(line)
            if found is not None:
                self._note(found[1], found[2])
        return self._closed[name], self._reasons.get(name, "")

    def _note(self, name: str, event: str) -> None:
        if event == _BIRD_CLOSED:
            self._closed[name] += 1
            self._reasons[name] = self._before.get(name, "")
        elif not event.startswith(_BIRD_ASIDE):
            self._before[name] = event


class FrrLog:
    """bgpd's reasons, by neighbour."""

    def __init__(self, log: Path) -> None:
        self._new = _NewLines(log)
        self._reasons: dict[str, str] = {}

    def reason_of(self, neighbor: str) -> str:
        """Why the session with a neighbour went down last; empty if it did not."""
        for line in self._new.read():
            found = _FRR_DOWN.search(line)
            if found is not None:
                self._reasons[found[1]] = found[2]
        return self._reasons.get(neighbor, "")


# A monitor that reads the sessions once a second during a soak.


class SessionSampler:
    """Fulfils ports.datapath.Sampler: for each neighbour ``.up``, ``.flaps`` and prefixes, and ``.up`` of its BFD.

    A daemon that died or is stopped has no session: that is a reading, while one that does not answer gives none.

    Args:
        speaker: gives the one whose sessions they are: it is another one when a topology was built again meanwhile.
        neighbors: by their addresses; all that are configured if not given.
        of: before all names, where several speakers are sampled: ``dut.bgp.12.12.12.2.up``.
    """

    def __init__(self, speaker: Callable[[], BgpSpeaker], neighbors: Sequence[str] = (), of: str = "") -> None:
        self.name = f"bgp of {of}" if of else "bgp"
        self._of = f"{of}." if of else ""
        self._speaker = speaker
        self._neighbors = tuple(neighbors)

    def read(self) -> SamplerReading:
        """What the daemon says now; TestbedError when it does not answer."""
        speaker = self._speaker()
        neighbors = self._neighbors or tuple(peer.address for peer in speaker.config.neighbors)
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
