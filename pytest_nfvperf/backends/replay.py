"""Plays a recording: the generator answers as it did in a lab, and the DUT is simulated.

Today's code measures and judges the recorded trials again, so a bug seen in a lab becomes a test.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.adapters.generators.engine import ReplayedCeilings, engine_of, read, replaying
from pytest_nfvperf.adapters.generators.fake import FakeStreams
from pytest_nfvperf.backends.generator_side import FEATURE_ENGINES, lacks_roles
from pytest_nfvperf.backends.simulated import ASSUMED_BPS, SimulatedBackend, SimulatedDatapath
from pytest_nfvperf.measure.rig import RigParts
from pytest_nfvperf.model.display import listed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.generator import Generator


class ReplayBackend:
    """Wires a recorded generator to a simulated DUT. Starts nothing, needs no rights."""

    def __init__(self, testbed: Testbed) -> None:
        simulated = SimulatedBackend(testbed)
        self.testbed = testbed
        self.clock = simulated.clock
        # All but the generator is as on a simulated testbed.
        self.check = simulated.check
        self.lacks_streams = simulated.lacks_streams
        self.daemons = simulated.daemons
        self.fingerprint = simulated.fingerprint
        self.line_rate_bps = simulated.line_rate_bps
        self.estimate_search_s = simulated.estimate_search_s
        self.leftovers = simulated.leftovers
        if testbed.generator.recording is None:
            raise ConfigError("engine 'replay' needs what it answers with", key="generator.recording")
        self._path = Path(testbed.generator.recording)
        self._engine = engine_of(self._path)
        known = ("embedded", *FEATURE_ENGINES.names())
        if self._engine not in known:
            message = f"is a recording of engine {self._engine!r}, which is none of {listed(known)}"
            raise ConfigError(message, file=str(self._path), key="generator.recording")
        self._start = replaying(self._path, self._engine, self.clock.sleep)
        self._directory = tempfile.TemporaryDirectory(prefix="nfv-replay-")

    def lacks(self, dut: Dut) -> str | None:  # noqa: ARG002 - simulated, it can be all of them
        return None

    def describe(self) -> list[str]:
        return ["DUT:       none, a recording is played", f"generator: {self._engine}, from {self._path}"]

    def labels(self) -> dict[str, str]:
        return {"datapath": self.testbed.ovs.datapath, "engine": self._engine}

    def lacks_roles(self, topology: Topology, dut: Dut) -> str | None:
        return lacks_roles(self._engine, self.testbed, topology, dut)

    def parts(self) -> RigParts:
        return RigParts(
            make_datapath=lambda dut: SimulatedDatapath(
                self.clock, dut.kind or self.testbed.ovs.datapath, self._devices()
            ),
            make_generator=self._replayed,
            make_ledger=None,
            ceilings=ReplayedCeilings(self._exchanges()),
            pmd_cpus=len(self.testbed.cpus.pmd),
            make_streams=lambda: FakeStreams(ASSUMED_BPS, clock=self.clock),
        )

    def close(self) -> None:
        self._directory.cleanup()

    def _devices(self) -> dict[str, str]:
        """TRex's port numbers, by the names under which they were attached."""
        attached = [one["arguments"] for one in self._exchanges() if one.get("cmd") == "attach"]
        return {arguments["name"]: str(arguments["port"]) for arguments in attached if "port" in arguments}

    def _exchanges(self) -> list[dict[str, Any]]:
        return [dict(one) for conversation in read(self._path) for one in conversation]

    def _replayed(self) -> Generator:
        directory = Path(self._directory.name)
        if self._engine == "embedded":
            return EmbeddedGenerator(
                self._path,
                cpus=self.testbed.cpus.generator,
                control_cpus=self.testbed.cpus.housekeeping,
                run_dir=directory,
                file_prefix="replay",
                options=EngineOptions(start=self._start),
            )
        replay = FEATURE_ENGINES.part(self._engine).replay
        if replay is None:
            raise ConfigError(
                f"{self._path} is of engine {self._engine!r}, which plays none", key="generator.recording"
            )
        return replay(self.testbed, directory, self._start)
