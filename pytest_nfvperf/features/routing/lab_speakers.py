"""BGP speakers that a lab already runs: FRR or BIRD. A test may announce by them; the end takes it back."""

from __future__ import annotations

import json
import re
import socket
import struct
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
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


def withdraw_announcement(entry: Entry) -> bool:
    """Withdraw a prefix by its journal entry, also after kill -9; False if the daemon is gone.

    A daemon that has restarted since then no longer has the prefix.

    Raises:
        TestbedError: the daemon does not answer, or refuses.
    """
    path, daemon = Path(entry.details["socket"]), str(entry.details["daemon"])
    if not _listens(path):
        return False
    with closing(BirdControl(path) if daemon == "bird" else Vty(path, daemon)) as control:
        control.run(*entry.details["undo"])
    return True


class LabBgpSpeaker(BgpSpeaker):
    """FRR or BIRD by its sockets. It never starts, stops or restarts the lab's daemon, nor touches its files.

    Announcements are made at run time, and taken back by ``withdraw`` or ``close``. ``announce`` raises ConfigError
    for a prefix that the daemon has in its own configuration, or cannot announce.

    ``engine``: for messages. ``daemon``: whose socket tells whether the speaker runs.
    """

    engine: str
    daemon: str

    def __init__(self, journal: Journal, spec: LabSpeaker, path: Path, advice: str) -> None:
        """Connect, and read ``config`` from the daemon.

        ``path``: of the socket. ``advice``: what to look at if nobody listens there.

        Raises:
            ConfigError: the speaker lacks what the testbed file names.
            TestbedError: the speaker does not listen there, or has no session to watch.
        """
        self._name, self._path = spec.name, path
        self._journal = journal
        self._entries: dict[str, list[Entry]] = {}  # of each prefix that this run announces
        try:
            with _connected(path) as connection:
                peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError as error:
            raise TestbedError(
                f"no {self.daemon} listens on {path}: {error.strerror}; {advice} (speaker {spec.name!r} of the "
                "testbed file)"
            ) from error
        # The process that called listen(2) there (unix(7))
        self._identity = ProcessId.of(int(_CREDENTIALS.unpack(peer)[0]))
        with ExitStack() as undo:
            undo.callback(self.disconnect)
            self.config = self.discover()
            undo.pop_all()

    @abstractmethod
    def discover(self) -> SpeakerConfig:
        """The daemon's own configuration."""

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def announce_one(self, prefix: str) -> None:
        """Announce a prefix that the daemon does not announce yet; ``note`` each step before it is made."""

    @abstractmethod
    def disconnect(self) -> None: ...

    def start(self) -> None:
        self.check()

    def pids(self) -> Mapping[str, int]:
        """None if it has ended, or if it inherited the socket: then its pid is unknown."""
        there = self._identity is not None and self._identity.alive()
        return {self.daemon: self._identity.pid} if there and self._identity is not None else {}

    def check(self) -> None:
        for name, pid in self.pids().items():
            if is_stopped(pid):
                raise TestbedError(f"{name} (pid {pid}), which is not ours, is stopped (SIGSTOP)")
        try:
            with _connected(self._path):
                return
        except OSError as error:
            raise TestbedError(
                f"{self.daemon} at {self._path}, which is not ours, has ended ({error.strerror}): start it again"
            ) from error

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Around a command: if it fails, report a dead or stopped daemon instead."""
        try:
            yield
        except TestbedError:
            self.check()
            with suppress(DeadlineError):  # a dying daemon may listen for a moment longer than it answers
                wait_until(lambda: not _listens(self._path), f"{self.daemon} to listen no longer", _DYING_S)
            self.check()
            raise

    def info(self) -> SpeakerInfo:
        return SpeakerInfo(self.engine, self.version(), (self.daemon,))

    def announce(self, prefixes: Sequence[str]) -> None:
        for prefix in prefixes:
            if prefix not in self._entries:
                self.announce_one(prefix)
        self.config = self.config.announcing(tuple(self._entries))

    def note(self, prefix: str, daemon: str, path: Path, undo: Sequence[str]) -> None:
        """Journal a step: the daemon, its socket, and the commands that take the step back."""
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

    def restart(self) -> None:
        who = f"{self.engine} of speaker {self._name!r}"
        raise TestbedError(f"{who} belongs to somebody else: nfvperf does not restart it")

    def close(self) -> None:
        self.withdraw(tuple(self._entries))
        self.disconnect()


class LabFrr(LabBgpSpeaker):
    """FRR, by the directory of its ``*.vty`` sockets.

    It announces a prefix by a ``network`` statement and a blackhole route: bgpd announces only what is in its table
    (``bgp network import-check``). The route goes to staticd, or to mgmtd where that runs (FRR 9 and newer).
    """

    engine, daemon = "FRR", "bgpd"

    def __init__(self, journal: Journal, spec: LabSpeaker) -> None:
        self._directory = Path(spec.socket)
        self._routes = "mgmtd" if (self._directory / "mgmtd.vty").exists() else "staticd"
        self._vtys = {name: Vty(self._directory / f"{name}.vty", name) for name in ("bgpd", self._routes)}
        super().__init__(journal, spec, self._directory / "bgpd.vty", "is FRR running, and is its directory right?")

    def discover(self) -> SpeakerConfig:
        summary = self._ask("show bgp summary json")
        families = [family for family in summary.values() if isinstance(family, dict) and family.get("as")]
        if not families:
            raise TestbedError(f"bgpd of speaker {self._name!r} has no neighbour: there is no session to watch")
        neighbors = tuple(
            Neighbor(address, peer["remoteAs"], bfd=_bfd(peer))
            for address, peer in self._ask("show bgp neighbors json").items()
            if isinstance(peer, dict) and peer.get("remoteAs")
        )
        return SpeakerConfig(families[0]["as"], families[0]["routerId"], neighbors)

    def version(self) -> str:
        return self._vtys["bgpd"].run("show version").split()[1]

    def session(self, neighbor: str) -> SessionState:
        return frr_session(self._ask, self.config.neighbor(neighbor))

    def _ask(self, command: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = json.loads(self._run("bgpd", command))
        return answer

    def _run(self, daemon: str, *commands: str) -> str:
        with self.explaining():
            return self._vtys[daemon].run(*commands)

    def announce_one(self, prefix: str) -> None:
        for daemon in (self._routes, "bgpd"):
            for line in self._run(daemon, "show running-config").splitlines():
                words = line.split()
                if prefix in words and (words[0] == "network" or words[1] == "route"):
                    raise ConfigError(
                        f"speaker {self._name!r} has {line.strip()!r} in its own configuration, which is left "
                        "alone: announce another prefix"
                    )
        router = (f"router bgp {self.config.asn}", f"address-family {family_of(prefix)} unicast")
        route, network = static_route(prefix), f"network {prefix}"
        for daemon, within, line in ((self._routes, (), route), ("bgpd", router, network)):
            do, undo = (("configure terminal", *within, statement, "end") for statement in (line, f"no {line}"))
            self.note(prefix, daemon, self._directory / f"{daemon}.vty", undo)
            self._run(daemon, *do)

    def disconnect(self) -> None:
        for vty in self._vtys.values():
            vty.close()


def _bfd(peer: Mapping[str, Any]) -> BfdTimers | None:
    found = peer.get("peerBfdInfo")
    if not isinstance(found, dict):
        return None
    return BfdTimers(found.get("txMinInterval", BfdTimers().interval_ms), found.get("detectMultiplier", 3))


class LabBird(LabBgpSpeaker):
    """BIRD, by its control socket.

    BIRD accepts no routes at run time, but it can enable and disable protocols. So it can announce only the prefixes of
    static protocols in its own configuration, which the testbed file names (``announces``).
    """

    engine, daemon = "BIRD", "bird"

    def __init__(self, journal: Journal, spec: LabSpeaker) -> None:
        self._control = BirdControl(Path(spec.socket))
        self._static_protocols = dict(spec.announces)  # by prefix
        self._protocols: dict[str, str] = {}  # by address of the neighbour
        super().__init__(journal, spec, Path(spec.socket), "is BIRD running, and is this its control socket?")

    def disconnect(self) -> None:
        self._control.close()

    def discover(self) -> SpeakerConfig:
        """As above, once it was checked that the daemon has the protocols of the testbed file."""
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
            raise TestbedError(f"BIRD of speaker {self._name!r} has no BGP protocol: there is no session to watch")
        (router_id,) = (line.split()[-1] for line in self._run("show status") if line.startswith("Router ID"))
        there = set(self._names("Static"))
        for prefix, protocol in self._static_protocols.items():
            if protocol not in there:
                raise ConfigError(
                    f"BIRD of speaker {self._name!r} has no static protocol {protocol!r} with {prefix}; it has: "
                    f"{', '.join(sorted(there)) or 'none'}",
                    key="speakers",
                )
        return SpeakerConfig(asn, router_id, tuple(neighbors))

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
        with self.explaining():
            return self._control.run(command)

    def announce_one(self, prefix: str) -> None:
        if prefix not in self._static_protocols:
            raise ConfigError(
                f"BIRD of speaker {self._name!r} cannot announce {prefix}: name a static protocol of its "
                f"configuration that has it, 'announces: {{{prefix}: PROTOCOL}}', and leave that disabled",
                key="speakers",
            )
        protocol = self._static_protocols[prefix]
        rows = (line.split() for line in self._run(f"show protocols {protocol}"))
        if any(words[0] == protocol and words[3] == "up" for words in rows if len(words) > 3):
            raise ConfigError(f"BIRD of speaker {self._name!r} already announces {prefix} from its own configuration")
        self.note(prefix, "bird", self._path, [f"disable {protocol}"])
        self._run(f"enable {protocol}")


def lab_speaker(journal: Journal, spec: LabSpeaker) -> LabBgpSpeaker:
    """Open a speaker of the testbed file; errors as of LabBgpSpeaker."""
    return LabFrr(journal, spec) if spec.engine == "frr" else LabBird(journal, spec)
