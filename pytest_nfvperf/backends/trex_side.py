"""TRex as the generator of a lab: a server that runs already, or one that the run starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_nfvperf.adapters.generators.engine import StartEngine, recording
from pytest_nfvperf.adapters.generators.trex.child import ChildOptions, candidates
from pytest_nfvperf.adapters.generators.trex.generator import TrexGenerator, measure
from pytest_nfvperf.adapters.generators.trex.server import TrexServer, start_server
from pytest_nfvperf.adapters.journal.journal import TAG_VARIABLE, Journal, Kind, note_process
from pytest_nfvperf.adapters.process.outputs import KeptFile
from pytest_nfvperf.backends.generator_side import Engine, TakenMachine, digest
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import GeneratorSpec, Testbed
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.generator import Ceilings, Generator
from pytest_nfvperf.runs.ceilings import CachedCeilings, Ceiling
from pytest_nfvperf.runs.placement import ForgottenRoundTrips


class TrexSide:
    """Fulfils GeneratorSide."""

    def __init__(self, testbed: Testbed) -> None:
        self._spec = testbed.generator
        self._server: TrexServer | None = None
        self._trex: TrexGenerator | None = None

    def check(self) -> None:
        """The client library of TRex's distribution; says where to name it."""
        if not candidates(self._spec):
            raise ConfigError(
                "no TRex client library was found: write 'client: DIRECTORY' of the server's own TRex distribution",
                key="generator.client",
            )

    def describe(self) -> str:
        return f"TRex at {self._spec.server}, ports {', '.join(map(str, self._spec.ports))}"

    def line_rate_bps(self) -> float | None:
        """Layer-1 rate of TRex's slowest port; that of its virtual ports is none."""
        held = self._trex.held.values() if self._trex is not None else ()
        return min((port.speed_bps for port in held if not port.virtual and port.speed_bps), default=None)

    def polling_cpus(self) -> tuple[int, ...]:
        """None: cables are between."""
        return ()

    def round_trips(self, machine: TakenMachine) -> ForgottenRoundTrips:  # noqa: ARG002 - see polling_cpus
        return ForgottenRoundTrips()

    def ceilings(self, machine: TakenMachine) -> Ceilings:
        """Measured once a run: of another server nobody knows the hardware."""
        spec, journal = self._spec, machine.journal

        def meter(traffic: Traffic, directions: int) -> Ceiling:
            if self._trex is None:
                raise TestbedError("TRex's ceiling was asked for before TRex was connected")
            return Ceiling(measure(self._trex, spec.ports, traffic, directions))

        facts = digest({"server": spec.server, "ports": spec.ports, "run": journal.tag})
        return CachedCeilings(KeptFile(journal.directory / "trex-ceilings.json", facts), "trex", meter)

    def beside_mib(self) -> int | None:
        """There is one TRex."""
        return None

    def make(self, machine: TakenMachine, beside: str = "") -> Generator:  # noqa: ARG002 - there is one
        """Connect to the server; one that is the run's is started before."""
        journal, start = machine.journal, self._spec.trex.start
        self._start_server(journal)
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

    def _start_server(self, journal: Journal) -> None:
        start = self._spec.trex.start
        if start is None or (self._server is not None and self._server.running()):
            return
        if self._server is not None:
            self._server.stop()  # it died: its interfaces are put back before they are looked at anew
        self._server = start_server(self._spec.trex, start, journal, {})

    def close(self) -> None:
        """Stop the server if it is the run's."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()


def _replayed(testbed: Testbed, directory: Path, start: StartEngine) -> Generator:
    spec = GeneratorSpec("trex", server="recorded", client="recorded", ports=testbed.generator.ports)
    return TrexGenerator(spec, directory, options=ChildOptions(start=start))


TREX = Engine(TrexSide, _replayed)
