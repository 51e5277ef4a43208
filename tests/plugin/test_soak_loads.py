"""At which load a soak runs, and what becomes of one that the rig cannot bear, on a simulated DUT."""

from __future__ import annotations

import pytest
from user_project import CONFTEST, make_project, records

SOAK = """
from pytest_nfvperf import Traffic

def test_soak(phy2phy, soak, sla):
    sla.check(soak.run(phy2phy, Traffic(frame_size=64){load}))
"""

SIMULATED = """
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend, SimulatedCeilings

def measure(self, traffic, directions):
    self.cached(traffic, directions)
    return {today}

SimulatedCeilings.measure = measure

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator({dut}))
"""
IN_SOAKS = """
class InSoaks(FakeGenerator):
    \"\"\"At 4 Mpps soaks lose frames that short trials do not; the rig skips frames meanwhile, or does not.\"\"\"

    def start_trial(self, spec, interval_s):
        heavy = spec.load_fps >= 4_000_000
        self.loss_ratio, self.invalid_every = {loses} * heavy, 1 if heavy and {skips} else None
        return super().start_trial(spec, interval_s)

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: InSoaks(5e6))
"""


def in_soaks(*, skipping: bool, loss: float = 0.01) -> str:
    return IN_SOAKS.replace("{skips}", str(skipping)).replace("{loses}", str(loss))


SLA = "schema: 1\nrules: [{where: {topology: phy2phy}, require: {loss_ratio: '<= 0 %'}}]\n"


@pytest.fixture
def soaked(pytester: pytest.Pytester):
    """Runs a soak of 30 s on a simulated DUT and a rig with a ceiling of today."""

    def run(*args: str, dut: str = "5e6", today: float = 9e6, load: str = "", more: str = "") -> pytest.RunResult:
        conftest = CONFTEST + SIMULATED.format(dut=dut, today=today) + more
        make_project(pytester, SOAK.replace("{load}", load), conftest)
        (pytester.path / "mine" / "sla.yaml").write_text(SLA)
        half_a_minute = ("--nfv-profile", "gate", "--nfv-soak-duration", "30 s")
        return pytester.runpytest_subprocess("mine", "--nfv-report", "none", *half_a_minute, *args)

    return run


def soak_loads(pytester: pytest.Pytester) -> list[tuple[int, bool]]:
    """Of all soaks: the load, frames/s, and whether it came to its end."""
    soaks = [record["data"]["soak"] for record in records(pytester.path, "soak")]
    return [(int(soak["load_fps"]), not soak["interrupted"]) for soak in soaks]


def soak_load(pytester: pytest.Pytester) -> int:
    ((load, _),) = soak_loads(pytester)
    return load


def test_a_load_above_the_rigs_ceiling_of_today_is_inconclusive(soaked, pytester):
    result = soaked("--nfv-soak-load", "6 Mpps", today=4.5e6)

    assert result.ret == 10
    result.stdout.fnmatch_lines(
        ["INCONCLUSIVE: the load of 6.00 Mpps per direction is above what the rig itself sustains today, 4.50 Mpps: *"]
    )
    assert not records(pytester.path, "soak"), "it is not run for hours first"


def test_a_load_that_the_suite_names_is_refused_like_the_users(soaked):
    assert soaked(load=", load_fps=6e6", today=4.5e6).ret == 10


def test_a_dut_that_loses_at_a_load_that_the_rig_bears_fails(soaked, pytester):
    result = soaked("--nfv-soak-load", "6 Mpps")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAIL * loss_ratio <= 0 %*"])
    assert soak_load(pytester) == 6_000_000


def test_the_quick_profile_takes_half_the_load_of_s1(soaked, pytester):
    result = soaked("--nfv-profile", "quick")

    result.assert_outcomes(passed=1)
    assert soak_load(pytester) == 2_000_000


def test_half_the_load_of_s1_is_taken_where_the_rig_does_not_bear_all_of_it(soaked, pytester):
    result = soaked(today=3.5e6)

    result.assert_outcomes(passed=1)
    assert soak_load(pytester) == 2_000_000


def test_a_quarter_of_it_is_taken_where_the_dut_loses_at_half(soaked, pytester):
    result = soaked(dut="1.5e6")

    result.assert_outcomes(passed=1)
    assert soak_load(pytester) == 1_000_000


def test_a_share_of_the_ndr_is_taken_where_the_dut_loses_at_a_quarter(soaked, pytester):
    result = soaked(dut="0.8e6")

    result.assert_outcomes(passed=1)
    assert 500_000 < soak_load(pytester) < 700_000


def test_a_soak_that_the_rig_spoils_begins_again_at_half_the_load(soaked, pytester):
    result = soaked(more=in_soaks(skipping=True))

    result.assert_outcomes(passed=1)
    assert soak_loads(pytester) == [(4_000_000, False), (2_000_000, True)]
    given_up = records(pytester.path, "soak")[0]["data"]["soak"]
    assert given_up["interrupted"] == (
        "ended after 15.0 s of 30.0 s: too many intervals lost frames, or were disturbed, to go on with; another begins"
    )
    assert given_up["disturbed_count"] == 15


def test_a_short_soak_that_the_rig_spoiled_to_its_end_begins_again_at_half_the_load(soaked, pytester):
    result = soaked("--nfv-soak-duration", "20 s", more=in_soaks(skipping=True))

    result.assert_outcomes(passed=1)
    assert soak_loads(pytester) == [(4_000_000, True), (2_000_000, True)]


def test_a_soak_of_skipped_frames_begins_again_though_none_were_lost(soaked, pytester):
    result = soaked(more=in_soaks(skipping=True, loss=0.0))

    result.assert_outcomes(passed=1)
    assert soak_loads(pytester) == [(4_000_000, False), (2_000_000, True)]


def test_a_soak_in_which_the_dut_loses_frames_keeps_its_load(soaked, pytester):
    """A lower one would hide it."""
    result = soaked(more=in_soaks(skipping=False))

    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAIL * loss_ratio <= 0 %*"])
    assert soak_loads(pytester) == [(4_000_000, False), (4_000_000, True)]


def test_a_load_that_the_user_names_is_kept(soaked, pytester):
    result = soaked("--nfv-soak-load", "4 Mpps", more=in_soaks(skipping=True))

    assert result.ret == 10
    assert soak_loads(pytester) == [(4_000_000, True)]


def test_an_aborted_search_for_the_load_is_inconclusive(soaked):
    result = soaked("--nfv-soak-load", "80 %", dut="5e6, invalid_every=1")

    assert result.ret == 10
    result.stdout.fnmatch_lines(
        ["INCONCLUSIVE: the load is a share of the NDR, and no NDR could be found (* trials*): *"]
    )


def test_a_dut_without_an_ndr_fails(soaked):
    result = soaked("--nfv-soak-load", "80 %", dut="5e6, loss_ratio=0.01")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAIL: the load is a share of the NDR, and the DUT has none: loss ratio above 0 *"])
