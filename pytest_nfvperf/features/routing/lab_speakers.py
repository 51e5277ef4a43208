"""BGP speakers that a lab runs already: FRR or BIRD, changed for a test and left as they were."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from pytest_nfvperf.adapters.journal.journal import Entry, Journal, Kind, ProcessId
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.features.routing.bird import BirdControl, bfd_status, bird_session_state, server_time
from pytest_nfvperf.features.routing.daemons import await_session, is_stopped
from pytest_nfvperf.features.routing.frr import Vty, frr_session_state, static_route
from pytest_nfvperf.features.routing.model import (
    BfdTimers,
    Neighbor,
    SessionCondition,
    SessionState,
    SpeakerConfig,
    SpeakerInfo,
    family_of,
)
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from pytest_nfvperf.model.testbed.testbed import LabSpeaker

# Which process listens on the socket of a lab's daemon.

_DYING_S = 0.5
_CREDENTIALS = struct.Struct("=3i")  # struct ucred, unix(7): pid, uid, gid


class LabProcess:
    """A daemon that is not ours: it is looked at and never ended.

    Args:
        name: of the daemon.
        path: its socket.
        advice: for who reads that nobody is there.

    Raises:
        TestbedError: nobody listens there.
    """

    def __init__(self, name: str, path: Path, advice: str) -> None:
        self.name = name
        self._path = path
        try:
            self._identity = ProcessId.of(_listener(path))
        except OSError as error:
            raise TestbedError(f"no {name} listens on {path}: {error.strerror}; {advice}") from error

    @property
    def pid(self) -> int | None:
        """None when it has ended, or is the child of who opened the socket: then nobody tells."""
        return self._identity.pid if self._identity is not None and self._identity.alive() else None

    def check(self) -> None:
        pid = self.pid
        if pid is not None and is_stopped(pid):
            raise TestbedError(f"{self.name} (pid {pid}), which is not ours, is stopped (SIGSTOP)")
        try:
            _listener(self._path)
        except OSError as error:
            raise TestbedError(
                f"{self.name} at {self._path}, which is not ours, has ended ({error.strerror}): start it again"
            ) from error

    def check_after_error(self) -> None:
        """``check``, when a connection to it broke: one that dies may listen for a moment longer than it answers."""
        self.check()
        with suppress(DeadlineError):
            wait_until(lambda: not listens(self._path), f"{self.name} to listen no longer", _DYING_S)
        self.check()


def listens(path: Path) -> bool:
    """True when somebody does."""
    try:
        _listener(path)
    except OSError:
        return False
    return True


def _listener(path: Path) -> int:
    """The pid of who called listen(2) there (unix(7), SO_PEERCRED)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.connect(str(path))
        pid, _, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(pid)


# Withdrawal by the journal's entry, also after kill -9. A daemon that restarted since has forgotten the prefix itself.


def note_announcement(journal: Journal, prefix: str, daemon: str, socket: Path, undo: Sequence[str]) -> Entry:
    """Note it before it is announced. ``undo``: commands that take it back."""
    return journal.note(Kind.ANNOUNCED, prefix, daemon=daemon, socket=str(socket), undo=list(undo))


def take_back(entry: Entry) -> bool:
    """Give the commands; False when the daemon is gone.

    Raises:
        TestbedError: it does not answer, or refuses.
    """
    socket, daemon = Path(entry.details["socket"]), str(entry.details["daemon"])
    if not listens(socket):
        return False
    commands: list[str] = entry.details["undo"]
    if daemon == "bird":
        control = BirdControl(socket)
        try:
            for command in commands:
                control.run(command)
        finally:
            control.close()
        return True
    vty = Vty(socket, daemon)
    try:
        vty.run(*commands)
    finally:
        vty.close()
    return True


class Announced:
    """Announcements of one daemon that are ours, by prefix; ``take_back`` ends those of a prefix, the last first."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: dict[str, list[Entry]] = {}

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Announced by us now."""
        return tuple(self._entries)

    def note(self, prefix: str, daemon: str, socket: Path, undo: Sequence[str]) -> None:
        """Before it is announced."""
        entry = note_announcement(self._journal, prefix, daemon, socket, undo)
        self._entries.setdefault(prefix, []).append(entry)

    def take_back(self, prefix: str) -> None:
        """If it is ours; TestbedError when the daemon does not answer."""
        entries = self._entries.get(prefix, [])
        while entries:
            take_back(entries[-1])
            self._journal.forget(entries.pop())
        self._entries.pop(prefix, None)


# FRR announces a prefix by a ``network`` statement and a blackhole route: bgpd announces only what is in its table
# (``bgp network import-check``). The route goes to staticd, or to mgmtd where that runs (FRR 9 and newer).


class LabFrr:
    """Fulfils lab_speaker.LabEngine: FRR by the directory of its ``*.vty`` sockets.

    Args:
        spec: which one.

    Raises:
        TestbedError: bgpd does not listen there, or has no instance.
    """

    name = "FRR"

    def __init__(self, spec: LabSpeaker) -> None:
        self._speaker = spec.name
        self._directory = Path(spec.socket)
        advice = f"is FRR running, and is its directory right? (speaker {spec.name!r} of the testbed file)"
        self.process = LabProcess("bgpd", self._directory / "bgpd.vty", advice)
        self._routes = "mgmtd" if (self._directory / "mgmtd.vty").exists() else "staticd"
        self._vtys = {name: Vty(self._directory / f"{name}.vty", name) for name in ("bgpd", self._routes)}
        try:
            self.config = self._discover()
        except BaseException:
            self._vtys["bgpd"].close()
            raise

    def _discover(self) -> SpeakerConfig:
        summary = self._ask("show bgp summary json")
        families = [family for family in summary.values() if isinstance(family, dict) and family.get("as")]
        if not families:
            raise TestbedError(f"bgpd of speaker {self._speaker!r} has no neighbour: there is no session to watch")
        peers = self._ask("show bgp neighbors json")
        neighbors = tuple(
            Neighbor(address, told["remoteAs"], bfd=_bfd(told))
            for address, told in peers.items()
            if isinstance(told, dict) and told.get("remoteAs")
        )
        return SpeakerConfig(families[0]["as"], families[0]["routerId"], neighbors)

    def version(self) -> str:
        return self._vtys["bgpd"].run("show version").split()[1]

    def session(self, neighbor: str) -> SessionState:
        known = self.config.neighbor(neighbor)
        return frr_session_state(known, self._ask(f"show bgp neighbors {neighbor} json").get(neighbor, {}), "")

    def _ask(self, command: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = json.loads(self._run("bgpd", command))
        return answer

    def _run(self, daemon: str, *commands: str) -> str:
        try:
            return self._vtys[daemon].run(*commands)
        except TestbedError:
            self.process.check_after_error()  # that it died, or is stopped, says more
            raise

    def announce(self, prefix: str, announced: Announced) -> None:
        """A route and a ``network`` statement.

        Raises:
            ConfigError: it is in FRR's own configuration.
        """
        self._refuse_theirs(prefix)
        family = f"address-family {family_of(prefix)} unicast"
        self._configure(announced, self._routes, prefix, (), static_route(prefix))
        self._configure(announced, "bgpd", prefix, (f"router bgp {self.config.asn}", family), f"network {prefix}")

    def _refuse_theirs(self, prefix: str) -> None:
        for daemon in (self._routes, "bgpd"):
            for line in self._run(daemon, "show running-config").splitlines():
                words = line.split()
                if prefix in words and (words[0] == "network" or words[1] == "route"):
                    raise ConfigError(
                        f"speaker {self._speaker!r} has {line.strip()!r} in its own configuration, which is left "
                        "alone: announce another prefix"
                    )

    def _configure(self, announced: Announced, daemon: str, prefix: str, within: Sequence[str], line: str) -> None:
        commands = [("configure terminal", *within, statement, "end") for statement in (line, f"no {line}")]
        announced.note(prefix, daemon, self._directory / f"{daemon}.vty", commands[1])
        self._run(daemon, *commands[0])

    def close(self) -> None:
        for vty in self._vtys.values():
            vty.close()


def _bfd(told: Mapping[str, Any]) -> BfdTimers | None:
    found = told.get("peerBfdInfo")
    if not isinstance(found, dict):
        return None
    return BfdTimers(found.get("txMinInterval", BfdTimers().interval_ms), found.get("detectMultiplier", 3))


# BIRD takes no routes at run time, but it can enable and disable protocols. So it can announce only the prefixes of
# static protocols in its own configuration, which the testbed file names (``announces``).

_FIELD = re.compile(r"^\s+(Neighbor address|Neighbor AS|Local AS):\s+(\S+)")
_SCOPE = "%"
"""Before the interface in the address of a neighbour that is link-local."""


class LabBird:
    """Fulfils lab_speaker.LabEngine: BIRD by its control socket.

    Args:
        spec: which one.

    Raises:
        ConfigError: it has no protocol of a name that the testbed file says.
        TestbedError: it does not listen there, or has no BGP protocol.
    """

    name = "BIRD"

    def __init__(self, spec: LabSpeaker) -> None:
        self._speaker = spec.name
        self._socket = Path(spec.socket)
        advice = f"is BIRD running, and is this its control socket? (speaker {spec.name!r} of the testbed file)"
        self.process = LabProcess("bird", self._socket, advice)
        self._control = BirdControl(self._socket)
        self._can = dict(spec.announces)
        self._protocols: dict[str, str] = {}
        try:
            self.config = self._discover()
            self._refuse_unknown()
        except BaseException:
            self._control.close()
            raise

    def _discover(self) -> SpeakerConfig:
        asn, neighbors = 0, []
        for name in self._names("BGP"):
            lines = self._run(f"show protocols all {name}")
            told = {found[1]: found[2] for line in lines if (found := _FIELD.match(line))}
            address = told["Neighbor address"].partition(_SCOPE)[0]
            asn = int(told["Local AS"])
            self._protocols[address] = name
            neighbors.append(Neighbor(address, int(told["Neighbor AS"]), bfd=self._bfd(address)))
        if not neighbors:
            raise TestbedError(f"BIRD of speaker {self._speaker!r} has no BGP protocol: there is no session to watch")
        (router_id,) = (line.split()[-1] for line in self._run("show status") if line.startswith("Router ID"))
        return SpeakerConfig(asn, router_id, tuple(neighbors))

    def _names(self, kind: str) -> Iterator[str]:
        for line in self._run("show protocols"):
            words = line.split()
            if len(words) > 1 and words[1] == kind:
                yield words[0]

    def _bfd(self, address: str) -> BfdTimers | None:
        """What it runs with is not told while it is down; that there is one is."""
        rows = (line.split() for line in self._run("show bfd sessions"))
        return BfdTimers() if any(words and words[0] == address for words in rows) else None

    def _refuse_unknown(self) -> None:
        there = set(self._names("Static"))
        for prefix, protocol in self._can.items():
            if protocol not in there:
                raise ConfigError(
                    f"BIRD of speaker {self._speaker!r} has no static protocol {protocol!r} with {prefix}; it has: "
                    f"{', '.join(sorted(there)) or 'none'}",
                    key="speakers",
                )

    def version(self) -> str:
        return self._run("show status")[0].split()[-1]

    def session(self, neighbor: str) -> SessionState:
        """The session with a neighbour; BIRD counts no flaps."""
        known = self.config.neighbor(neighbor)
        lines = self._run(f"show protocols all {self._protocols[neighbor]}")
        bfd = bfd_status(known, self._run("show bfd sessions")) if known.bfd is not None else None
        now = server_time(self._run("show status"))
        return bird_session_state(known, lines, ends=(None, ""), now=now, bfd=bfd)

    def _run(self, command: str) -> list[str]:
        try:
            return self._control.run(command)
        except TestbedError:
            self.process.check_after_error()  # that it died, or is stopped, says more
            raise

    def announce(self, prefix: str, announced: Announced) -> None:
        """Enable its protocol.

        Raises:
            ConfigError: no protocol of the testbed file has it, or it is announced already.
        """
        protocol = self._protocol_for(prefix)
        if self._is_up(protocol):
            raise ConfigError(
                f"BIRD of speaker {self._speaker!r} already announces {prefix} from its own configuration"
            )
        announced.note(prefix, "bird", self._socket, [f"disable {protocol}"])
        self._run(f"enable {protocol}")

    def _protocol_for(self, prefix: str) -> str:
        if prefix not in self._can:
            raise ConfigError(
                f"BIRD of speaker {self._speaker!r} cannot announce {prefix}: name a static protocol of its "
                f"configuration that has it, 'announces: {{{prefix}: PROTOCOL}}', and leave that disabled",
                key="speakers",
            )
        return self._can[prefix]

    def _is_up(self, protocol: str) -> bool:
        rows = (line.split() for line in self._run(f"show protocols {protocol}"))
        return any(words[0] == protocol and words[3] == "up" for words in rows if len(words) > 3)

    def close(self) -> None:
        self._control.close()


# The speaker. It never starts, stops or restarts the lab's daemon, nor touches its files.
# Each announcement is journaled first, made at run time, and withdrawn at the end.


class LabEngine(Protocol):
    """What FRR and BIRD do in ways of their own.

    ``name``: of the engine. ``process``: the daemon that has the sessions. ``config``: as the daemon tells it.
    """

    name: str
    process: LabProcess
    config: SpeakerConfig

    def version(self) -> str:
        """As the daemon says."""
        ...

    def session(self, neighbor: str) -> SessionState:
        """The session with a neighbour; KeyError for an unknown one."""
        ...

    def announce(self, prefix: str, announced: Announced) -> None:
        """Announce one more; ``announced`` is told before how to take it back.

        Raises:
            ConfigError: the daemon has it in its own configuration, or cannot announce it.
        """
        ...

    def close(self) -> None:
        """Hang up."""
        ...


class LabBgpSpeaker:
    """FRR or BIRD by its sockets.

    Args:
        journal: of this run: what is announced is noted before.
        spec: which one.

    Raises:
        ConfigError: it lacks what the testbed file names.
        TestbedError: it does not listen there, or has no session to watch.
    """

    def __init__(self, journal: Journal, spec: LabSpeaker) -> None:
        self._name = spec.name
        self._engine: LabEngine = LabFrr(spec) if spec.engine == "frr" else LabBird(spec)
        self._announced = Announced(journal)
        self.config = self._engine.config

    def info(self) -> SpeakerInfo:
        return SpeakerInfo(self._engine.name, self._engine.version(), (self._engine.process.name,))

    def start(self) -> None:
        """It runs already; TestbedError when it does not."""
        self.check()

    def session(self, neighbor: str) -> SessionState:
        return self._engine.session(neighbor)

    def await_session(
        self, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
    ) -> SessionState:
        return await_session(self, neighbor, condition, awaited, deadline_s)

    def announce(self, prefixes: Sequence[str]) -> None:
        """Until ``withdraw`` or ``close``.

        Raises:
            ConfigError: the daemon has one in its own configuration, or cannot announce it.
        """
        for prefix in prefixes:
            if prefix not in self._announced.prefixes:
                self._engine.announce(prefix, self._announced)
        self.config = self.config.announcing(self._announced.prefixes)

    def withdraw(self, prefixes: Sequence[str]) -> None:
        """What we announced; the daemon's own announcements stay."""
        for prefix in prefixes:
            self._announced.take_back(prefix)
        self.config = self.config.announcing(self._announced.prefixes)

    def pids(self) -> Mapping[str, int]:
        process = self._engine.process
        return {} if process.pid is None else {process.name: process.pid}

    def restart(self) -> None:
        """TestbedError: it is not ours."""
        who = f"{self._engine.name} of speaker {self._name!r}"
        raise TestbedError(f"{who} belongs to somebody else: nfvperf does not restart it")

    def check(self) -> None:
        self._engine.process.check()

    def logs(self) -> Mapping[str, str]:
        """Where they are is not known."""
        return {}

    def close(self) -> None:
        """Take back what we announced. Can be called twice."""
        self.withdraw(self._announced.prefixes)
        self._engine.close()
