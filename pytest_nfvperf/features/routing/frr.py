"""FRR as a BGP speaker: its configuration, its vty sockets, and the state of its sessions."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, run
from pytest_nfvperf.adapters.process.programs import PROGRAMS
from pytest_nfvperf.features.routing.daemons import (
    ANSWER_DEADLINE_S,
    BULK_DEADLINE_S,
    ControlSocket,
    NewLines,
    RoutingDaemons,
    check_configuration,
    configuration_refused,
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
from pytest_nfvperf.model.errors import TestbedError

DIRECTORIES = PROGRAMS["bgpd"].directories
_END = b"\0\0\0"
_SUCCESS = (0, 4)  # CMD_SUCCESS, CMD_SUCCESS_DAEMON, lib/command.h
_STATUS = {status.value: status for status in SessionStatus}
_BFD = {"Up": BfdStatus.UP, "Down": BfdStatus.DOWN, "Init": BfdStatus.INIT, "Admin Down": BfdStatus.ADMIN_DOWN}
_DOWN = re.compile(r"%ADJCHANGE: neighbor ([0-9a-fA-F.:]+)\(.*\) in vrf \S+ Down ?(.*)")
_BEFORE_ANYTHING = {"Waiting for peer OPEN", "Waiting for NHT", "No AFI/SAFI activated for peer"}
"""What bgpd gives as the reason of a session's last end before it was ever up."""
_COMMON = ("hostname nfvperf", "log timestamp precision 3")
_IP = {Family.IPV4: "ip", Family.IPV6: "ipv6"}
_REFUSED = "on config line"
_BFD_CONTROL = "--bfdctl"


class Vty(ControlSocket):
    """A daemon's vty socket, used directly: starting vtysh takes 10 ms, and ten times that while a PMD polls.

    vtysh(1) sends a command and a zero byte. The answer is text, three zero bytes and a status (FRR developer's guide,
    "VTYSH").
    """

    def __init__(self, path: Path, daemon: str) -> None:
        super().__init__(path, daemon, lambda connection: _ask(connection, "enable"))

    def run(self, *commands: str, deadline_s: float = ANSWER_DEADLINE_S) -> str:
        """Give commands one after the other; returns the last one's answer.

        Raises:
            TestbedError: nobody answers, not in time, or the daemon refuses a command; with its words.
        """
        answer = ""
        with self.opened(deadline_s) as connection:
            for command in commands:
                answer, status = _ask(connection, command)
                if status not in _SUCCESS:
                    raise TestbedError(f"{self.daemon} refused {command!r} (status {status}): {answer.strip()}")
        return answer


def _ask(connection: socket.socket, command: str) -> tuple[str, int]:
    connection.sendall(command.encode() + b"\0")
    received = bytearray()
    while len(received) < 4 or received[-4:-1] != _END:
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionResetError("the connection was closed")
        received += part
    return received[:-4].decode(errors="replace"), received[-1]


def frr_session(bgpd: Callable[[str], Mapping[str, Any]], neighbor: Neighbor) -> SessionState:
    """Ask bgpd for a session's state. ``bgpd`` gives bgpd a command and returns its answer."""
    answer = bgpd(f"show bgp neighbors {neighbor.address} json").get(neighbor.address, {})
    status = _STATUS.get(str(answer.get("bgpState")), SessionStatus.IDLE)  # bgpd's own: Clearing, Deleted
    up = status is SessionStatus.ESTABLISHED
    families = answer.get("addressFamilyInfo", {}).values() if up else ()
    bfd = _BFD.get(str(answer.get("peerBfdInfo", {}).get("status", "")), BfdStatus.DOWN)
    return SessionState(
        neighbor=neighbor.address,
        asn=neighbor.asn,
        status=status,
        uptime_s=answer["bgpTimerUpMsec"] / 1000 if up and "bgpTimerUpMsec" in answer else None,
        flaps=answer.get("connectionsDropped"),
        received=_total(families, "acceptedPrefixCounter"),
        sent=_total(families, "sentPrefixCounter"),
        last_error=_last_error(answer),
        bfd=None if neighbor.bfd is None else bfd,
    )


def _total(families: Any, counter: str) -> int | None:
    counts = [family[counter] for family in families if counter in family]
    return sum(counts) if counts else None


def _last_error(answer: Mapping[str, Any]) -> str:
    reset = str(answer.get("lastResetDueTo", ""))
    notification = str(answer.get("lastNotificationReason", ""))
    if notification and "otification" in reset:  # bgpd says whose it was
        return f"{reset}: {notification}"
    return "" if reset in _BEFORE_ANYTHING else reset


def configuration(config: SpeakerConfig) -> dict[str, str]:
    """The text of each daemon's file, by the daemon's name."""
    files = {"zebra": [*_COMMON], "bgpd": [*_COMMON, *_bgpd(config)]}
    if any(neighbor.bfd is not None for neighbor in config.neighbors):
        files["bfdd"] = [*_COMMON, *_bfdd(config)]
    return {daemon: "\n".join(lines) + "\n" for daemon, lines in files.items()}


def static_route(prefix: str) -> str:
    """FRR's command for a blackhole route: it only lets bgpd announce the prefix. The datapath forwards the frames."""
    return f"{_IP[family_of(prefix)]} route {prefix} blackhole"


def _bfdd(config: SpeakerConfig) -> Iterator[str]:
    yield "debug bfd peer"  # each change of a session's state, and why
    yield "bfd"
    for neighbor in config.neighbors:
        if neighbor.bfd is not None:
            yield f" profile {_label(neighbor)}"
            yield f"  detect-multiplier {neighbor.bfd.multiplier}"
            yield f"  receive-interval {neighbor.bfd.interval_ms}"
            yield f"  transmit-interval {neighbor.bfd.interval_ms}"


def _bgpd(config: SpeakerConfig) -> Iterator[str]:
    yield f"router bgp {config.asn}"
    yield f" bgp router-id {config.router_id}"
    yield " bgp log-neighbor-changes"
    yield " no bgp default ipv4-unicast"
    yield " no bgp ebgp-requires-policy"  # a neighbour without a policy gets all routes
    yield " no bgp network import-check"  # announce a prefix at once, not only when zebra reports its route
    if config.graceful_restart:
        yield " bgp graceful-restart"
        yield " bgp graceful-restart preserve-fw-state"
        yield f" bgp graceful-restart restart-time {max(n.timers.restart_s for n in config.neighbors)}"
    for neighbor in config.neighbors:
        name, timers = f" neighbor {neighbor.address}", neighbor.timers
        yield f"{name} remote-as {neighbor.asn}"
        yield f"{name} timers {timers.keepalive_s} {timers.hold_s}"
        yield f"{name} timers connect {timers.connect_retry_s}"
        yield f"{name} advertisement-interval 0"
        if neighbor.password is not None:
            yield f"{name} password {neighbor.password}"
        if neighbor.bfd is not None:
            yield f"{name} bfd"
            yield f"{name} bfd profile {_label(neighbor)}"
    for family in Family:
        active = [
            f"  neighbor {neighbor.address} activate" for neighbor in config.neighbors if neighbor.family is family
        ]
        networks = [f"  network {prefix}" for prefix in config.announced if family_of(prefix) is family]
        if active or networks:
            yield from (f" address-family {family} unicast", *networks, *active, " exit-address-family")


def _label(neighbor: Neighbor) -> str:
    return neighbor.address.replace(":", "-")


class FrrSpeaker(RoutingDaemons, BgpSpeaker):
    """FRR (zebra, bgpd and, with BFD, bfdd) in a namespace, in a private state directory.

    It announces a prefix by bgpd's ``network`` and a blackhole route in the kernel, which the DUT's agent follows.
    FRR's own static routes do not work here: since FRR 9 staticd needs mgmtd, whose files and sockets belong to the
    machine.

    It runs as root: a daemon that changes its user loses the parent-death signal (prctl(2)), and would outlive us.

    ``namespace``: under /run/netns, with the addresses that it speaks from. ``role`` names its directory.
    """

    def __init__(self, journal: Journal, namespace: str, config: SpeakerConfig, *, role: str = "frr") -> None:
        self.config = config
        self._files = configuration(config)
        self._binaries = {name: executable(name, DIRECTORIES) for name in self._files}
        self._namespace = namespace
        super().__init__(journal, namespace, role)
        self._log = NewLines(self.directory / "bgpd.log")
        self._down_reason: dict[str, str] = {}  # by the neighbour's address
        self._vtys = {name: Vty(self.directory / f"{name}.vty", name) for name in self._files}

    @cached_property
    def _version(self) -> str:
        return run([self._binaries["bgpd"], "--version"]).split()[2]

    def info(self) -> SpeakerInfo:
        return SpeakerInfo("FRR", self._version, tuple(self._files))

    def start(self) -> None:
        self._route("replace", self.config.announced)
        for name, text in self._files.items():
            (self.directory / f"{name}.conf").write_text(text, encoding="utf-8")
            # A daemon that skipped a line still exits with 0, and only logs that.
            output = check_configuration(name, [self._binaries[name], "-C", *self._common(name), "--log", "stdout"])
            refused = [line for line in output.splitlines() if _REFUSED in line]
            if refused:
                raise configuration_refused(name, "; ".join(refused))
        for name in self._files:
            argv = (self._binaries[name], *self._common(name), "--vty_socket", str(self.directory), "-P", "0")
            argv += ("-z", str(self.directory / "zserv.api"), "--log", "stdout")
            argv += ("--log-level", "debug" if name == "bfdd" else "info")
            if name == "bfdd" and _BFD_CONTROL in run([self._binaries[name], "--help"]):  # newer ones have none
                argv += (_BFD_CONTROL, str(self.directory / "bfdd.sock"))
            self.run_daemon(name, argv, f"{name}.vty")
            self._await_answer(name)  # the others connect to zebra when they start, and later only after seconds

    def _common(self, name: str) -> tuple[str, ...]:
        conf, pid = self.directory / f"{name}.conf", self.directory / f"{name}.pid"
        return ("-f", str(conf), "-i", str(pid), "-u", "root", "-g", "frrvty")

    def _await_answer(self, name: str) -> None:
        self.await_answer(name, lambda: self._vtys[name].run("show version"))

    def session(self, neighbor: str) -> SessionState:
        state = frr_session(self._ask, self.config.neighbor(neighbor))
        for line in self._log.read():
            if found := _DOWN.search(line):
                self._down_reason[found[1]] = found[2]
        return replace(state, last_error=state.last_error or self._down_reason.get(neighbor, ""))

    def announced_to(self, neighbor: str) -> list[str]:
        answer = self._ask(f"show bgp ipv4 unicast neighbors {neighbor} advertised-routes json")
        return list(answer.get("advertisedRoutes", {}))

    def _ask(self, command: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = json.loads(self._run("bgpd", command))
        return answer

    def _run(self, daemon: str, *commands: str, deadline_s: float = ANSWER_DEADLINE_S) -> str:
        with self.explaining():
            return self._vtys[daemon].run(*commands, deadline_s=deadline_s)

    def announce(self, prefixes: Sequence[str]) -> None:
        known = set(self.config.announced)
        new = [prefix for prefix in prefixes if prefix not in known]
        self._route("replace", new)
        self._configure(new)
        self.config = self.config.with_prefixes(new)

    def withdraw(self, prefixes: Sequence[str]) -> None:
        unwanted = set(prefixes)
        withdrawn = [prefix for prefix in self.config.announced if prefix in unwanted]
        self._configure(withdrawn, "no ")
        self._route("delete", withdrawn)
        self.config = self.config.without_prefixes(withdrawn)

    def _configure(self, prefixes: Sequence[str], undo: str = "") -> None:
        lines: list[str] = []
        for prefix in prefixes:
            lines += [f"router bgp {self.config.asn}", f"address-family {family_of(prefix)} unicast"]
            lines += [f"{undo}network {prefix}", "exit-address-family", "exit"]
        if lines:
            self._run("bgpd", "configure terminal", *lines, "end", deadline_s=BULK_DEADLINE_S)

    def _route(self, verb: str, prefixes: Sequence[str]) -> None:
        """Add or delete blackhole routes in the kernel: ip(8) does many at once."""
        lines = [f"route {verb} blackhole {prefix} proto static\n" for prefix in prefixes]
        if lines:
            within = ["nsenter", f"--net={NETNS_DIRECTORY / self._namespace}"]
            run([*within, "ip", "-batch", "-"], stdin="".join(lines), deadline_s=BULK_DEADLINE_S)

    def restart(self) -> None:
        """Start the ended daemons, with what is announced now."""
        for name, text in configuration(self.config).items():
            (self.directory / f"{name}.conf").write_text(text, encoding="utf-8")
        for name in self.start_missing():
            self._vtys[name].close()
            self._await_answer(name)

    def close(self) -> None:
        for vty in self._vtys.values():
            vty.close()
        super().close()
