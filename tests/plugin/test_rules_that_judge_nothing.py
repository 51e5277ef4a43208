"""A rule, or an SLA file, that judges nothing would look like a pass: refused, said, or no acceptance."""

from __future__ import annotations

import pytest
from user_project import CONFTEST

from pytest_nfvperf.adapters.evidence.reader import conclude, read_run
from pytest_nfvperf.model.evidence.conclusion import RunResult

SIMULATED = """
from pytest_nfvperf.testing import FakeGenerator, SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(3.8e6))
"""
SWEPT = """
import pytest
from pytest_nfvperf import Traffic, compose, sweep
from pytest_nfvperf.parts import endpoint, path

@sweep("frame_size", [64, 1518], quick={64})
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))
"""
COMPOSED = """
EDGE = compose("edge", endpoint("p0", "br0"), endpoint("p1", "br0"), path("p0", "p1"))

def test_edge(deploy, search, sla):
    sla.check(search.ndr_pdr(deploy(EDGE), Traffic(frame_size=64)))
"""
FORGETFUL = "\ndef test_forgetful(phy2phy, search):\n    search.ndr_pdr(phy2phy, Traffic())\n"
GOOD = "{topology: phy2phy, frame_size: 64}"


def rules(*wheres: str, require: str = "{ndr: '>= 1 Mpps'}") -> str:
    return "schema: 1\nrules:\n" + "".join(f"  - {{where: {where}, require: {require}}}\n" for where in wheres)


def write(pytester: pytest.Pytester, suite: str, **files: str) -> None:
    pytester.makeconftest(CONFTEST + SIMULATED)
    folder = pytester.mkdir("mine")
    (folder / "test_mine.py").write_text(suite)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("--nfv-report", "none", *(arguments or ("mine",)))


def run_result(pytester: pytest.Pytester) -> RunResult:
    return conclude(read_run(pytester.path / "reports/latest")).result


MISSPELT = {
    "{topology: phy2phi}": "did you mean 'phy2phy'",
    "{test: test_ndrpdr}": "did you mean 'test_ndr_pdr'",
    "{frame_size: 1500}": "none has frame_size 1500",
    "{topology: phy2phy, frame_size: 128}": "none has frame_size 128",
    "{topolgy: phy2phy}": "unknown selector 'topolgy', did you mean 'topology'",
    "{suite: throughput}": "none has suite throughput",
}


@pytest.mark.parametrize(("where", "answer"), MISSPELT.items())
def test_a_rule_of_the_suites_own_file_that_selects_no_test_is_refused(pytester, where, answer):
    write(pytester, SWEPT, sla=rules(GOOD, where))

    result = run(pytester)

    assert result.ret == RunResult.USAGE.exit_status
    result.stderr.fnmatch_lines([f"ERROR: *mine/sla.yaml:4: rules[[]1]*{answer}*"])


@pytest.mark.parametrize("option", [("--nfv-plan",), ("-k", "64"), ("--nfv-profile", "smoke")])
def test_it_is_refused_whatever_else_is_asked(pytester, option):
    write(pytester, SWEPT, sla=rules(GOOD, "{topology: phy2phi}"))

    assert run(pytester, "mine", *option).ret == RunResult.USAGE.exit_status


LEFT_OUT = {
    "profile": (["mine"], GOOD, "{test: test_ndr_pdr, frame_size: 1518}"),
    "another profile": (["mine"], GOOD, "{profile: gate}"),
    "-k": (["mine", "-k", "ndr"], GOOD, "{test: test_edge}"),
    "-m": (["mine", "-m", "not marked"], GOOD, "{test: test_edge}"),
    "--deselect": (["mine", "--deselect", "mine/test_mine.py::test_edge"], GOOD, "{test: test_edge}"),
    "--ignore": (["mine", "--ignore", "mine/test_gone.py"], GOOD, "{test: test_gone}"),
    "node id": (["mine/test_mine.py::test_ndr_pdr[64]"], GOOD, "{test: test_edge}"),
    "file": (["mine/test_mine.py"], GOOD, "{test: test_gone}"),
    "testbed": (["mine"], GOOD, "{nic: ACME 100G}"),
    "datapath": (["mine"], GOOD, "{datapath: system}"),
}
SAID = {"profile", "-k", "-m", "--deselect"}


@pytest.mark.parametrize("by", LEFT_OUT)
def test_what_is_left_out_is_no_error_and_the_rest_may_be_accepted(pytester, by):
    arguments, *wheres = LEFT_OUT[by]
    write(pytester, SWEPT + COMPOSED.replace("def test_edge", "@pytest.mark.marked\ndef test_edge"), sla=rules(*wheres))
    (pytester.path / "mine/test_gone.py").write_text(SWEPT.replace("test_ndr_pdr", "test_gone"))
    pytester.makeini("[pytest]\nmarkers = marked")

    result = run(pytester, *arguments)

    said = [line for line in result.stdout.lines if "judge nothing here" in line]
    assert len(said) == (by in SAID)
    assert (result.ret, run_result(pytester)) == (0, RunResult.ACCEPTED)


@pytest.mark.parametrize(
    ("arguments", "where"),
    [(["mine/test_mine.py::test_edge"], "{test: test_ndr_pdr}"), (["mine"], "{nic: ACME}")],
    ids=["node id", "testbed"],
)
def test_a_file_of_which_all_is_left_out_says_so(pytester, arguments, where):
    write(pytester, SWEPT + COMPOSED, sla=rules(where))

    result = run(pytester, *arguments)

    assert (result.ret, run_result(pytester)) == (0, RunResult.PASSED)
    result.stdout.fnmatch_lines(
        ["nfvperf: 1 rule of 1 of this SLA match no test of this run, *: they judge nothing here"]
    )


def test_a_topology_that_only_the_measurement_shows_is_judged(pytester):
    write(pytester, SWEPT + COMPOSED, sla=rules(GOOD, "{topology: edge}"))

    assert run(pytester).ret == 0
    assert run_result(pytester) is RunResult.ACCEPTED


UNJUDGED = {
    "misspelt topology of a composition": (SWEPT + COMPOSED, rules(GOOD, "{topology: egde}"), "{topology: egde}"),
    "class of a traffic without classes": (SWEPT, rules(GOOD, "{class: voice}"), "{class: voice}"),
    "nothing called sla.check": (
        SWEPT + FORGETFUL,
        rules(GOOD, "{test: test_forgetful}"),
        "nothing called sla.check()",
    ),
    "no test of the file did": (FORGETFUL.join((SWEPT.partition("@sweep")[0], "")), rules("{}"), "nothing called sla"),
}


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
@pytest.mark.parametrize(("suite", "sla", "shown"), UNJUDGED.values(), ids=UNJUDGED)
def test_a_rule_that_judged_nothing_is_no_acceptance(pytester, suite, sla, shown, workers):
    write(pytester, suite, sla=sla)

    result = run(pytester, "mine", *workers)

    assert (result.ret, run_result(pytester)) == (RunResult.INCONCLUSIVE.exit_status, RunResult.INCONCLUSIVE)
    last = next(line for line in reversed(result.stdout.lines) if line.startswith("nfvperf: Inconclusive"))
    assert "mine/sla.yaml:" in last
    assert shown in last
    assert "quieter machine" not in last


def test_a_test_that_did_not_ask_beside_one_that_did_is_no_acceptance(pytester):
    write(pytester, SWEPT + FORGETFUL, sla=rules("{}"))

    result = run(pytester)

    assert (result.ret, run_result(pytester)) == (0, RunResult.PASSED)
    result.stdout.fnmatch_lines(["*measured; mine/sla.yaml:3: rules[[]0] would apply, and nothing called sla.check()"])


def test_skips_explain_that_a_rule_judged_nothing(pytester):
    write(pytester, SWEPT.replace("@sweep", "@pytest.mark.skip\n@sweep"), sla=rules(GOOD))

    assert (run(pytester).ret, run_result(pytester)) == (0, RunResult.PASSED)


def test_a_module_that_is_skipped_as_a_whole_may_have_the_missing_test(pytester):
    write(pytester, SWEPT, sla=rules(GOOD, "{test: test_gone}"))
    (pytester.path / "mine/test_gone.py").write_text(
        "import pytest\npytest.skip('not here', allow_module_level=True)\n"
    )

    assert run(pytester).ret == 0


@pytest.mark.parametrize("name", ["sla.yml", "SLA.yaml", "Sla.yml", "slas.yaml"])
def test_a_file_with_nearly_the_right_name_is_refused(pytester, name):
    write(pytester, SWEPT)
    (pytester.path / "mine" / name).write_text(rules(GOOD))

    result = run(pytester)

    assert result.ret == RunResult.USAGE.exit_status
    result.stderr.fnmatch_lines([f"ERROR: mine/{name}: is not read: call it sla.yaml*"])
    assert run(pytester, "mine", "--nfv-sla", f"mine/{name}").ret == 0


@pytest.mark.parametrize("folder", [".", "mine/deeper"])
def test_a_file_that_no_test_is_beside_is_refused(pytester, folder):
    write(pytester, SWEPT)
    (pytester.path / folder).mkdir(exist_ok=True)
    (pytester.path / folder / "sla.yaml").write_text(rules(GOOD))

    result = run(pytester, ".")

    assert result.ret == RunResult.USAGE.exit_status
    result.stderr.fnmatch_lines(["ERROR: *sla.yaml: judges nothing: put it beside the tests*"])
    assert run(pytester, "mine/test_mine.py::test_ndr_pdr[64]").ret == 0


@pytest.mark.parametrize("option", [(), ("--nfv-plan",)], ids=["run", "plan"])
def test_a_doubtful_limit_is_said_at_the_start(pytester, option):
    write(pytester, SWEPT, sla=rules(GOOD, require="{ndr: '>= 3 Mbps'}"))

    result = run(pytester, "mine", *option)

    assert result.ret == 0
    result.stdout.fnmatch_lines(["nfvperf: mine/sla.yaml:3: rules[[]0].require.ndr: '>= 3 Mbps' is 5.86 kpps*"])


def test_a_latency_that_nobody_asked_for_says_how_to_ask(pytester):
    write(pytester, SWEPT, sla=rules(GOOD, require="{latency_p99: {at: 50 % of pdr, limit: '<= 1 ms'}}"))

    result = run(pytester)

    assert result.ret == RunResult.INCONCLUSIVE.exit_status
    last = next(line for line in reversed(result.stdout.lines) if line.startswith("nfvperf: Inconclusive"))
    assert "latency=True" in last
    assert "quieter machine" not in last
