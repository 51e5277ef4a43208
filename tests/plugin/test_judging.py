"""SLA verdicts, broken testbeds and evidence as a user sees them, on a simulated DUT."""

from __future__ import annotations

import json
from pathlib import Path

import misdelivering_dut
import pytest
from user_project import CONFTEST, records

SIMULATED = """
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator({dut}))
"""

SLA = "schema: 1\nrules:\n  - where: {{topology: phy2phy}}\n    require: {{{require}}}\n"


@pytest.fixture
def judged(suite):
    """Runs the suite on a simulated DUT with an SLA."""

    def run(require: str, dut: str = "4e6", *args: str) -> pytest.RunResult:
        suite.makeconftest(CONFTEST + SIMULATED.format(dut=dut))
        suite.makefile(".yaml", sla=SLA.format(require=require))
        return suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--nfv-report", "none", *args)

    return run


def test_a_met_sla_passes_and_says_so_in_the_table(judged, suite):
    result = judged("ndr: '>= 3.9 Mpps'")

    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["*datapath acceptance*", "*phy2phy*64*PASS*", "evidence: */reports/*"])
    (verdict,) = records(suite.path, "verdict")
    assert verdict["data"]["judgement"] == "PASS"
    assert "0 lost of" in verdict["data"]["confidence"]
    assert "at 95 %" in verdict["data"]["confidence"]
    assert records(suite.path, "run_end")[0]["data"]["counts"] == {"passed": 1}


def test_what_cannot_be_profiled_is_a_note_and_the_verdict_stands(judged, suite):
    """Steps: a DUT that meets its SLA has no poll-mode threads, and a profile of them is requested."""
    judged("ndr: '>= 3.9 Mpps'", "4e6", "--nfv-profile-cpu").assert_outcomes(passed=1, deselected=1)

    (outcome,) = records(suite.path, "outcome")
    assert [note for note in outcome["data"]["notes"] if note.startswith("no CPU profile: ")]
    assert [verdict["data"]["judgement"] for verdict in records(suite.path, "verdict")] == ["PASS"]


def test_the_report_is_one_page_beside_the_evidence(judged, suite):
    result = judged("ndr: '>= 3 Mpps'", "4e6", "--nfv-report", "html")

    result.stdout.fnmatch_lines(["report: *report.html"])
    page = (suite.path / "reports" / "latest" / "report.html").read_text()
    assert "test_ndr_pdr" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")


@pytest.mark.own_interpreter
def test_without_the_extra_charts_the_page_has_its_charts_and_allure_no_pictures(judged, suite):
    suite.makepyfile(hidden="import sys\nsys.modules['vl_convert'] = None\n")

    result = judged("ndr: '>= 3 Mpps'", "4e6", "-p", "hidden", "--nfv-report", "html", "--alluredir", "allure")

    result.assert_outcomes(passed=1, deselected=1)
    reports = suite.path / "reports" / "latest"
    page = (reports / "report.html").read_text()
    assert 'class="chart"' in page
    assert 'id="vega"' in page
    assert "<svg" in page.partition('<section id="topologies">')[2]
    assert not (reports / "charts").exists()
    kinds = {path.suffix for path in (suite.path / "allure").iterdir()}
    assert ".csv" in kinds
    assert ".png" not in kinds


def test_a_missed_sla_fails_with_a_table(judged, suite):
    result = judged("ndr: '>= 5 Mpps'")

    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "SLA of mine test_ndr_pdr: phy2phy, frame 64, flows 1, bidirectional, dpdk:",
            "  1 FAIL",
            "verdict*requirement*observed*limit*margin",
            "FAIL * ndr >= 5 Mpps * [34].* Mpps * 5.00 Mpps * -[12]?.? %",
            "    evidence: trial-00*",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    (ended,) = records(suite.path, "test_end")
    assert ended["data"]["status"] == "failed"
    assert ended["data"]["reason"].endswith("flows 1, bidirectional, dpdk: 1 FAIL"), "one line, however it is folded"


def test_a_dut_that_sends_frames_twice_fails_though_no_rule_names_that(suite):
    """Seen: each of 8,535 frames came twice, PASS, and no word about it."""
    suite.makepyfile(copying_dut=Path(misdelivering_dut.__file__).read_text())
    ours = SIMULATED.replace("pytest_nfvperf.adapters.generators.fake import", "copying_dut import Misdelivers as")
    suite.makeconftest(CONFTEST + ours.format(dut="4e6, wrong={'duplicated': 1.0}"))
    suite.makefile(".yaml", sla=SLA.format(require="ndr: '>= 3 Mpps'"))
    result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--nfv-report", "none")

    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["FAIL *duplicated_ratio <= 0 *100 %*", "*rule: a datapath delivers each frame once*"])
    verdicts = {each["data"]["metric"]: each["data"] for each in records(suite.path, "verdict")}
    assert [(metric, each["judgement"]) for metric, each in verdicts.items()] == [
        ("ndr", "PASS"),
        ("duplicated_ratio", "FAIL"),
    ]
    purposes = {each["id"]: each["data"]["result"]["spec"]["purpose"] for each in records(suite.path, "trial")}
    (trial,) = verdicts["duplicated_ratio"]["evidence"]
    assert not purposes[trial].startswith(("search", "warm-up"))


def test_a_rule_is_named_from_the_rootdir_wherever_pytest_was_called(judged, suite, monkeypatch):
    """The rootdir is the run's, so a page, a log or a JUnit file says the same on every machine."""
    (suite.path / "pytest.ini").write_text("[pytest]\n")
    (suite.path / "mine" / "sla.yaml").write_text(SLA.format(require="ndr: '>= 5 Mpps'"))
    suite.makeconftest(CONFTEST + SIMULATED.format(dut="4e6"))
    monkeypatch.chdir(suite.path / "mine")
    result = suite.runpytest_subprocess(
        "--nfv-results=../reports", "--junitxml=junit.xml", "--alluredir=allure", "--nfv-report=html"
    )

    rule = "mine/sla.yaml:3: rules[0]"
    result.stdout.fnmatch_lines([f"    rule: {rule.replace('[', '[[]')}"])
    assert [verdict["data"]["rule"] for verdict in records(suite.path, "verdict")] == [rule]
    allure = "".join(path.read_text() for path in (suite.path / "mine" / "allure").glob("*-result.json"))
    page = (suite.path / "reports" / "latest" / "report.html").read_text()
    for text in ((suite.path / "mine" / "junit.xml").read_text(), allure, page):
        assert rule in text
        assert f"/{rule}" not in text


def test_a_metric_that_was_not_measured_is_inconclusive_and_named(judged):
    result = judged("cycles_per_packet: '<= 200 cycles'")

    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        ["*1 INCONCLUSIVE", "INCONCLUSIVE * cycles_per_packet <= 200 cycles*", "*cycles_per_packet*not measured*"]
    )


def test_inconclusive_can_be_a_warning(judged):
    result = judged("cycles_per_packet: '<= 200 cycles'", "4e6", "--nfv-inconclusive", "warn", "-W", "default")

    result.assert_outcomes(passed=1, deselected=1, warnings=1)
    result.stdout.fnmatch_lines(["*InconclusiveWarning:*", "  SLA of*"])


def test_an_sla_above_the_rigs_ceiling_is_inconclusive(judged):
    result = judged("ndr: '>= 20 Mpps'", "50e6")

    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["INCONCLUSIVE * ndr >= 20 Mpps*", "*generator-limited*"])


def test_a_rig_that_is_never_valid_is_inconclusive_not_a_failure_of_the_dut(judged):
    result = judged("ndr: '>= 1 Mpps'", "4e6, invalid_every=1")

    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["INCONCLUSIVE * ndr >= 1 Mpps*", "*trials in a row were invalid*skipped_frames*"])


def test_a_generator_that_dies_is_a_testbed_error_with_its_log(judged, suite):
    result = judged("ndr: '>= 1 Mpps'", "4e6, fail_at=3")

    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        ["testbed error: the simulated generator died", "--- generator log ---", "killed by fail_at"]
    )
    assert records(suite.path, "error")[0]["data"]["message"] == "the simulated generator died"
    assert len(records(suite.path, "trial")) == 2, "finished trials stay readable"


def test_a_testbed_that_breaks_again_and_again_makes_later_tests_cite_the_first_cause(judged, suite):
    (suite.path / "mine" / "test_mine.py").write_text(
        "import pytest\n"
        "from pytest_nfvperf.model.traffic.traffic import Traffic\n"
        "@pytest.mark.parametrize('n', range(5))\n"
        "def test_it(n, phy2phy, search):\n"
        "    search.ndr_pdr(phy2phy, Traffic(frame_size=64))\n"
    )

    result = judged("ndr: '>= 1 Mpps'", "4e6, fail_at=3")

    result.assert_outcomes(failed=3, errors=2)
    result.stdout.fnmatch_lines(
        [
            (
                "testbed error: the testbed broke 3 times and is not built again; "
                "first in mine/test_mine.py::test_it[[]0]: the simulated generator died"
            )
        ]
    )


def test_a_relation_is_judged_against_what_this_run_measured(judged, suite):
    (suite.path / "mine" / "test_mine.py").write_text(
        "from pytest_nfvperf.model.traffic.traffic import Traffic\n"
        "def test_one(phy2phy, search, sla):\n"
        "    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=64)))\n"
        "def test_two(pvp, search, sla):\n"
        "    sla.check(search.ndr_pdr(pvp, Traffic(frame_size=64)))\n"
    )
    suite.makefile(".yaml", sla="")

    result = judged("ndr: '>= 1 Mpps'")
    result.assert_outcomes(passed=2)

    suite.makefile(
        ".yaml", relation="schema: 1\nrules:\n  - where: {topology: pvp}\n    require: {ndr: '>= 90 % of phy2phy'}\n"
    )
    suite.runpytest_subprocess("--nfv-sla", "relation.yaml").assert_outcomes(passed=2)
    result = suite.runpytest_subprocess("--nfv-sla", "relation.yaml", "-k", "test_two")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["INCONCLUSIVE * ndr >= 90 % of phy2phy*"])


def test_last_failed_and_exitfirst_work(judged, suite):
    judged("ndr: '>= 5 Mpps'").assert_outcomes(failed=1, deselected=1)

    result = suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--lf", "-x")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["run-last-failure: rerun previous 1 failure*"])


def test_it_works_without_the_cache_and_quietly(judged):
    result = judged("ndr: '>= 3 Mpps'", "4e6", "-p", "no:cacheprovider", "-q")

    result.assert_outcomes(passed=1, deselected=1)


def test_parallel_workers_share_one_testbed_and_one_result(judged, suite):
    (suite.path / "mine" / "test_mine.py").write_text(
        "import pytest\n"
        "from pytest_nfvperf.model.traffic.traffic import Traffic\n"
        "@pytest.mark.parametrize('frame_size', [64, 128, 256, 512])\n"
        "def test_ndr_pdr(frame_size, phy2phy, search, sla):\n"
        "    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))\n"
    )

    result = judged("ndr: '>= 3 Mpps'", "4e6", "-n", "2")

    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines_random(
        ["*datapath acceptance*", *[f"*phy2phy*{size}*PASS*" for size in (64, 128, 256, 512)]]
    )
    files = list((suite.path / "reports" / "latest").glob("evidence*.jsonl"))
    with_trials = [file for file in files if '"kind":"trial"' in file.read_text()]
    assert len(with_trials) == 1, "one machine is one testbed: all its tests run in one worker"


def test_junit_and_allure_carry_the_figures(judged, suite):
    judged("ndr: '>= 3 Mpps'", "4e6", "--junitxml", "junit.xml", "--alluredir", "allure").assert_outcomes(
        passed=1, deselected=1
    )

    xml = (suite.path / "junit.xml").read_text()
    assert 'name="nfvperf.ndr.load_fps"' in xml
    results = [json.loads(path.read_text()) for path in (suite.path / "allure").glob("*-result.json")]
    assert any(label == {"name": "suite", "value": "mine"} for label in results[0]["labels"])
    assert (suite.path / "allure" / "categories.json").is_file()
    assert (suite.path / "allure" / "environment.properties").is_file()


BURSTS = """
from pytest_nfvperf.model.traffic.traffic import Traffic
def test_bursts(phy2phy, search, sla):
    sla.check(search.back_to_back(phy2phy, Traffic(frame_size=64)))
"""

WEAK_RIG = """
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

class Weak(FakeGenerator):
    def run_trial(self, spec):
        self.invalid_every = 1 if "burst" in spec.purpose and spec.load_fps > {most} else None
        return super().run_trial(spec)

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: Weak(20e6))
"""


@pytest.fixture
def bursts(suite):
    """Bursts on a rig that holds none above a rate, by an SLA."""

    def run(most: str, require: str) -> pytest.RunResult:
        suite.makeconftest(CONFTEST + WEAK_RIG.format(most=most))
        (suite.path / "mine" / "test_mine.py").write_text(BURSTS)
        suite.makefile(".yaml", sla=f"schema: 1\nrules:\n  - {require}\n")
        return suite.runpytest_subprocess("--nfv-sla", "sla.yaml", "--nfv-report", "none")

    return run


NEEDED = "{where: {test: test_bursts}, require: {back_to_back_frames: '>= 32 frames'}}"


def test_bursts_that_the_rig_does_not_hold_are_tried_at_a_lower_rate(bursts, suite):
    bursts("4e6", NEEDED).assert_outcomes(passed=1)

    (outcome,) = records(suite.path, "outcome")
    assert outcome["data"]["back_to_back"]["load_fps"] <= 4e6
    (note,) = outcome["data"]["notes"]
    assert note.startswith("the rig did not sustain bursts at 7.65 Mpps (skipped_frames 6x), 5.36 Mpps")


def test_bursts_that_the_rig_never_holds_are_inconclusive_with_the_rates(bursts):
    result = bursts("0", NEEDED)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["INCONCLUSIVE * back_to_back_frames >= 32 frames*", "*the rig sustained no burst at any rate; its ceiling*"]
    )


def test_what_could_not_be_measured_is_inconclusive_where_no_rule_asks_for_it(bursts):
    result = bursts("0", "{where: {test: test_bursts}, require: {}}".replace("{}", "{ndr: '>= 1 Mpps'}"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INCONCLUSIVE * ndr >= 1 Mpps*"])


def test_a_search_that_came_to_nothing_does_not_pass_for_want_of_a_rule(judged, suite):
    (suite.path / "mine" / "sla.yaml").write_text(
        "schema: 1\nrules:\n  - where: {frame_size: 1518}\n    require: {ndr: '>= 1 Mpps'}\n"
    )
    suite.makeconftest(CONFTEST + SIMULATED.format(dut="4e6, invalid_every=1"))

    result = suite.runpytest_subprocess("--nfv-report", "none")

    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["INCONCLUSIVE: nothing could be measured; ndr: search aborted: *"])
