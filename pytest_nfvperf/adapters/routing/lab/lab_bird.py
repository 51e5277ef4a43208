"""A BIRD that runs already and is somebody else's.

BIRD takes no routes at run time; it can enable and disable protocols. So what it can announce are the prefixes of
static protocols that its own configuration has, and the testbed file names (``announces``). Each is left as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pytest_nfvperf.adapters.routing.bird.bird_control import BirdControl
from pytest_nfvperf.adapters.routing.bird.bird_state import bfd_status, bird_session_state, server_time
from pytest_nfvperf.adapters.routing.lab.lab_process import LabProcess
from pytest_nfvperf.adapters.routing.lab.lab_undo import Announced
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.routing.bgp import BfdTimers, Neighbor, SessionState, SpeakerConfig
from pytest_nfvperf.model.testbed.testbed import LabSpeaker

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
        """Of the daemon."""
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
        """Hang up."""
        self._control.close()
