"""A BIRD that runs already and is somebody else's, as a ports.bgp_speaker.BgpSpeaker: looked at, and asked to announce.

BIRD takes no routes at run time; it can enable and disable protocols. So what it can announce are the prefixes of
static protocols that its own configuration has, and the testbed file names (``announces``). Each is left as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.routing.bird.bird_control import BirdControl
from pytest_nfvperf.adapters.routing.bird.bird_state import bfd_status, session_state
from pytest_nfvperf.adapters.routing.lab.lab_process import LabProcess
from pytest_nfvperf.adapters.routing.lab.lab_undo import Announced
from pytest_nfvperf.adapters.routing.speakers.awaiting import await_session
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.routing.bgp import (
    BfdTimers,
    Neighbor,
    SessionCondition,
    SessionState,
    SpeakerConfig,
    SpeakerInfo,
)
from pytest_nfvperf.model.testbed.testbed import LabSpeaker

_FIELD = re.compile(r"^\s+(Neighbor address|Neighbor AS|Local AS):\s+(\S+)")
_SCOPE = "%"
"""Before the interface in the address of a neighbour that is link-local."""


class LabBird:
    """BIRD by its control socket.

    Args:
        journal: of this run: what is announced is noted before.
        spec: which one.

    Raises:
        ConfigError: it has no protocol of a name that the testbed file says.
        TestbedError: it does not listen there, or has no BGP protocol.
    """

    def __init__(self, journal: Journal, spec: LabSpeaker) -> None:
        self._name = spec.name
        self._socket = Path(spec.socket)
        advice = f"is BIRD running, and is this its control socket? (speaker {spec.name!r} of the testbed file)"
        self._process = LabProcess("bird", self._socket, advice)
        self._control = BirdControl(self._socket)
        self._can = dict(spec.announces)
        self._announced = Announced(journal)
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
            raise TestbedError(f"BIRD of speaker {self._name!r} has no BGP protocol: there is no session to watch")
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
                    f"BIRD of speaker {self._name!r} has no static protocol {protocol!r} with {prefix}; it has: "
                    f"{', '.join(sorted(there)) or 'none'}",
                    key="speakers",
                )

    def info(self) -> SpeakerInfo:
        """Engine, version, daemons."""
        return SpeakerInfo("BIRD", self._run("show status")[0].split()[-1], ("bird",))

    def start(self) -> None:
        """It runs already; TestbedError when it does not."""
        self.check()

    def session(self, neighbor: str) -> SessionState:
        """The session with a neighbour; BIRD counts no flaps."""
        known = self.config.neighbor(neighbor)
        lines = self._run(f"show protocols all {self._protocols[neighbor]}")
        bfd = bfd_status(known, self._run("show bfd sessions")) if known.bfd is not None else None
        return session_state(known, lines, ends=(None, ""), now=datetime.now(), bfd=bfd)

    def _run(self, command: str) -> list[str]:
        try:
            return self._control.run(command)
        except TestbedError:
            self._process.check_after_error()  # that it died, or is stopped, says more
            raise

    def await_session(
        self, neighbor: str, condition: SessionCondition, awaited: str, deadline_s: float
    ) -> SessionState:
        """Wait until a session is as wanted."""
        return await_session(self, neighbor, condition, awaited, deadline_s)

    def announce(self, prefixes: Sequence[str]) -> None:
        """Enable their protocols, until ``withdraw`` or ``close``.

        Raises:
            ConfigError: no protocol of the testbed file has it, or it is announced already.
        """
        for prefix in prefixes:
            if prefix in self._announced.prefixes:
                continue
            protocol = self._protocol_for(prefix)
            if self._is_up(protocol):
                raise ConfigError(
                    f"BIRD of speaker {self._name!r} already announces {prefix} from its own configuration"
                )
            self._announced.note(prefix, "bird", self._socket, [f"disable {protocol}"])
            self._run(f"enable {protocol}")
        self.config = self.config.announcing(self._announced.prefixes)

    def _protocol_for(self, prefix: str) -> str:
        if prefix not in self._can:
            raise ConfigError(
                f"BIRD of speaker {self._name!r} cannot announce {prefix}: name a static protocol of its configuration "
                f"that has it, 'announces: {{{prefix}: PROTOCOL}}', and leave that disabled",
                key="speakers",
            )
        return self._can[prefix]

    def _is_up(self, protocol: str) -> bool:
        rows = (line.split() for line in self._run(f"show protocols {protocol}"))
        return any(words[0] == protocol and words[3] == "up" for words in rows if len(words) > 3)

    def withdraw(self, prefixes: Sequence[str]) -> None:
        """What we announced; BIRD's own announcements stay."""
        for prefix in prefixes:
            self._announced.take_back(prefix)
        self.config = self.config.announcing(self._announced.prefixes)

    def pids(self) -> Mapping[str, int]:
        """Of bird."""
        return {} if self._process.pid is None else {"bird": self._process.pid}

    def restart(self) -> None:
        """TestbedError: it is not ours."""
        raise TestbedError(f"BIRD of speaker {self._name!r} belongs to somebody else: nfvperf does not restart it")

    def check(self) -> None:
        """TestbedError when it has ended or is stopped."""
        self._process.check()

    def logs(self) -> Mapping[str, str]:
        """Where they are is not known."""
        return {}

    def close(self) -> None:
        """Take back what we announced. Can be called twice."""
        self.withdraw(self._announced.prefixes)
        self._control.close()
