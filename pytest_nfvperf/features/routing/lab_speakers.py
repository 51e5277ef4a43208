"""BGP speakers that a lab already runs: FRR or BIRD. A test may announce by them; the end takes it back."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.process.journal import Entry, Journal, Kind, ProcessId
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.features.routing.bird import BirdControl, bird_session
from pytest_nfvperf.features.routing.daemons import is_stopped
from pytest_nfvperf.features.routing.frr import Vty, frr_session, static_route
from pytest_nfvperf.features.routing.model import (
    BfdTimers,
    Neighbor,
    SessionState,
    SpeakerConfig,
    SpeakerInfo,
    family_of,
)
from pytest_nfvperf.features.routing.ports import BgpSpeaker
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from pytest_nfvperf.model.testbed.testbed import LabSpeaker

_DYING_S = 0.5
_CREDENTIALS = struct.Struct("=3i")  # struct ucred, unix(7): pid, uid, gid
_FIELD = re.compile(r"^\s+(Neighbor address|Neighbor AS|Local AS):\s+(\S+)")
_SCOPE = "%"
"""Before the interface in the address of a neighbour that is link-local."""

NoteUndo = Callable[[str, Path, Sequence[str]], None]
"""Journals a step before it is made: the daemon, its socket, and the commands that take the step back."""


@contextmanager
def _connected(path: Path) -> Iterator[socket.socket]:
    """A connection to a daemon's socket; OSError if nobody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.connect(str(path))
        yield connection


def _listens(path: Path) -> bool:
    try:
        with _connected(path):
            return True
    except OSError:
        return False


class LabProcess:
    """A lab daemon, watched and never ended. TestbedError, with ``advice``, if nobody listens on ``path``."""

    def __init__(self, name: str, path: Path, advice: str) -> None:
        self.name = name
        self._path = path
        try:
            with _connected(path) as connection:
                peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError as error:
            raise TestbedError(f"no {name} listens on {path}: {error.strerror}; {advice}") from error
        # The process that called listen(2) there (unix(7))
        self._identity = ProcessId.of(int(_CREDENTIALS.unpack(peer)[0]))

    @property
    def pid(self) -> int | None:
        """None if it has ended, or if it inherited the socket: then its pid is unknown."""
        return self._identity.pid if self._identity is not None and self._identity.alive() else None

    def check(self) -> None:
        pid = self.pid
        if pid is not None and is_stopped(pid):
            raise TestbedError(f"{self.name} (pid {pid}), which is not ours, is stopped (SIGSTOP)")
        try:
            with _connected(self._path):
                return
        except OSError as error:
            raise TestbedError(
                f"{self.name} at {self._path}, which is not ours, has ended ({error.strerror}): start it again"
            ) from error

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Around a command: if it fails, report a dead or stopped daemon instead."""
        try:
            yield
        except TestbedError:
            self.check()
            with suppress(DeadlineError):  # a dying daemon may listen for a moment longer than it answers
                wait_until(lambda: not _listens(self._path), f"{self.name} to listen no longer", _DYING_S)
            self.check()
            raise


def withdraw_announcement(entry: Entry) -> bool:
    """Withdraw a prefix by its journal entry, also after kill -9; False if the daemon is gone.

    A daemon that has restarted since then no longer has the prefix.

    Raises:
        TestbedError: the daemon does not answer, or refuses.
    """
    path, daemon = Path(entry.details["socket"]), str(entry.details["daemon"])
    if not _listens(path):
        return False
    commands: list[str] = entry.details["undo"]
    if daemon == "bird":
        with closing(BirdControl(path)) as control:
            for command in commands:
                control.run(command)
    else:
        with closing(Vty(path, daemon)) as vty:
            vty.run(*commands)
    return True


class LabFrr:
    """FRR, by the directory of its ``*.vty`` sockets.

    It announces a prefix by a ``network`` statement and a blackhole route: bgpd announces only what is in its table
    (``bgp network import-check``). The route goes to staticd, or to mgmtd where that runs (FRR 9 and newer).
    """

    name = "FRR"

    def __init__(self, spec: LabSpeaker) -> None:
        self._speaker = spec.name
        self._directory = Path(spec.socket)
        advice = f"is FRR running, and is its directory right? (speaker {spec.name!r} of the testbed file)"
        self.process = LabProcess("bgpd", self._directory / "bgpd.vty", advice)
        self._routes = "mgmtd" if (self._directory / "mgmtd.vty").exists() else "staticd"
        self._vtys = {name: Vty(self._directory / f"{name}.vty", name) for name in ("bgpd", self._routes)}
        self.config: SpeakerConfig

    def discover(self) -> None:
        """Read ``config`` from the daemon."""
        summary = self._ask("show bgp summary json")
        families = [family for family in summary.values() if isinstance(family, dict) and family.get("as")]
        if not families:
            raise TestbedError(f"bgpd of speaker {self._speaker!r} has no neighbour: there is no session to watch")
        neighbors = tuple(
            Neighbor(address, peer["remoteAs"], bfd=_bfd(peer))
            for address, peer in self._ask("show bgp neighbors json").items()
            if isinstance(peer, dict) and peer.get("remoteAs")
        )
        self.config = SpeakerConfig(families[0]["as"], families[0]["routerId"], neighbors)

    def version(self) -> str:
        return self._vtys["bgpd"].run("show version").split()[1]

    def session(self, neighbor: str) -> SessionState:
        return frr_session(self._ask, self.config.neighbor(neighbor))

    def _ask(self, command: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = json.loads(self._run("bgpd", command))
        return answer

    def _run(self, daemon: str, *commands: str) -> str:
        with self.process.explaining():
            return self._vtys[daemon].run(*commands)

    def announce(self, prefix: str, note: NoteUndo) -> None:
        for daemon in (self._routes, "bgpd"):
            for line in self._run(daemon, "show running-config").splitlines():
                words = line.split()
                if prefix in words and (words[0] == "network" or words[1] == "route"):
                    raise ConfigError(
                        f"speaker {self._speaker!r} has {line.strip()!r} in its own configuration, which is left "
                        "alone: announce another prefix"
                    )
        router = (f"router bgp {self.config.asn}", f"address-family {family_of(prefix)} unicast")
        route, network = static_route(prefix), f"network {prefix}"
        for daemon, within, line in ((self._routes, (), route), ("bgpd", router, network)):
            do, undo = (("configure terminal", *within, statement, "end") for statement in (line, f"no {line}"))
            note(daemon, self._directory / f"{daemon}.vty", undo)
            self._run(daemon, *do)

    def close(self) -> None:
        for vty in self._vtys.values():
            vty.close()


def _bfd(peer: Mapping[str, Any]) -> BfdTimers | None:
    found = peer.get("peerBfdInfo")
    if not isinstance(found, dict):
        return None
    return BfdTimers(found.get("txMinInterval", BfdTimers().interval_ms), found.get("detectMultiplier", 3))


class LabBird:
    """BIRD, by its control socket.

    BIRD accepts no routes at run time, but it can enable and disable protocols. So it can announce only the prefixes of
    static protocols in its own configuration, which the testbed file names (``announces``).
    """

    name = "BIRD"

    def __init__(self, spec: LabSpeaker) -> None:
        self._speaker = spec.name
        self._socket = Path(spec.socket)
        advice = f"is BIRD running, and is this its control socket? (speaker {spec.name!r} of the testbed file)"
        self.process = LabProcess("bird", self._socket, advice)
        self._control = BirdControl(self._socket)
        self.close = self._control.close
        self._static_protocols = dict(spec.announces)  # by prefix
        self._protocols: dict[str, str] = {}  # by address of the neighbour
        self.config: SpeakerConfig

    def discover(self) -> None:
        """Read ``config`` from the daemon, and check that it has the protocols of the testbed file."""
        asn, neighbors = 0, []
        for name in self._names("BGP"):
            lines = self._run(f"show protocols all {name}")
            fields = {found[1]: found[2] for line in lines if (found := _FIELD.match(line))}
            address = fields["Neighbor address"].partition(_SCOPE)[0]
            asn = int(fields["Local AS"])
            self._protocols[address] = name
            # While a session is down BIRD does not report its BFD timers, only that it has BFD.
            rows = (line.split() for line in self._run("show bfd sessions"))
            bfd = BfdTimers() if any(words and words[0] == address for words in rows) else None
            neighbors.append(Neighbor(address, int(fields["Neighbor AS"]), bfd=bfd))
        if not neighbors:
            raise TestbedError(f"BIRD of speaker {self._speaker!r} has no BGP protocol: there is no session to watch")
        (router_id,) = (line.split()[-1] for line in self._run("show status") if line.startswith("Router ID"))
        self.config = SpeakerConfig(asn, router_id, tuple(neighbors))
        there = set(self._names("Static"))
        for prefix, protocol in self._static_protocols.items():
            if protocol not in there:
                raise ConfigError(
                    f"BIRD of speaker {self._speaker!r} has no static protocol {protocol!r} with {prefix}; it has: "
                    f"{', '.join(sorted(there)) or 'none'}",
                    key="speakers",
                )

    def _names(self, kind: str) -> Iterator[str]:
        for line in self._run("show protocols"):
            words = line.split()
            if len(words) > 1 and words[1] == kind:
                yield words[0]

    def version(self) -> str:
        return self._run("show status")[0].split()[-1]

    def session(self, neighbor: str) -> SessionState:
        known = self.config.neighbor(neighbor)
        return bird_session(self._run, known, self._protocols[neighbor])

    def _run(self, command: str) -> list[str]:
        with self.process.explaining():
            return self._control.run(command)

    def announce(self, prefix: str, note: NoteUndo) -> None:
        if prefix not in self._static_protocols:
            raise ConfigError(
                f"BIRD of speaker {self._speaker!r} cannot announce {prefix}: name a static protocol of its "
                f"configuration that has it, 'announces: {{{prefix}: PROTOCOL}}', and leave that disabled",
                key="speakers",
            )
        protocol = self._static_protocols[prefix]
        rows = (line.split() for line in self._run(f"show protocols {protocol}"))
        if any(words[0] == protocol and words[3] == "up" for words in rows if len(words) > 3):
            raise ConfigError(
                f"BIRD of speaker {self._speaker!r} already announces {prefix} from its own configuration"
            )
        note("bird", self._socket, [f"disable {protocol}"])
        self._run(f"enable {protocol}")


class LabBgpSpeaker(BgpSpeaker):
    """FRR or BIRD by its sockets. It never starts, stops or restarts the lab's daemon, nor touches its files.

    Announcements are made at run time, and taken back by ``withdraw`` or ``close``. ``announce`` raises ConfigError
    for a prefix that the daemon has in its own configuration, or cannot announce.

    Args:
        journal: of this run.
        spec: of the testbed file.

    Raises:
        ConfigError: the speaker lacks what the testbed file names.
        TestbedError: the speaker does not listen there, or has no session to watch.
    """

    def __init__(self, journal: Journal, spec: LabSpeaker) -> None:
        self._name = spec.name
        self._journal = journal
        self._entries: dict[str, list[Entry]] = {}  # of each prefix that this run announces
        self._engine = LabFrr(spec) if spec.engine == "frr" else LabBird(spec)
        with ExitStack() as undo:
            undo.callback(self._engine.close)
            self._engine.discover()
            undo.pop_all()
        self.config = self._engine.config

    def start(self) -> None:
        self.check()

    def session(self, neighbor: str) -> SessionState:
        return self._engine.session(neighbor)

    def check(self) -> None:
        self._engine.process.check()

    def info(self) -> SpeakerInfo:
        return SpeakerInfo(self._engine.name, self._engine.version(), (self._engine.process.name,))

    def announce(self, prefixes: Sequence[str]) -> None:
        for prefix in prefixes:
            if prefix not in self._entries:
                self._engine.announce(prefix, partial(self._note, prefix))
        self.config = self.config.announcing(tuple(self._entries))

    def _note(self, prefix: str, daemon: str, path: Path, undo: Sequence[str]) -> None:
        entry = self._journal.note(Kind.ANNOUNCED, prefix, daemon=daemon, socket=str(path), undo=list(undo))
        self._entries.setdefault(prefix, []).append(entry)

    def withdraw(self, prefixes: Sequence[str]) -> None:
        """Take back prefixes of this run; the daemon's own announcements stay."""
        for prefix in prefixes:
            entries = self._entries.get(prefix, [])
            while entries:  # the last step first
                withdraw_announcement(entries[-1])
                self._journal.forget(entries.pop())
            self._entries.pop(prefix, None)
        self.config = self.config.announcing(tuple(self._entries))

    def pids(self) -> Mapping[str, int]:
        process = self._engine.process
        return {} if process.pid is None else {process.name: process.pid}

    def restart(self) -> None:
        who = f"{self._engine.name} of speaker {self._name!r}"
        raise TestbedError(f"{who} belongs to somebody else: nfvperf does not restart it")

    def close(self) -> None:
        self.withdraw(tuple(self._entries))
        self._engine.close()
