"""TRex as the generator of a testbed, and what it needs on this machine."""

from __future__ import annotations

import os
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

from pytest_nfvperf.adapters.generators.engine import StartEngine, recording
from pytest_nfvperf.adapters.machine.check import Check, CheckState, Finding
from pytest_nfvperf.adapters.process.journal import TAG_VARIABLE, Kind, note_process
from pytest_nfvperf.adapters.process.outputs import StoredValueFile
from pytest_nfvperf.backends.generator_side import FeatureEngine, ReservedMachine, digest
from pytest_nfvperf.features.trex.child import (
    PYPI,
    VARIABLE,
    ChildOptions,
    candidates,
    connect,
    holds_client,
    no_client_library,
    stl_version,
)
from pytest_nfvperf.features.trex.generator import TrexGenerator, measure_ceiling
from pytest_nfvperf.features.trex.server import TrexServer, binary_of, missing, start_server
from pytest_nfvperf.measure.cpu_placement import RoundTrips
from pytest_nfvperf.measure.limits import CachedCeilings, Ceiling
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec, Testbed, TrexStart
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.generator import Ceilings, Generator

_CONNECT_S = 2.0
_SERVER, _CLIENT = "TRex server", "TRex client"


def trex_checks(testbed: Testbed | None) -> list[Check]:
    if testbed is None or testbed.generator.engine != "trex":
        directory = os.environ.get(VARIABLE)
        seen = f"{VARIABLE}={directory}" if directory else "no testbed names it"
        return [Check("TRex", CheckState.OK, f"not needed ({seen})")]
    generator = testbed.generator
    start = generator.trex.start
    if start is None:
        server = _listens(generator)
        client = _client_of_a_running(generator, listens=server.state is CheckState.OK)
        return [Check(_CLIENT, *client, needed=True), server]
    # A line for each thing that is missing, or one if the server can be started.
    absent = [
        Check(_SERVER, CheckState.MISSING, one.what, f"{one.advice} (generator.trex.start.{one.key})", needed=True)
        for one in missing(start)
    ]
    seen = f"{binary_of(start)} on {', '.join(start.interfaces)}"
    servers = absent or [Check(_SERVER, CheckState.OK, seen, needed=True)]
    return [Check(_CLIENT, *_client_for(start, generator), needed=True), *servers]


def _listens(generator: GeneratorSpec) -> Check:
    server, port = generator.server or "localhost", generator.trex.rpc_port
    try:
        with socket.create_connection((server, port), timeout=_CONNECT_S):
            return Check(_SERVER, CheckState.OK, f"{server}:{port}", needed=True)
    except OSError as error:
        advice = f"start TRex there: ./t-rex-64 -i (its RPC port is {port}; another: generator.trex.rpc_port)"
        return Check(_SERVER, CheckState.MISSING, f"{server}:{port}: {error}", advice, needed=True)


def _client_of_a_running(generator: GeneratorSpec, *, listens: bool) -> Finding:
    """Ask the server whether it understands the library."""
    libraries = _libraries(generator)
    if not libraries:
        return _no_library(generator)
    if not listens:
        advice = "start the server and run doctor again: only the server can say whether it understands the library"
        return CheckState.WARN, f"{_library_name(libraries[0])}, not tried: the server does not answer", advice
    with tempfile.TemporaryDirectory(prefix="nfv-doctor-") as directory:
        try:
            link, hello = connect(generator, Path(directory) / "trex-client.log", ChildOptions())
        except NfvperfError as error:
            return _refused(error)
        link.close()
    return CheckState.OK, f"{hello['library']}, which server {hello['server']['version']} understands", ""


def _client_for(start: TrexStart, generator: GeneratorSpec) -> Finding:
    """Without a running server the library must speak the protocol of the server's own distribution."""
    libraries = _libraries(generator)
    if not libraries:
        return _no_library(generator)
    with tempfile.TemporaryDirectory(prefix="nfv-doctor-") as directory:
        log = Path(directory) / "trex-client.log"
        try:
            spoken = stl_version(libraries[0], log)
            own = stl_version(start.path, log) if holds_client(Path(start.path)) else None
        except NfvperfError as error:
            return _refused(error)
    name = _library_name(libraries[0])
    if own is not None and own != spoken:
        advice = "leave generator.client out, or let it name the server's own distribution"
        return CheckState.MISSING, f"{name} speaks STL {spoken}, the server in {start.path} STL {own}", advice
    return CheckState.OK, f"{name}, STL {spoken}", ""


def _libraries(generator: GeneratorSpec) -> list[str]:
    return [path for path in candidates(generator) if not path or holds_client(Path(path))]


def _library_name(path: str) -> str:
    return "PyPI trex-stl-lib (servers of 2019)" if path == PYPI else path


def _no_library(generator: GeneratorSpec) -> Finding:
    advice = f"unpack TRex and name its directory by generator.client in the testbed file, or by {VARIABLE}"
    return CheckState.MISSING, f"none in {generator.client or 'the usual places'}", advice


def _refused(error: NfvperfError) -> Finding:
    """The error says what went wrong and what to do, with a semicolon in between."""
    what, _, advice = str(error).partition("; ")
    key = "generator.client: " if isinstance(error, ConfigError) else ""
    return CheckState.MISSING, what.removeprefix(key), advice


class TrexSide:
    """Fulfils GeneratorSide: an existing server, or one that the run starts."""

    def __init__(self, testbed: Testbed) -> None:
        self._spec = testbed.generator
        self._server: TrexServer | None = None
        self._trex: TrexGenerator | None = None

    def check(self) -> None:
        if not candidates(self._spec):
            raise no_client_library()

    def describe(self) -> str:
        return f"TRex at {self._spec.server}, ports {', '.join(map(str, self._spec.ports))}"

    def line_rate_bps(self) -> float | None:
        """Layer-1 rate of TRex's slowest port; virtual ports have none."""
        ports = self._trex.ports.values() if self._trex is not None else ()
        return min((port.speed_bps for port in ports if not port.virtual and port.speed_bps), default=None)

    def polling_cpus(self) -> tuple[int, ...]:
        return ()

    def round_trips(self, machine: ReservedMachine) -> RoundTrips:  # noqa: ARG002 - see polling_cpus
        return RoundTrips()

    def ceilings(self, machine: ReservedMachine) -> Ceilings:
        """Ceilings, measured once a run: a later server of this name may be other hardware."""
        spec, journal = self._spec, machine.journal

        def meter(traffic: Traffic, directions: int) -> Ceiling:
            if self._trex is None:
                raise TestbedError("TRex's ceiling was asked for before TRex was connected")
            return Ceiling(measure_ceiling(self._trex, spec.ports, traffic, directions))

        facts = digest({"server": spec.server, "ports": spec.ports, "run": journal.tag})
        return CachedCeilings(StoredValueFile(journal.directory / "trex-ceilings.json", facts), "trex", meter)

    def extra_generator_mib(self) -> int | None:
        return None

    def make(self, machine: ReservedMachine, beside: str = "") -> Generator:  # noqa: ARG002 - there is one
        """Connect to the server, after starting it if the run has to."""
        journal, start = machine.journal, self._spec.trex.start
        if start is not None and not (self._server is not None and self._server.running()):
            self.close()  # a server that died: restore its interfaces before the next one checks them
            self._server = start_server(self._spec.trex, start, journal, {})
        entry = journal.note(Kind.PROCESS, "TRex client", gentle=True)
        options = ChildOptions(
            env={TAG_VARIABLE: journal.tag},
            netns=start.netns if start else None,
            on_spawn=lambda pid: note_process(journal, entry, pid),
            server=self._server,
        )
        if machine.recording is not None:
            options = replace(options, start=recording(options.start, "trex", machine.recording))
        self._trex = TrexGenerator(self._spec, journal.directory, options=options)
        return self._trex

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()


def _replayed(testbed: Testbed, directory: Path, start: StartEngine) -> Generator:
    spec = GeneratorSpec("trex", server="recorded", client="recorded", ports=testbed.generator.ports)
    return TrexGenerator(spec, directory, options=ChildOptions(start=start))


TREX = FeatureEngine(TrexSide, _replayed)
