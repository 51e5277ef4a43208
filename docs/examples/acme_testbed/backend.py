"""Acme's backend: what nfvperf asks of a testbed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest_nfvperf as nfv
from acme_testbed.routes import Routes
from acme_testbed.speakers import AcmeBgp
from acme_testbed.switch import AcmeSwitch
from acme_testbed.tester import AcmeClock, AcmeTester
from pytest_nfvperf import extend

_CEILING_FPS = 14_000_000.0


class AcmeCeilings(extend.Ceilings):
    """The generator's own limits: what the data sheet says."""

    def cached(self, traffic: nfv.Traffic | nfv.TrafficMix, directions: int) -> float | None:
        """Known beforehand."""
        return _CEILING_FPS


class AcmeBackend(extend.Backend, extend.RigParts):
    """Acme's testbed, and the parts of its rig."""

    ceilings = AcmeCeilings()

    def __init__(self, testbed: extend.Testbed) -> None:
        super().__init__(testbed)
        self.clock = self._clock = AcmeClock()
        self._routes = Routes()

    def lacks(self, dut: nfv.Dut) -> str | None:
        """There is one datapath."""
        return None if dut.kind is None else f"Acme's switch has no datapath {dut.kind!r}"

    def lacks_roles(self, topology: nfv.Topology, dut: nfv.Dut) -> str | None:
        """The tester sends and receives; it is no VNF."""
        vnfs = [port.name for port in topology.ports if port.role == "forwarder"]
        return f"Acme's tester runs no VNF: {', '.join(vnfs)} of {topology.name!r}" if vnfs else None

    def labels(self) -> dict[str, str]:
        """What SLAs can select."""
        return {"datapath": "acme", "engine": "acme"}

    def describe(self) -> list[str]:
        """For the header."""
        return ["DUT:       Acme's switch, simulated", "generator: Acme's tester, simulated"]

    def parts(self) -> extend.RigParts:
        """There is no machine to lock."""
        return self

    def make_datapath(self, dut: nfv.Dut) -> AcmeSwitch:
        """It is there."""
        return AcmeSwitch()

    def make_generator(self) -> AcmeTester:
        """It knows the switch's routes."""
        return AcmeTester(self._clock, self._routes)

    def daemons(self, of: Any) -> Any:
        """For the fixtures ``bgp`` and ``bgp_path``."""
        return AcmeBgp(self._routes) if of.name == "BGP" else super().daemons(of)

    def fingerprint(self) -> Mapping[str, Any]:
        """What must be equal for two runs to be compared."""
        return {"acme": "1.0"}

    def line_rate_bps(self) -> float | None:
        """Of the ports."""
        return 10e9
