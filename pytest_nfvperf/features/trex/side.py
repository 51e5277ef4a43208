"""TRex as the generator of a testbed, and what it needs on this machine."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nfvperf.adapters.generators.checks import check_spec
from pytest_nfvperf.adapters.generators.engine import Engine, EngineLink, StartEngine, recording
from pytest_nfvperf.adapters.machine.machine_checks import Check, CheckState
from pytest_nfvperf.adapters.process.journal import TAG_VARIABLE, Kind, note_process
from pytest_nfvperf.adapters.process.outputs import StoredValueFile
from pytest_nfvperf.backends.generator_side import GeneratorSide, ReservedMachine, digest
from pytest_nfvperf.features.trex.child import (
    PYPI,
    client_directories,
    connect,
    holds_client,
    no_client_library,
)
from pytest_nfvperf.features.trex.generator import TrexGenerator, measure_ceiling
from pytest_nfvperf.features.trex.stream_plan import TrexPort, streams
from pytest_nfvperf.measure.limits import CachedCeilings, Ceiling
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec, Testbed
from pytest_nfvperf.model.traffic.mix import AnyTraffic
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.generator import Ceilings, Generator, GeneratorPort

_CONNECT_S = 2.0
_SERVER, _CLIENT = "TRex server", "TRex client"


def trex_checks(testbed: Testbed | None) -> list[Check]:
    if testbed is None or testbed.generator.engine != "trex":
        return [Check("TRex", CheckState.OK, "not needed (no testbed names it)")]
    generator = testbed.generator
    server = _running_server(generator)
    libraries = [path for path in client_directories(generator) if not path or holds_client(Path(path))]
    if libraries:
        return [_client(generator, libraries[0], listens=server.state is CheckState.OK), server]
    advice = "unpack TRex and name its directory by generator.client in the testbed file"
    where = generator.client or "the usual places"
    return [Check(_CLIENT, CheckState.MISSING, f"none in {where}", advice, needed=True), server]


def _running_server(generator: GeneratorSpec) -> Check:
    server, port = generator.server or "localhost", generator.trex.rpc_port
    try:
        with socket.create_connection((server, port), timeout=_CONNECT_S):
            return Check(_SERVER, CheckState.OK, f"{server}:{port}", needed=True)
    except OSError as error:
        advice = f"start TRex there: ./t-rex-64 -i (its RPC port is {port}; another: generator.trex.rpc_port)"
        return Check(_SERVER, CheckState.MISSING, f"{server}:{port}: {error}", advice, needed=True)


def _client(generator: GeneratorSpec, library: str, *, listens: bool) -> Check:
    """Ask the server whether it understands the library."""
    if not listens:
        name = library if library != PYPI else "PyPI trex-stl-lib (servers of 2019)"
        advice = "start the server and run doctor again: only the server can say whether it understands the library"
        seen = f"{name}, not tried: the server does not answer"
        return Check(_CLIENT, CheckState.WARN, seen, advice, needed=True)
    with tempfile.TemporaryDirectory(prefix="nfv-doctor-") as directory:
        try:
            link, hello = connect(generator, Path(directory) / "trex-client.log")
        except NfvperfError as error:
            # The error says what went wrong and what to do, with a semicolon in between.
            what, _, advice = str(error).partition("; ")
            key = "generator.client: " if isinstance(error, ConfigError) else ""
            return Check(_CLIENT, CheckState.MISSING, what.removeprefix(key), advice, needed=True)
        link.close()
    seen = f"{hello['library']}, which server {hello['server']['version']} understands"
    return Check(_CLIENT, CheckState.OK, seen, needed=True)


class TrexSide(GeneratorSide):
    """An existing server."""

    def __init__(self, testbed: Testbed) -> None:
        super().__init__(testbed)
        self._spec = testbed.generator
        self._trex: TrexGenerator | None = None

    def check(self) -> None:
        if not client_directories(self._spec):
            raise no_client_library()

    def describe(self) -> str:
        return f"TRex at {self._spec.server}, ports {', '.join(map(str, self._spec.ports))}"

    def line_rate_bps(self) -> float | None:
        """Layer-1 rate of TRex's slowest port; virtual ports have none."""
        ports = self._trex.ports.values() if self._trex is not None else ()
        return min((port.speed_bps for port in ports if not port.virtual and port.speed_bps), default=None)

    def ceilings(self, machine: ReservedMachine) -> Ceilings:
        """Ceilings, measured once a run: a later server of this name may be other hardware."""
        spec, journal = self._spec, machine.journal

        def meter(traffic: AnyTraffic, directions: int) -> Ceiling:
            if self._trex is None:
                raise TestbedError("TRex's ceiling was requested before TRex was connected")
            return Ceiling(measure_ceiling(self._trex, spec.ports, traffic, directions))

        facts = digest({"server": spec.server, "ports": spec.ports, "run": journal.tag})
        return CachedCeilings(StoredValueFile(journal.directory / "trex-ceilings.json", facts), "trex", meter)

    def make(self, machine: ReservedMachine, beside: str = "") -> Generator:  # noqa: ARG002 - there is one
        journal = machine.journal
        entry = journal.note(Kind.PROCESS, "TRex client", gentle=True)
        start_child = Engine if machine.recording is None else recording(Engine, "trex", machine.recording)

        def start(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> EngineLink:
            link = start_child(argv, log, {**env, TAG_VARIABLE: journal.tag})
            note_process(journal, entry, link.pid)
            return link

        self._trex = TrexGenerator(self._spec, journal.directory, start)
        return self._trex

    @classmethod
    def replayed(cls, testbed: Testbed, directory: Path, start: StartEngine) -> Generator:
        spec = GeneratorSpec("trex", server="recorded", client="recorded", ports=testbed.generator.ports)
        return TrexGenerator(spec, directory, start)

    @staticmethod
    def check_trial(spec: TrialSpec, ports: Mapping[str, GeneratorPort]) -> None:
        """What a server could not send or count, as far as it is known without one."""
        check_spec(ports, spec)
        streams(spec, {name: TrexPort(number, port) for number, (name, port) in enumerate(ports.items())})
