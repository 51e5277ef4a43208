"""Plays a recording: the generator answers as it did in a lab, and the DUT is simulated.

Today's code measures and judges the recorded trials again, so a bug seen in a lab becomes a test.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.generators.engine import ReplayedCeilings, engine_of, read, replaying
from pytest_nfvperf.backends.embedded_side import side_class
from pytest_nfvperf.backends.generator_side import FEATURE_ENGINES, lacks_roles
from pytest_nfvperf.backends.simulated import SimulatedBackend, SimulatedDatapath
from pytest_nfvperf.measure.rig import RigParts
from pytest_nfvperf.model.display import listed
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.testbed.testbed import Dut, Testbed
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Datapath
from pytest_nfvperf.ports.generator import Generator, MakeConnects, SendRequests


class ReplayBackend(SimulatedBackend):
    """Wires a recorded generator to a simulated DUT. Starts nothing, needs no rights."""

    def __init__(self, testbed: Testbed) -> None:
        super().__init__(testbed)
        if testbed.generator.recording is None:
            raise ConfigError("engine 'replay' needs what it answers with", key="generator.recording")
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._path = Path(testbed.generator.recording)
        self._engine = engine_of(self._path)
        known = ("embedded", *FEATURE_ENGINES.names())
        if self._engine not in known:
            message = f"is a recording of engine {self._engine!r}, which is none of {listed(known)}"
            raise ConfigError(message, file=str(self._path), key="generator.recording")
        self._start = replaying(self._path, self._engine, self.clock.sleep)

    def lacks(self, dut: Dut) -> str | None:  # noqa: ARG002 - simulated, it can be all of them
        return None

    def describe(self) -> list[str]:
        return ["DUT:       none, a recording is played", f"generator: {self._engine}, from {self._path}"]

    def labels(self) -> dict[str, str]:
        return {**super().labels(), "engine": self._engine}

    def lacks_roles(self, topology: Topology, dut: Dut) -> str | None:
        return lacks_roles(self._engine, self.testbed, topology, dut)

    def parts(self) -> RigParts:
        self._directory = tempfile.TemporaryDirectory(prefix="nfv-replay-")
        self.ceilings = ReplayedCeilings(self._exchanges())
        return self

    @property
    def can_share(self) -> bool:
        return False

    def make_datapath(self, dut: Dut) -> Datapath:
        return SimulatedDatapath(self.clock, dut.kind or self.testbed.ovs.datapath, self._devices())

    def make_requests(self) -> SendRequests:
        return RigParts.make_requests(self)  # none was recorded

    def make_connects(self) -> MakeConnects:
        return RigParts.make_connects(self)

    def close(self) -> None:
        if self._directory is not None:
            self._directory.cleanup()

    def _devices(self) -> dict[str, str]:
        """TRex's port numbers, by the names under which they were attached."""
        attached = [one["arguments"] for one in self._exchanges() if one.get("cmd") == "attach"]
        return {arguments["name"]: str(arguments["port"]) for arguments in attached if "port" in arguments}

    def _exchanges(self) -> list[dict[str, Any]]:
        return [dict(one) for conversation in read(self._path) for one in conversation]

    def make_generator(self) -> Generator:
        assert self._directory is not None  # of parts()
        return side_class(self._engine).replayed(self.testbed, Path(self._directory.name), self._start)
