"""A third party's backend, by the public API alone, registered by the hook: docs/examples/acme_testbed.

The suites of this project run on it: their tests of routing too, against its own speakers and its own tester.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
ROUTING = ROOT / "suites" / "routing"


@pytest.fixture
def acme(pytester, monkeypatch):
    """Runs pytest with the third party's plugin, and this project's suites."""
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))

    def run(*args):
        return pytester.runpytest_subprocess(
            *("-p", "acme_testbed.plugin", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")),
            *("-p", "no:cacheprovider", "--nfv-results", str(pytester.path / "reports")),
            *map(str, args),
        )

    return run


def outcomes(project: Path) -> dict[str, dict]:
    """Of the newest run, by the name of the test."""
    lines = (project / "reports" / "latest" / "evidence.jsonl").read_text().splitlines()
    found = [record for line in lines if (record := json.loads(line))["kind"] == "outcome"]
    return {record["test"].rpartition("::")[2]: record["data"] for record in found}


def test_the_routing_suite_runs_on_it(acme, pytester):
    result = acme(
        f"{ROUTING}/test_convergence.py::test_establishment",
        f"{ROUTING}/test_convergence.py::test_withdraw_and_announce",
        f"{ROUTING}/test_convergence.py::test_flap_storm",
        f"{ROUTING}/test_frame_sizes_routed.py::test_ndr_pdr[64]",
    )

    result.assert_outcomes(passed=4)
    measured = outcomes(pytester.path)
    ndr = next(goal for goal in measured["test_ndr_pdr[64]"]["goals"] if goal["goal"]["name"] == "ndr")
    assert 3.9e6 < ndr["load_fps"] <= 4e6  # what its tester is made to forward
    times = {sample["metric"]: sample["values"] for sample in measured["test_withdraw_and_announce"]["samples"]}
    assert len(times["withdrawal_time"]) == len(times["announcement_time"]) == 3
    assert all(0 < value < 1 for metric in ("withdrawal_time", "announcement_time") for value in times[metric])


def test_its_daemons_die_and_its_cables_are_cut(acme, pytester):
    result = acme(
        f"{ROUTING}/test_failures.py::test_neighbour_fails[killed]",
        f"{ROUTING}/test_failures.py::test_link_fails[neighbour]",
        f"{ROUTING}/test_failures.py::test_graceful_restart",
    )

    result.assert_outcomes(passed=3)
    measured = outcomes(pytester.path)
    outages = {
        name: sample["values"][0]
        for name, data in measured.items()
        for sample in data["samples"]
        if sample["metric"] == "outage_time"
    }
    assert outages["test_neighbour_fails[killed]"] > 1  # killed at 0.4 s, started again at 2.4 s
    assert outages["test_link_fails[neighbour]"] > 1  # cut at 0.3 s, mended at 1.6 s
    assert outages["test_graceful_restart"] == 0  # the routes were kept
    flaps = {name: data["sessions"]["flaps"] for name, data in measured.items() if data["sessions"]}
    assert flaps == {"test_neighbour_fails[killed]": 1, "test_link_fails[neighbour]": 1}


def test_what_it_lacks_is_a_skip_with_its_own_words(acme):
    result = acme(f"{ROOT}/suites/throughput/test_vnfs.py", "--nfv-profile", "quick", "-rs")

    result.stdout.fnmatch_lines(["*SKIPPED*Acme's tester runs no VNF: *"])
    assert result.parseoutcomes().get("passed", 0) == 0


BARE = """
from acme_testbed.backend import AcmeBackend
from pytest_nfvperf.extend import Backend

pytest_plugins = ["pytest_nfvperf.fixtures.all"]


class Bare(Backend):
    '''What a backend must have, and nothing else.'''

    def __init__(self, testbed):
        super().__init__(testbed)
        self._acme = AcmeBackend(testbed)
        self.clock = self._acme.clock

    def describe(self):
        return self._acme.describe()

    def parts(self):
        return self._acme


def pytest_nfvperf_make_backend(config, testbed):
    return Bare(testbed)
"""

SUITE = """
import pytest_nfvperf as nfv


def test_bgp(bgp_path):
    raise AssertionError("nobody starts daemons here")


def test_ovn(private_ovn):
    private_ovn(nfv.phy2phy())


def test_forwarding(phy2phy, search):
    assert search.loss_at(phy2phy, nfv.Traffic(frame_size=64), 1e6, 1.0).loss_curve[0].loss_ratio == 0
"""


def test_a_backend_without_daemons_skips_what_needs_them(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    pytester.makeconftest(BARE)
    pytester.makepyfile(SUITE)

    result = pytester.runpytest_subprocess("-rs")

    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines_random(
        [
            "*SKIPPED*BGP on this testbed is not possible: its backend starts no such daemons*",
            "*SKIPPED*OVN on this testbed is not possible: its backend starts no such daemons*",
        ]
    )
