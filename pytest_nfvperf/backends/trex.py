"""Makes a lab real whose generator is TRex: the DUT as elsewhere, the frames from a server of TRex's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_nfvperf.adapters.generators.recording import recording
from pytest_nfvperf.adapters.generators.trex.ceiling import measure
from pytest_nfvperf.adapters.generators.trex.child import ChildOptions
from pytest_nfvperf.adapters.generators.trex.clients import candidates
from pytest_nfvperf.adapters.generators.trex.generator import TrexGenerator
from pytest_nfvperf.adapters.generators.trex.server import TrexServer, start_server
from pytest_nfvperf.adapters.journal.identity import TAG_VARIABLE
from pytest_nfvperf.adapters.journal.journal import Journal, Kind
from pytest_nfvperf.backends.local import LocalBackend, note_process
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.generator import Generator
from pytest_nfvperf.runs.ceilings import CachedCeilings, Ceiling
from pytest_nfvperf.runs.rig_parts import Ceilings


class TrexBackend(LocalBackend):
    """Wires a testbed whose generator is TRex.

    Args:
        testbed: what to wire.
        keep: leave the run directory when done.
        record: directory for recordings of the conversation with TRex; None: it is not recorded.
    """

    def __init__(self, testbed: Testbed, *, keep: bool = False, record: Path | None = None) -> None:
        super().__init__(testbed, keep=keep, record=record)
        self._server: TrexServer | None = None
        self._trex: TrexGenerator | None = None

    def _check_generator(self) -> None:
        if not candidates(self.testbed.generator):
            raise ConfigError(
                "no TRex client library was found: write 'client: DIRECTORY' of the server's own TRex distribution",
                key="generator.client",
            )

    def _describe_generator(self) -> str:
        generator = self.testbed.generator
        ports = ", ".join(map(str, generator.ports))
        return f"TRex at {generator.server}, ports {ports}"

    def line_rate_bps(self) -> float | None:
        """Layer-1 rate of the slowest port, of the DUT or of TRex; that of TRex's virtual ports is none."""
        held = self._trex.held.values() if self._trex is not None else ()
        rates = [super().line_rate_bps(), *(port.speed_bps for port in held if not port.virtual)]
        return min((rate for rate in rates if rate), default=None)

    def close(self) -> None:
        """Give the machine back, the server first if it is ours."""
        server, self._server = self._server, None
        try:
            if server is not None:
                server.stop()
        finally:
            super().close()

    def _make_generator(self, journal: Journal) -> Generator:
        generator = self.testbed.generator
        start = generator.trex.start
        if start is not None and (self._server is None or not self._server.running()):
            if self._server is not None:
                self._server.stop()  # it died: its interfaces are put back before they are looked at anew
            self._server = start_server(generator.trex, start, journal, {})
        entry = journal.note(Kind.PROCESS, "TRex client", gentle=True)
        options = ChildOptions(
            env={TAG_VARIABLE: journal.tag},
            netns=start.netns if start else None,
            on_spawn=lambda pid: note_process(journal, entry, pid),
            server=self._server,
        )
        if self.record is not None:
            options = replace(options, start=recording(options.start, "trex", self.recording_path(journal)))
        self._trex = TrexGenerator(generator, journal.directory, options=options)
        return self._trex

    def _ceilings(self, journal: Journal) -> Ceilings:
        generator = self.testbed.generator
        # Of another server nobody knows the hardware: it is measured once a run.
        facts: Mapping[str, object] = {"server": generator.server, "ports": generator.ports, "run": journal.tag}
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

        def meter(traffic: Traffic, directions: int) -> Ceiling:
            if self._trex is None:
                raise TestbedError("TRex's ceiling was asked for before TRex was connected")
            return Ceiling(measure(self._trex, generator.ports, traffic, directions))

        return CachedCeilings(journal.directory / "trex-ceilings.json", digest, "trex", meter)
