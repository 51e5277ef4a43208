"""A user's project whose testbed is simulated, and forwards as fast as each side's name says. For tests of compare."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from user_project import CONFTEST, make_project

BACKEND = '''
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend, SimulatedDatapath
from pytest_nfvperf.model.errors import TestbedError

RATES = {"slow": 3.4e6, "fast": 4.4e6, "dead": 1e-9}

class Dying(SimulatedDatapath):
    """One that dies after some trials."""

    checks = 0

    def check_alive(self):
        self.checks += 1
        if self.checks > 3:
            raise TestbedError("vswitchd was killed by signal 11")

class Side(SimulatedBackend):
    """A rig whose DUT is as fast as its version is called. ``name``: of a companion."""

    def __init__(self, testbed, clock=None, name=""):
        super().__init__(testbed)
        self.clock = clock or self.clock
        self.name, self.generators, self.rates = name, [], [4e6]
        self.companions = BESIDE and not name

    def make_generator(self):
        made = FakeGenerator(
            self.rates[-1], noise=0.004, ceiling_fps=9.1e6, clock=self.clock, seed=len(self.name)
        )
        self.generators.append(made)
        return made

    def make_datapath(self, dut):
        if dut.version == "broken":
            raise TestbedError("vswitchd ended with status 127", evidence={"ovs-vswitchd.log": "no such library"})
        self.rates.append(RATES.get(dut.version, 4e6))
        for generator in self.generators[-1:]:
            generator.capacity_fps = self.rates[-1]
        return (Dying if dut.version == "dying" else SimulatedDatapath)(self.clock, dut.kind or "dpdk")

    def beside(self, name):
        return Side(self.testbed, self.clock, "beside" + name).parts()

    def room_for_companions(self):
        return 5

def pytest_nfvperf_make_backend(config, testbed):
    return Side(testbed)
'''

SUITE = """
from pytest_nfvperf import Traffic

def test_ndr_pdr(phy2phy, search, sla):
    outcome = search.ndr_pdr(phy2phy, Traffic(frame_size=64))
    sla.check(outcome)
"""


def sides_project(pytester: pytest.Pytester, suite: str = SUITE, *, side_by_side: bool = True) -> pytest.Pytester:
    """A project with one suite; ``side_by_side``: its testbed can have several DUTs at once."""
    return make_project(pytester, suite, f"{CONFTEST}\nBESIDE = {side_by_side}\n{BACKEND}")


def compare(pytester: pytest.Pytester, *sides: str, behind: tuple[str, ...] = ()) -> pytest.RunResult:
    """``nfvperf compare SIDES -- mine BEHIND``."""
    return pytester.run(
        *(sys.executable, "-m", "pytest_nfvperf.cli.main", "compare", *sides),
        *("--", "mine", "--nfv-report", "none", "-p", "no:cacheprovider", *behind),
    )


def document(pytester: pytest.Pytester) -> dict[str, Any]:
    """``comparison.json`` of the newest run."""
    text = (pytester.path / "reports" / "latest" / "comparison.json").read_text()
    made: dict[str, Any] = json.loads(text)
    return made
