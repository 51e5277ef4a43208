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


class AcmeCeilings:
    """The generator's own limits: what the data sheet says."""

    def cached(self, traffic: nfv.Traffic | nfv.TrafficMix, directions: int) -> float | None:
        """Known beforehand."""
        return _CEILING_FPS

    def measure(self, traffic: nfv.Traffic | nfv.TrafficMix, directions: int) -> float | None:
        """Not measured."""
        return self.cached(traffic, directions)


class AcmeBackend:
    """Fulfils extend.Backend, and starts BGP daemons."""

    def __init__(self, testbed: extend.Testbed) -> None:
        self.testbed = testbed
        self.clock = AcmeClock()
        self._routes = Routes()

    def check(self) -> None:
        """Nothing can be missing."""

    def lacks(self, dut: nfv.Dut) -> str | None:
        """There is one datapath."""
        return None if dut.kind is None else f"Acme's switch has no datapath {dut.kind!r}"

    def lacks_roles(self, topology: nfv.Topology, dut: nfv.Dut) -> str | None:
        """The tester sends and receives; it is no VNF."""
        vnfs = [port.name for port in topology.ports if port.role == "forwarder"]
        return f"Acme's tester runs no VNF: {', '.join(vnfs)} of {topology.name!r}" if vnfs else None

    def lacks_streams(self) -> str | None:
        """TCP is not simulated."""
        return "Acme's testbed has no engine for TCP and UDP streams"

    def labels(self) -> dict[str, str]:
        """What SLAs can select."""
        return {"datapath": "acme", "engine": "acme"}

    def describe(self) -> list[str]:
        """For the header."""
        return ["DUT:       Acme's switch, simulated", "generator: Acme's tester, simulated"]

    def parts(self) -> extend.RigParts:
        """Switch and tester share the routes."""
        return extend.RigParts(
            make_datapath=lambda dut: AcmeSwitch(),
            make_generator=lambda: AcmeTester(self.clock, self._routes),
            make_ledger=None,
            ceilings=AcmeCeilings(),
            pmd_cpus=0,
        )

    def bgp(self) -> AcmeBgp:
        """Starts the speakers."""
        return AcmeBgp(self._routes)

    def fingerprint(self) -> Mapping[str, Any]:
        """What must be equal for two runs to be compared."""
        return {"acme": "1.0"}

    def line_rate_bps(self) -> float | None:
        """Of the ports."""
        return 10e9

    def estimate_search_s(self, profile: nfv.Profile) -> float:
        """Trials are simulated."""
        return 0.0

    def leftovers(self) -> list[str]:
        """None."""
        return []

    def close(self) -> None:
        """Nothing to give back."""
