"""BIRD as a BGP speaker: its configuration, its control socket, and the state of its sessions."""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.programs import PROGRAMS
from pytest_nfvperf.features.routing.daemons import (
    ANSWER_DEADLINE_S,
    BULK_DEADLINE_S,
    ControlSocket,
    NewLines,
    RoutingDaemons,
    check_configuration,
    executable,
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
from pytest_nfvperf.features.routing.ports import BgpSpeaker
from pytest_nfvperf.model.errors import ConfigError, TestbedError

DIRECTORIES = PROGRAMS["bird"].directories
ROUTES = {family: f"routes-{family}.conf" for family in Family}
"""Names of the files with the originated routes, which the main configuration includes."""

_STATES = {status.value.lower(): status for status in SessionStatus}
_ROUTES = re.compile(r"Routes:\s+(\d+) imported(?:, (\d+) filtered)?, (\d+) exported")
_SINCE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?")
_SERVER_TIME = "Current server time is"
_BFD = {status.value: status for status in BfdStatus}
_LOG_LINE = re.compile(r"<(?:TRACE|RMT|ERR|WARN|BUG)> (\w+): (.+)")
_SESSION_CLOSED = "BGP session closed"
_NO_REASON = ("Neighbor graceful restart", "State changed")
"""Beginnings of log lines that do not say why a session ended."""


class BirdControl(ControlSocket):
    """BIRD's control socket, as birdc uses it.

    A command is a line. The answer is lines with four-digit codes: 0xxx ends it, 8xxx and 9xxx refuse (BIRD 2
    programmer's guide, doc/reply_codes).
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "bird", _answer)  # BIRD greets each connection

    def run(self, *commands: str, deadline_s: float = ANSWER_DEADLINE_S) -> list[str]:
        """Give commands one after the other; returns the lines of the last one's answer, without their codes.

        Raises:
            TestbedError: nobody answers, not in time, or BIRD refuses the command; with its words.
        """
        answer: list[tuple[str, str]] = []
        with self.opened(deadline_s) as connection:
            for command in commands:
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


def bird_session(run: Callable[[str], list[str]], neighbor: Neighbor, name: str) -> SessionState:
    """Ask BIRD for a session's state, without flaps, which BIRD does not count. Its answers are texts for people.

    ``run`` gives BIRD a command and returns its answer; ``name`` is BIRD's name for the session.
    """
    lines = run(f"show protocols all {name}")
    fields = {key.strip(): value.strip() for line in lines for key, colon, value in [line.partition(":")] if colon}
    status = _STATES.get(fields.get("BGP state", "").lower(), SessionStatus.IDLE)  # "Down", "Passive": not speaking
    uptime_s = None
    routes: list[re.Match[str]] = []
    if status is SessionStatus.ESTABLISHED:
        routes = [match for line in lines if (match := _ROUTES.search(line))]
        # BIRD's clock, because BIRD may use another time zone than this process
        clock = next((line for line in run("show status") if line.startswith(_SERVER_TIME)), "")
        since, now = next(filter(None, map(_SINCE.search, lines)), None), _SINCE.search(clock)
        if since is not None and now is not None:
            up = datetime.fromisoformat(now[0]) - datetime.fromisoformat(since[0])
            uptime_s = max(0.0, up.total_seconds())
    return SessionState(
        neighbor=neighbor.address,
        asn=neighbor.asn,
        status=status,
        uptime_s=uptime_s,
        received=sum(int(match[1]) for match in routes) if routes else None,
        sent=sum(int(match[3]) for match in routes) if routes else None,
        last_error=fields.get("Last error", ""),
        bfd=None if neighbor.bfd is None else _bfd_status(neighbor.address, run("show bfd sessions")),
    )


def _bfd_status(address: str, lines: Sequence[str]) -> BfdStatus:
    """Down for a session that is not there yet."""
    for line in lines:
        words = line.split()
        if len(words) > 2 and words[0] == address:
            return _BFD.get(words[2], BfdStatus.DOWN)
    return BfdStatus.DOWN


def configuration(config: SpeakerConfig, directory: Path) -> str:
    """The text of bird.conf. Its log and its route files are in ``directory``."""
    lines = [
        f"router id {config.router_id};",
        "log stderr all;",
        "debug protocols { events };",  # BIRD counts no flaps: BirdSpeaker counts them in this log
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
        lines += _bgp_protocol(config, neighbor, f"peer{number}")
    return "\n".join(lines) + "\n"


def _bgp_protocol(config: SpeakerConfig, neighbor: Neighbor, name: str) -> Iterator[str]:
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


class BirdSpeaker(RoutingDaemons, BgpSpeaker):
    """BIRD in a namespace, in a private directory.

    Args:
        journal: of this run.
        namespace: under /run/netns, with the addresses that it speaks from.
        config: all BFD sessions must have the same timers, because BIRD sets them by interface.
        role: names its directory.
    """

    def __init__(self, journal: Journal, namespace: str, config: SpeakerConfig, *, role: str = "bird") -> None:
        self.config = config
        if len({neighbor.bfd for neighbor in config.neighbors if neighbor.bfd is not None}) > 1:
            raise ConfigError(
                "BIRD has BFD timers by interface, not by neighbour: give all neighbours the same BfdTimers"
            )
        self._binary = executable("bird", DIRECTORIES)
        # In UTC: what BIRD prints without a zone must not go back by an hour when summer time ends.
        super().__init__(journal, namespace, role, env={"TZ": "UTC"})
        self._control = BirdControl(self.directory / "bird.ctl")
        self._log = NewLines(self.directory / "bird.log")
        self._last_event: dict[str, str] = {}  # by BIRD's name of the session, as the next two
        self._flaps: Counter[str] = Counter()
        self._down_reason: dict[str, str] = {}
        self._version = "not started"

    def info(self) -> SpeakerInfo:
        return SpeakerInfo("BIRD", self._version, ("bird",))

    def start(self) -> None:
        directory = self.directory
        (directory / "bird.conf").write_text(configuration(self.config, directory), encoding="utf-8")
        self._write_routes()
        check_configuration("bird", [self._binary, "-p", "-c", str(directory / "bird.conf")])
        self._run_bird()

    def _run_bird(self, *options: str) -> None:
        directory = self.directory
        argv = (self._binary, "-f", "-c", str(directory / "bird.conf"), "-s", str(directory / "bird.ctl"), *options)
        self.run_daemon("bird", argv, "bird.ctl")
        self.await_answer("bird", self._ask_version)

    def _write_routes(self) -> None:
        for family, name in ROUTES.items():
            prefixes = [prefix for prefix in self.config.announced if family_of(prefix) is family]
            lines = "".join(f"route {prefix} blackhole;\n" for prefix in prefixes)
            (self.directory / name).write_text(lines, encoding="ascii")

    def _ask_version(self) -> None:
        self._version = self._control.run("show status")[0].split()[-1]

    def session(self, neighbor: str) -> SessionState:
        known = self.config.neighbor(neighbor)
        name = f"peer{self.config.neighbors.index(known)}"
        state = bird_session(self._run, known, name)
        self._read_log()  # after the state: a session that is not up any more has then been counted
        return replace(state, flaps=self._flaps[name], last_error=state.last_error or self._down_reason.get(name, ""))

    def _read_log(self) -> None:
        """Count the ends of sessions, and note the event before each: BIRD itself does neither."""
        for line in self._log.read():
            if found := _LOG_LINE.search(line):
                name, event = found.groups()
                if event == _SESSION_CLOSED:
                    self._flaps[name] += 1
                    self._down_reason[name] = self._last_event.get(name, "")
                elif not event.startswith(_NO_REASON):
                    self._last_event[name] = event

    def _run(self, command: str, *, deadline_s: float = ANSWER_DEADLINE_S) -> list[str]:
        with self.explaining():
            return self._control.run(command, deadline_s=deadline_s)

    def announce(self, prefixes: Sequence[str]) -> None:
        self._originate(self.config.with_prefixes(prefixes))

    def withdraw(self, prefixes: Sequence[str]) -> None:
        self._originate(self.config.without_prefixes(prefixes))

    def _originate(self, config: SpeakerConfig) -> None:
        self.config = config
        self._write_routes()
        self._run("configure soft", deadline_s=BULK_DEADLINE_S)

    def restart(self) -> None:
        """Start BIRD again if it ended. With graceful restart it resumes its sessions (bird -R)."""
        if not self.pids():
            self._control.close()
            self._run_bird(*(["-R"] if self.config.graceful_restart else []))

    def close(self) -> None:
        self._control.close()
        super().close()
