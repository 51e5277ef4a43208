"""FRR as a ports.routing.BgpSpeaker: zebra, bgpd and, where BFD is asked for, bfdd.

What it announces is a ``network`` of bgpd's, beside a route to nowhere in the kernel, which the DUT's agent follows.
Not FRR's own static routes: since FRR 9 staticd takes them from mgmtd only, whose files and sockets are the machine's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, run
from pytest_nfvperf.adapters.process.programs import PROGRAMS
from pytest_nfvperf.adapters.routing.frr.frr_config import configuration, network
from pytest_nfvperf.adapters.routing.frr.frr_state import frr_session_state
from pytest_nfvperf.adapters.routing.frr.frr_vty import Vty
from pytest_nfvperf.adapters.routing.speakers.awaiting import await_session
from pytest_nfvperf.adapters.routing.speakers.daemons import (
    BULK_DEADLINE_S,
    Daemon,
    Daemons,
    checked_configuration,
    executable,
    refusal,
)
from pytest_nfvperf.adapters.routing.speakers.session_log import FrrLog
from pytest_nfvperf.model.routing.bgp import SessionCondition, SessionState, SpeakerConfig, SpeakerInfo

DIRECTORIES = PROGRAMS["bgpd"].directories
_REFUSED = "on config line"
_BFD_CONTROL = "--bfdctl"


class FrrSpeaker:
    """FRR in a namespace, in a private state directory.

    It runs as root: a daemon that changes its user loses the parent-death signal (prctl(2)), and would outlive us.

    Args:
        journal: of this run.
        namespace: under /run/netns, with the addresses that it speaks from.
        config: what it is.
        role: names its directory.
        cpus: CPUs that it may run on; all when empty.
    """

    def __init__(
        self, journal: Journal, namespace: str, config: SpeakerConfig, *, role: str = "frr", cpus: Sequence[int] = ()
    ) -> None:
        self.config = config
        self._files = configuration(config)
        self._binaries = {name: executable(name, DIRECTORIES) for name in self._files}
        self._namespace = namespace
        self._daemons = Daemons(journal, namespace, role, cpus=cpus)
        directory = self._daemons.directory
        self._log = FrrLog(directory / "bgpd.log")
        self._vtys = {name: Vty(directory / f"{name}.vty", name) for name in self._files}

    @property
    def directory(self) -> Path:
        """Where its vty sockets are."""
        return self._daemons.directory

    @cached_property
    def _version(self) -> str:
        return run([self._binaries["bgpd"], "--version"]).split()[2]

    def info(self) -> SpeakerInfo:
        return SpeakerInfo("FRR", self._version, tuple(self._files))

    def start(self) -> None:
        """Have each daemon check its file, then start them."""
        self._route("replace", self.config.announced)
        for name, text in self._files.items():
            (self._daemons.directory / f"{name}.conf").write_text(text, encoding="utf-8")
            self._check_configuration(name)
        for name in self._files:
            self._daemons.start(self._daemon(name))
            self._await_answer(name)  # the others connect to zebra when they start, and later only after seconds

    def _check_configuration(self, name: str) -> None:
        """By the daemon itself, which ends well even when it passed over a line, and only logs that."""
        said = checked_configuration(name, [self._binaries[name], "-C", *self._common(name), "--log", "stdout"])
        refused = [line for line in said.splitlines() if _REFUSED in line]
        if refused:
            raise refusal(name, "; ".join(refused))

    def _common(self, name: str) -> tuple[str, ...]:
        directory = self._daemons.directory
        return (
            "-f",
            str(directory / f"{name}.conf"),
            "-i",
            str(directory / f"{name}.pid"),
            "-u",
            "root",
            "-g",
            "frrvty",
        )

    def _daemon(self, name: str) -> Daemon:
        directory = self._daemons.directory
        argv = (self._binaries[name], *self._common(name), "--vty_socket", str(directory), "-P", "0")
        argv += ("-z", str(directory / "zserv.api"), "--log", "stdout")
        argv += ("--log-level", "debug" if name == "bfdd" else "info")
        if name == "bfdd" and _BFD_CONTROL in run([self._binaries[name], "--help"]):  # newer ones have none
            argv += (_BFD_CONTROL, str(directory / "bfdd.sock"))
        return Daemon(name, argv, f"{name}.vty")

    def _await_answer(self, name: str) -> None:
        self._daemons.await_answer(name, lambda: self._vtys[name].run("show version"))

    def session(self, neighbor: str) -> SessionState:
        known = self.config.neighbor(neighbor)
        told = self._ask(f"show bgp neighbors {neighbor} json").get(neighbor, {})
        return frr_session_state(known, told, self._log.reason_of(neighbor))

    def announced_to(self, neighbor: str) -> list[str]:
        """Prefixes that it announces to a neighbour now."""
        self.config.neighbor(neighbor)
        told = self._ask(f"show bgp ipv4 unicast neighbors {neighbor} advertised-routes json")
        return list(told.get("advertisedRoutes", {}))

    def _ask(self, command: str) -> Mapping[str, Mapping[str, object]]:
        answer: Mapping[str, Mapping[str, object]] = json.loads(self._run("bgpd", command))
        return answer

    def _run(self, daemon: str, *commands: str, deadline_s: float | None = None) -> str:
        with self._daemons.explaining():
            return self._vtys[daemon].run(*commands, deadline_s=deadline_s)

    def await_session(
        self, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
    ) -> SessionState:
        return await_session(self, neighbor, condition, awaited, deadline_s)

    def announce(self, prefixes: Sequence[str]) -> None:
        """Prefixes beside those that are announced."""
        new = [prefix for prefix in prefixes if prefix not in set(self.config.announced)]
        self._route("replace", new)
        self._configure(new)
        self.config = self.config.announcing((*self.config.announced, *new))

    def withdraw(self, prefixes: Sequence[str]) -> None:
        """Announce them no longer."""
        gone = [prefix for prefix in self.config.announced if prefix in set(prefixes)]
        self._configure(gone, undo=True)
        self._route("delete", gone)
        self.config = self.config.announcing(tuple(p for p in self.config.announced if p not in gone))

    def _configure(self, prefixes: Sequence[str], *, undo: bool = False) -> None:
        lines = [line for prefix in prefixes for line in network(self.config.asn, prefix, undo=undo)]
        if lines:
            self._run("bgpd", "configure terminal", *lines, "end", deadline_s=BULK_DEADLINE_S)

    def _route(self, verb: str, prefixes: Sequence[str]) -> None:
        """Routes to nowhere in the kernel: ip(8) does many at once."""
        lines = [f"route {verb} blackhole {prefix} proto static\n" for prefix in prefixes]
        if lines:
            within = ["nsenter", f"--net={NETNS_DIRECTORY / self._namespace}"]
            run([*within, "ip", "-batch", "-"], stdin="".join(lines), deadline_s=BULK_DEADLINE_S)

    def pids(self) -> Mapping[str, int]:
        """Process ids by daemon."""
        return self._daemons.pids()

    def restart(self) -> None:
        """Start those that ended, with what is announced now."""
        for name, text in configuration(self.config).items():
            (self._daemons.directory / f"{name}.conf").write_text(text, encoding="utf-8")
        for name in self._daemons.start_missing():
            self._vtys[name].close()
            self._await_answer(name)

    def check(self) -> None:
        self._daemons.check()

    def logs(self) -> Mapping[str, str]:
        """The ends of the daemons' logs."""
        return self._daemons.logs()

    def close(self) -> None:
        """Stop the daemons and remove their directory."""
        for vty in self._vtys.values():
            vty.close()
        self._daemons.close()
