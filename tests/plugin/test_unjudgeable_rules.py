"""SLA rules that can never be judged: refused by --nfv-plan and at the start, with file and key."""

from __future__ import annotations

import pytest
from user_project import CONFTEST, make_project

SIMULATED = """
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6))
"""

SUITE = """
import pytest
import pytest_nfvperf as nfv
from pytest_nfvperf import Traffic, sweep

@sweep("size", [64, 1518], quick={64})
def test_search(size, phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=size), latency=True))
"""

DEPLOYING = """
import pytest_nfvperf as nfv
from pytest_nfvperf import Traffic

def test_search(deploy, search, sla):
    sla.check(search.ndr_pdr(deploy(nfv.pvp()), Traffic(), latency=True))
"""

NEVER = {
    '{ndr: ">= 100 % of line rate"}': (
        "ndr >= 100 % of line rate can never be judged: ndr is required as a share of line rate, and no port that the "
        "frames cross has one: write a rate, such as '>= 4 Mpps', or line_rate of the ports in the testbed file"
    ),
    '{latency_p99: {at: 30 % of pdr, limit: "<= 1 ms"}}': (
        "latency_p99 <= 1 ms at 30 % of pdr can never be judged: latency_p99 is not measured at 30 % of pdr: profile "
        "quick measures it at 10 % of pdr, 50 % of pdr, 90 % of pdr; write one of these, or a load in frames/s, "
        "such as '4 Mpps'"
    ),
    '{latency_p50: {at: 50 % of ndr, limit: "<= 1 ms"}}': (
        "latency_p50 <= 1 ms at 50 % of ndr can never be judged: latency_p50 is not measured at 50 % of ndr: profile *"
    ),
    '{loss_ratio: {at: 50 % of pdr, limit: "<= 0"}}': (
        "loss_ratio <= 0 at 50 % of pdr can never be judged: loss_ratio is not measured at 50 % of pdr: a confirmation "
        "measures it at 100 % of pdr; *"
    ),
    '{pdr: {repeats: 5, limit: ">= 1 Mpps"}}': (
        "pdr >= 1 Mpps over 5 repeats can never be judged: asks for 5 repeats, and this run makes one search: add "
        "--nfv-repeat 5"
    ),
    '{tcp_throughput: ">= 1 Gbps"}': (
        "tcp_throughput >= 1 Gbps can never be judged: no search measures tcp_throughput, and the tests it selects "
        "only search: correct the selector or the metric"
    ),
    '{ndr: ">= 90 % of pvp"}': (
        "ndr >= 90 % of pvp can never be judged: no selected test measures {topology: pvp}, which it is compared with: "
        "select that test, too, or correct the rule"
    ),
    '{ndr: ">= 90 % of {size: 128}"}': (
        "ndr >= 90 % of {size: 128} can never be judged: no selected test measures {size: 128}, which it is compared *"
    ),
}

POSSIBLE = (
    '{ndr: ">= 1 Mpps"}',
    '{ndr: {repeats: 1, limit: ">= 1 Mpps"}}',
    '{latency_p99: {at: 50 % of pdr, limit: "<= 1 ms"}}',
    '{loss_ratio: {at: 100 % of pdr, limit: "<= 1 %"}}',
    '{ndr: ">= 90 % of phy2phy"}',
    '{ndr: ">= 90 % of baseline"}',
    '{ndr: ">= 90 % of {size: 64}"}',
)


def project(pytester: pytest.Pytester, require: str, suite: str = SUITE) -> pytest.Pytester:
    make_project(pytester, suite, CONFTEST + SIMULATED)
    (pytester.path / "mine/sla.yaml").write_text(f"schema: 1\nrules:\n  - require: {require}\n")
    return pytester


@pytest.mark.parametrize("require", NEVER)
@pytest.mark.parametrize("plan", [True, False], ids=["plan", "run"])
def test_what_can_never_be_judged_is_refused_before_anything_runs(pytester, require, plan):
    result = project(pytester, require).runpytest_subprocess(
        "--nfv-report", "none", "mine", *(["--nfv-plan"] if plan else [])
    )

    assert result.ret == 4
    metric = require[1 : require.index(":")]
    result.stderr.fnmatch_lines([f"ERROR: mine/sla.yaml:3: rules[[]0[]].require.{metric}: {NEVER[require]}"])
    assert not (pytester.path / "reports/latest/evidence.jsonl").exists() or (
        '"kind":"trial"' not in (pytester.path / "reports/latest/evidence.jsonl").read_text()
    )


@pytest.mark.parametrize("require", POSSIBLE)
def test_what_can_be_judged_is_planned(pytester, require):
    result = project(pytester, require).runpytest_subprocess("--nfv-plan", "mine")

    assert result.ret == 0, result.stderr.str()


def test_a_line_rate_of_the_testbed_makes_it_possible(pytester):
    lined = SIMULATED.replace(
        "    return SimulatedBackend(testbed,",
        "    from dataclasses import replace\n"
        "    from pytest_nfvperf.model.testbed.testbed import DutPort\n"
        "    testbed = replace(testbed, ports=tuple(DutPort(n, 'interface', line_rate_bps=1e9) for n in 'ab'))\n"
        "    return SimulatedBackend(testbed,",
    )
    make_project(pytester, SUITE, CONFTEST + lined)
    (pytester.path / "mine/sla.yaml").write_text('schema: 1\nrules:\n  - require: {ndr: ">= 1 % of line rate"}\n')

    assert pytester.runpytest_subprocess("--nfv-report", "none", "mine").ret == 0


def test_a_test_that_deploys_its_own_is_refused_by_the_plan_and_before_its_measurement(pytester):
    project(pytester, '{ndr: ">= 100 % of line rate"}', DEPLOYING)
    why = "usage error: mine/sla.yaml:3: rules[[]0[]].require.ndr: ndr >= 100 % of line rate can never be judged: *"

    planned = pytester.runpytest_subprocess("--nfv-plan", "mine")
    planned.stdout.fnmatch_lines([f"*::test_search: cannot be planned: {why}"])
    assert planned.ret == 4

    run = pytester.runpytest_subprocess("--nfv-report", "none", "mine")
    run.stdout.fnmatch_lines([why])
    assert run.ret == 4
    assert '"kind":"trial"' not in (pytester.path / "reports/latest/evidence.jsonl").read_text().replace(" ", "")


def test_a_test_of_which_nobody_knows_what_it_measures_is_left_to_the_judge(pytester):
    own = "\n\n@pytest.fixture\ndef search(nfv_session, nfv_labels):\n    return nfv_session.search(nfv_labels)\n"
    project(pytester, '{latency_p99: {at: 30 % of pdr, limit: "<= 1 ms"}}', SUITE + own)

    assert pytester.runpytest_subprocess("--nfv-plan", "mine").ret == 0


def test_who_picks_one_test_may_leave_the_other_side_out(pytester):
    """The relation is INCONCLUSIVE then, and says so."""
    project(pytester, '{ndr: ">= 90 % of {size: 1518}"}')

    assert pytester.runpytest_subprocess("--nfv-plan", "mine", "-k", "64").ret == 0
    assert pytester.runpytest_subprocess("--nfv-plan", "mine").ret == 4, "the quick profile leaves 1518 out"


def test_a_smoke_run_does_not_ask_for_repeats(pytester):
    project(pytester, '{pdr: {repeats: 5, limit: ">= 1 Mpps"}}')

    assert pytester.runpytest_subprocess("--nfv-plan", "--nfv-profile", "smoke", "mine").ret == 0
