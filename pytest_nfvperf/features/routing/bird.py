"""BIRD as a BGP speaker: its configuration, its control socket, and the state of its sessions."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.programs import PROGRAMS
from pytest_nfvperf.features.routing.daemons import (
    ANSWER_DEADLINE_S,
    BULK_DEADLINE_S,
    BirdLog,
    ControlSocket,
    Daemon,
    RoutingDaemons,
    checked_configuration,
    executable,
    wait_for_session,
)
from pytest_nfvperf.features.routing.model import (
    BfdStatus,
    Family,
    Neighbor,
    SessionState,
    SessionStatus,
    SpeakerConfig,
    SpeakerInfo,
    family_of,
)
from pytest_nfvperf.model.errors import ConfigError, TestbedError

DIRECTORIES = PROGRAMS["bird"].directories
ROUTES = {family: f"routes-{family}.conf" for family in Family}
"""Names of the files with the originated routes, which the main configuration includes."""

_STATES = {status.value.lower(): status for status in SessionStatus}
_ROUTES = re.compile(r"Routes:\s+(\d+) imported(?:, (\d+) filtered)?, (\d+) exported")
_SINCE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?")
_SERVER_TIME = "Current server time is"
_BFD = {status.value: status for status in BfdStatus}

# BIRD's control socket, as birdc uses it.
#
# A command is a line. The answer is lines with four-digit codes: 0xxx ends it, 8xxx and 9xxx refuse (BIRD 2
# programmer's guide, doc/reply_codes).


class BirdControl:
    def __init__(self, path: Path, deadline_s: float = ANSWER_DEADLINE_S) -> None:
        """``deadline_s``: for each answer; a daemon that takes longer hangs."""
        self._connection = ControlSocket(path, "bird", _answer)  # it greets
        self._deadline_s = deadline_s
        self.close = self._connection.close

    def run(self, command: str, *, deadline_s: float | None = None) -> list[str]:
        """The lines of the answer, without their codes.

        Raises:
            TestbedError: nobody answers, not in time, or BIRD refuses the command; with its words.
        """
        with self._connection.opened(deadline_s or self._deadline_s) as connection:
            connection.sendall(command.encode() + b"\n")
            answer = _answer(connection)
        code, text = answer[-1]
        if code[0] in "89":
            raise TestbedError(f"bird refused {command!r}: {text}")
        return [text for _, text in answer]


def _answer(connection: socket.socket) -> list[tuple[str, str]]:
    """(code, text) of each line."""
    received = b""
    while True:
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionResetError("the connection was closed")
        received += part
        if received.endswith(b"\n"):
            lines = _lines(received.decode(errors="replace"))
            if lines and lines[-1][0][0] in "089" and lines[-1][0][4:] == " ":
                return [(code[:4], text) for code, text in lines]


def _lines(text: str) -> list[tuple[str, str]]:
    """(code and its separator, text) of each line. A line without a code continues the one before."""
    lines: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line[:4].isdigit() and line[4:5] in {" ", "-"}:
            lines.append((line[:5], line[5:]))
        elif lines:
            lines.append((f"{lines[-1][0][:4]}-", line[1:]))
    return lines


def bird_session_state(
    neighbor: Neighbor,
    lines: Sequence[str],
    *,
    ends: tuple[int | None, str],
    now: datetime | None,
    bfd: BfdStatus | None,
) -> SessionState:
    """Read a session's state from ``show protocols all NAME``, which prints text for people.

    Args:
        neighbor: the other end of the session.
        lines: BIRD's answer.
        ends: how often it ended (None where nobody counts), and why it ended last.
        now: by BIRD's own clock (``server_time``); None where BIRD does not report it.
        bfd: of its BFD session.
    """
    fields = {key.strip(): value.strip() for line in lines for key, colon, value in [line.partition(":")] if colon}
    status = _STATES.get(fields.get("BGP state", "").lower(), SessionStatus.IDLE)  # "Down", "Passive": not speaking
    up = status is SessionStatus.ESTABLISHED
    since = next((found[0] for line in lines if (found := _SINCE.search(line))), None) if up else None
    uptime_s = (now - datetime.fromisoformat(since)).total_seconds() if since and now is not None else None
    routes = [match for line in lines if (match := _ROUTES.search(line))] if up else []
    return SessionState(
        neighbor=neighbor.address,
        asn=neighbor.asn,
        status=status,
        uptime_s=max(0.0, uptime_s) if uptime_s is not None else None,
        flaps=ends[0],
        received=sum(int(match[1]) for match in routes) if routes else None,
        sent=sum(int(match[3]) for match in routes) if routes else None,
        last_error=fields.get("Last error") or ends[1],
        bfd=bfd,
    )


def server_time(status: Sequence[str]) -> datetime | None:
    """BIRD's own time, from ``show status``. BIRD may use another time zone than this process."""
    line = next((line for line in status if line.startswith(_SERVER_TIME)), "")
    found = _SINCE.search(line)
    return datetime.fromisoformat(found[0]) if found else None


def bfd_status(neighbor: Neighbor, lines: Sequence[str]) -> BfdStatus | None:
    """Read ``show bfd sessions``. Down for a session that is not there yet; None where none is configured."""
    if neighbor.bfd is None:
        return None
    for line in lines:
        words = line.split()
        if len(words) > 2 and words[0] == neighbor.address:
            return _BFD.get(words[2], BfdStatus.DOWN)
    return BfdStatus.DOWN


def protocol_name(number: int) -> str:
    """BIRD's name for the session with neighbour ``number``, counted from 0."""
    return f"peer{number}"


def configuration(config: SpeakerConfig, directory: Path) -> str:
    """The text of bird.conf. Its log and its route files are in ``directory``."""
    lines = [
        f"router id {config.router_id};",
        "log stderr all;",
        "debug protocols { events };",  # BIRD counts no flaps: BirdLog counts them from its log
        "timeformat protocol iso long ms;",
        "protocol device { scan time 1; }",
    ]
    if config.graceful_restart:
        lines.append(f"graceful restart wait {max(neighbor.timers.restart_s for neighbor in config.neighbors)};")
    for family in Family:
        # include begins a line of its own (BIRD 2 user's guide, "Configuration")
        lines += [
            f"protocol static own_{family} {{ {family};",
            f'include "{directory / ROUTES[family]}";',
            "}",
            f"protocol kernel kernel_{family} {{ {family} {{ import none; export none; }}; }}",
        ]
    for timers in {neighbor.bfd for neighbor in config.neighbors if neighbor.bfd is not None}:
        intervals = " ".join(f"{which} interval {timers.interval_ms} ms;" for which in ("min rx", "min tx", "idle tx"))
        lines.append(f'protocol bfd {{ interface "*" {{ {intervals} multiplier {timers.multiplier}; }}; }}')
    for number, neighbor in enumerate(config.neighbors):
        lines += _session(config, neighbor, protocol_name(number))
    return "\n".join(lines) + "\n"


def routes(prefixes: Sequence[str], family: Family) -> str:
    return "".join(f"route {prefix} blackhole;\n" for prefix in prefixes if family_of(prefix) is family)


def _session(config: SpeakerConfig, neighbor: Neighbor, name: str) -> Iterator[str]:
    timers = neighbor.timers
    yield f"protocol bgp {name} {{"
    yield f"  local as {config.asn};"
    yield f"  neighbor {neighbor.address} as {neighbor.asn};"
    yield f"  hold time {timers.hold_s}; keepalive time {timers.keepalive_s};"
    yield f"  connect delay time {timers.connect_retry_s}; connect retry time {timers.connect_retry_s};"
    yield "  error wait time 1, 1; error forget time 1;"
    if neighbor.password is not None:
        yield f'  password "{neighbor.password}";'
    if neighbor.bfd is not None:
        yield "  bfd on;"
    if config.graceful_restart:
        yield f"  graceful restart on; graceful restart time {timers.restart_s};"
    sends = f'proto = "own_{neighbor.family}" || source = RTS_BGP'
    yield f"  {neighbor.family} {{ import all; export filter {{ if ({sends}) then {{ accept; }} reject; }}; }};"
    yield "}"


class BirdSpeaker:
    """BIRD in a namespace, in a private directory.

    Args:
        journal: of this run.
        namespace: under /run/netns, with the addresses that it speaks from.
        config: its sessions and routes. All BFD sessions must have the same timers: BIRD sets them by interface.
        role: names its directory.
        cpus: CPUs that it may run on; all when empty.
    """

    await_session = wait_for_session

    def __init__(
        self, journal: Journal, namespace: str, config: SpeakerConfig, *, role: str = "bird", cpus: Sequence[int] = ()
    ) -> None:
        self.config = config
        if len({neighbor.bfd for neighbor in config.neighbors if neighbor.bfd is not None}) > 1:
            raise ConfigError(
                "BIRD has BFD timers by interface, not by neighbour: give all neighbours the same BfdTimers"
            )
        self._binary = executable("bird", DIRECTORIES)
        # In UTC: what BIRD prints without a zone must not go back by an hour when summer time ends.
        self._daemons = RoutingDaemons(journal, namespace, role, cpus=cpus, env={"TZ": "UTC"})
        self._control = BirdControl(self._daemons.directory / "bird.ctl")
        self._log = BirdLog(self._daemons.directory / "bird.log")
        self._version = "not started"
        self.pids, self.check, self.logs = self._daemons.pids, self._daemons.check, self._daemons.logs

    def info(self) -> SpeakerInfo:
        return SpeakerInfo("BIRD", self._version, ("bird",))

    def start(self) -> None:
        directory = self._daemons.directory
        (directory / "bird.conf").write_text(configuration(self.config, directory), encoding="utf-8")
        self._write_routes()
        checked_configuration("bird", [self._binary, "-p", "-c", str(directory / "bird.conf")])
        self._daemons.start(self._daemon())
        self._daemons.await_answer("bird", self._ask_version)

    def _daemon(self, *more: str) -> Daemon:
        directory = self._daemons.directory
        argv = (self._binary, "-f", "-c", str(directory / "bird.conf"), "-s", str(directory / "bird.ctl"), *more)
        return Daemon("bird", argv, "bird.ctl")

    def _write_routes(self) -> None:
        for family, name in ROUTES.items():
            (self._daemons.directory / name).write_text(routes(self.config.announced, family), encoding="ascii")

    def _ask_version(self) -> None:
        self._version = self._control.run("show status")[0].split()[-1]

    def session(self, neighbor: str) -> SessionState:
        known = self.config.neighbor(neighbor)
        name = protocol_name(self.config.neighbors.index(known))
        lines = self._run(f"show protocols all {name}")
        bfd = bfd_status(known, self._run("show bfd sessions")) if known.bfd is not None else None
        now = server_time(self._run("show status"))
        return bird_session_state(known, lines, ends=self._log.topology_cables(name), now=now, bfd=bfd)

    def _run(self, command: str, *, deadline_s: float | None = None) -> list[str]:
        with self._daemons.explaining():
            return self._control.run(command, deadline_s=deadline_s)

    def announce(self, prefixes: Sequence[str]) -> None:
        known = set(self.config.announced)
        self._originate((*self.config.announced, *(prefix for prefix in prefixes if prefix not in known)))

    def withdraw(self, prefixes: Sequence[str]) -> None:
        withdrawn = set(prefixes)
        self._originate(tuple(prefix for prefix in self.config.announced if prefix not in withdrawn))

    def _originate(self, prefixes: tuple[str, ...]) -> None:
        self.config = self.config.announcing(prefixes)
        self._write_routes()
        self._run("configure soft", deadline_s=BULK_DEADLINE_S)

    def restart(self) -> None:
        """Start BIRD again if it ended. With graceful restart it resumes its sessions (bird -R)."""
        if self.pids():
            return
        self._control.close()
        self._daemons.start(self._daemon(*(["-R"] if self.config.graceful_restart else [])))
        self._daemons.await_answer("bird", self._ask_version)

    def close(self) -> None:
        self._control.close()
        self._daemons.close()
