"""What the plugin says before anything is measured. Runs as any user, on any machine."""

from __future__ import annotations

import subprocess
import sys

import pytest
from user_project import ordinary_user


def run_plan(suite: pytest.Pytester, *args: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("--nfv-plan", *args)


def test_the_plan_lists_trials_and_time_and_sends_nothing(suite):
    result = run_plan(suite)

    result.stdout.fnmatch_lines(
        [
            "nfvperf: profile quick, testbed *",
            "*simulated DUT and generator in virtual time: no packet is sent",
            "*plan: nothing is sent*",
            "mine/test_mine.py::test_ndr_pdr[[]64]: about * s: 1 x warm-up 500 ms, *confirmation of ndr 1.00 s*",
            "1 test, * trials, about * s for a DUT of about 4.00 Mpps per direction at 64 bytes*",
        ]
    )
    assert result.ret == 0
    assert not (suite.path / "reports").exists()


def test_the_plan_shows_every_trial_when_verbose(suite):
    result = run_plan(suite, "-v")

    result.stdout.re_match_lines([r"\s+1\.00 s at\s+[\d.]+ Mpps  confirmation of ndr"])


def test_the_thorough_profiles_keep_the_whole_sweep(suite):
    run_plan(suite, "--nfv-profile", "quick").stdout.fnmatch_lines(["collected 2 items / 1 deselected / 1 selected"])
    run_plan(suite, "--nfv-profile", "gate").stdout.fnmatch_lines(["2 tests, * trials, about * min for *"])


def test_collect_only_needs_nothing(suite):
    result = suite.runpytest_subprocess("--collect-only", "-q")

    result.stdout.fnmatch_lines(["mine/test_mine.py::test_ndr_pdr[[]64]"])
    assert result.ret == 0


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        (
            "schema: 1\nrules:\n  - where: {topologi: phy2phy}\n    require: {ndr: '>= 1 Mpps'}\n",
            "*unknown selector 'topologi'*did you mean*topology*",
        ),
        ("schema: 1\nrules:\n  - where: {topology: phy2phy}\n    require: {ndr: '>= 1 us'}\n", "*'1 us'*"),
        ("schema: 1\nrules:\n  - where: {topology: phy2phy}\n    require: {ndr: '>= -1 Mpps'}\n", "*-1 Mpps*"),
        (
            "schema: 1\nrules:\n  - where: {topology: phy2phy}\n    require: {nrd: '>= 1 Mpps'}\n",
            "*unknown metric 'nrd'*did you mean*ndr*",
        ),
    ],
)
def test_a_wrong_sla_file_is_a_usage_error(suite, yaml, message):
    suite.makefile(".yaml", wrong=yaml)

    result = run_plan(suite, "--nfv-sla", "wrong.yaml")

    result.stderr.fnmatch_lines([f"ERROR: *wrong.yaml*{message}"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_an_sla_rule_that_matches_no_test_is_an_error(suite):
    suite.makefile(
        ".yaml",
        mine="schema: 1\nrules:\n"
        "  - where: {topology: phy2phy, frame_size: 64}\n    require: {ndr: '>= 1 Mpps'}\n"
        "  - where: {topology: pvvvvp}\n    require: {ndr: '>= 1 Mpps'}\n",
    )

    result = run_plan(suite, "--nfv-sla", "mine.yaml")

    result.stderr.fnmatch_lines(
        ["ERROR: *mine.yaml:5: rules[[]1]: no test matches {topology: pvvvvp}, so this rule judges nothing*"]
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_an_sla_for_more_than_the_one_test_asked_for_is_no_error(suite):
    suite.makefile(
        ".yaml",
        mine="schema: 1\nrules:\n"
        "  - where: {topology: phy2phy, frame_size: 64}\n    require: {ndr: '>= 1 Mpps'}\n"
        "  - where: {topology: phy2phy, frame_size: 1518}\n    require: {ndr: '>= 1 Mpps'}\n",
    )

    result = run_plan(suite, "--nfv-sla", "mine.yaml", "mine/test_mine.py::test_ndr_pdr[64]")

    assert result.ret == 0


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["-k", "64"], "-k"),
        (["-m", "not nobody"], "-m"),
        (["--ignore=mine/other"], "--ignore"),
        (["--ignore-glob=mine/oth*"], "--ignore-glob"),
        (["--deselect=mine/test_mine.py::test_ndr_pdr[1518]"], "--deselect"),
        (["mine/test_mine.py"], "'mine/test_mine.py'"),
        (["mine"], "'mine'"),
    ],
)
def test_whatever_picks_some_of_the_tests_leaves_rules_about_others_and_says_so(suite, arguments, shown):
    suite.makefile(
        ".yaml",
        mine="schema: 1\nrules:\n"
        "  - where: {topology: phy2phy, frame_size: 64}\n    require: {ndr: '>= 1 Mpps'}\n"
        "  - where: {suite: other}\n    require: {ndr: '>= 1 Mpps'}\n"
        "  - where: {topology: pvvvvp}\n    require: {ndr: '>= 1 Mpps'}\n",
    )
    others = suite.path / "others"
    others.mkdir()
    for folder in (others, suite.path / "mine"):
        (folder / "sla.yaml").write_text("schema: 1\nrules: [{require: {ndr: '>= 1 Mpps'}}]\n")

    result = run_plan(suite, "--nfv-sla", "mine.yaml", *arguments)

    said = f"nfvperf: 2 rules of 3 of this SLA match no test of this run, which {shown} narrows, the first at *"
    result.stdout.fnmatch_lines([f"{said}mine.yaml:5: rules[[]1]: they judge nothing here"])
    assert result.ret == 0


def test_a_folder_that_is_all_there_is_narrows_nothing(suite):
    suite.makefile(
        ".yaml",
        mine="schema: 1\nrules:\n"
        "  - require: {ndr: '>= 1 Mpps'}\n"
        "  - where: {suite: other}\n    require: {ndr: '>= 1 Mpps'}\n",
    )

    result = run_plan(suite, "--nfv-sla", "mine.yaml", "mine")

    result.stderr.fnmatch_lines(
        ["ERROR: *mine.yaml:4: *: no test matches *suite: other*, so this rule judges nothing*"]
    )


def test_a_testbed_file_that_is_not_there_is_a_usage_error(suite):
    result = run_plan(suite, "--nfv-testbed", "nowhere.yaml")

    result.stderr.fnmatch_lines(["ERROR: *nowhere.yaml*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


SUSPECT = """
schema: 1
name: doubtful
dut:
  ovs: {instance: private, datapath: netdev}
  ports: [{name: spare, kind: vhost-user}]
generator: {engine: embedded}
"""
WARNING = "port 'spare' is in no link: no generator port is cabled to it"


@pytest.mark.parametrize("folder", [".", "mine"])
def test_a_testbed_of_the_ini_file_is_found_from_each_directory(suite, folder, monkeypatch):
    (suite.path / "lab.yaml").write_text(SUSPECT, encoding="utf-8")
    suite.makeini("[pytest]\nnfv_testbed = lab.yaml\n")
    monkeypatch.chdir(suite.path / folder)

    run_plan(suite).stdout.fnmatch_lines([f"*UserWarning: {WARNING}"])
    replaced = run_plan(suite, "--nfv-testbed", "nowhere.yaml")

    replaced.stderr.fnmatch_lines([f"ERROR: *{suite.path / folder}/nowhere.yaml*"])
    assert replaced.ret == pytest.ExitCode.USAGE_ERROR


def test_labels_of_the_ini_file_are_checked_too(suite):
    suite.makeini("[pytest]\nnfv_testbed = cx6=lab.yaml other.yaml\n")

    run_plan(suite).stderr.fnmatch_lines(["ERROR: nfv_testbed: 'other.yaml' has no label, and others have: *"])


def test_a_doubtful_testbed_is_a_warning(suite):
    (suite.path / "lab.yaml").write_text(SUSPECT, encoding="utf-8")

    result = run_plan(suite, "--nfv-testbed", "lab.yaml")

    result.stdout.fnmatch_lines([f"*UserWarning: {WARNING}"])
    assert result.ret == 0


def test_where_warnings_are_errors_a_doubtful_testbed_is_a_usage_error(suite):
    (suite.path / "lab.yaml").write_text(SUSPECT, encoding="utf-8")

    result = run_plan(suite, "--nfv-testbed", "lab.yaml", "-W", "error")

    result.stderr.fnmatch_lines([f"ERROR: {WARNING} (a warning, but *"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_an_unknown_profile_is_a_usage_error(suite):
    result = suite.runpytest_subprocess("--nfv-profile", "thorough")

    result.stderr.fnmatch_lines(["*--nfv-profile: invalid choice: 'thorough'*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("given", ["stl/imix", "imix.py", "gtpu.yaml"])
def test_a_traffic_profile_as_measuring_profile_is_a_usage_error_that_names_the_right_option(suite, given):
    result = suite.runpytest_subprocess("--nfv-profile", given)

    says = (
        "looks like a traffic profile, and this is how long and how often to measure (smoke, quick, gate, full, soak)"
    )
    result.stderr.fnmatch_lines([f"*--nfv-profile: {given} {says}. To send what a file says: --nfv-traffic {given}"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_wrong_prefix_is_a_usage_error(suite, tmp_path):
    result = suite.runpytest_subprocess("--nfv-ovs", str(tmp_path))

    result.stderr.fnmatch_lines([f"ERROR: *{tmp_path}*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


A_USER = pytest.mark.skipif(ordinary_user() is None, reason="this machine lets nobody make a user namespace")


@A_USER
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_without_root_one_line_says_what_is_missing(suite, workers):
    words = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")

    result = suite.run(*(ordinary_user() or ()), *words, *workers)

    result.stderr.fnmatch_lines(
        ["ERROR: nfvperf needs root for namespaces, hugepages and its own Open vSwitch: run this with sudo, *"]
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR


@A_USER
def test_workers_say_that_their_folder_cannot_be_written(suite):
    (suite.path / "reports").mkdir(mode=0o500)

    result = suite.run(*(ordinary_user() or ()), sys.executable, "-m", "pytest", "-n", "2")

    result.stderr.fnmatch_lines(["ERROR: */reports/*: cannot be made: Permission denied"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_other_projects_do_not_notice_the_plugin(pytester):
    pytester.makepyfile("def test_one(): pass")

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(passed=1)
    assert "nfvperf:" not in result.stdout.str()
    assert not (pytester.path / "reports").exists()


def test_loading_the_plugin_is_light():
    script = (
        "import sys, pytest_nfvperf.plugin.hooks; "
        "heavy = {'pydantic', 'ovs', 'scapy', 'vl_convert', 'jinja2', 'pyroute2', 'MLRsearch', 'rich'}; "
        "heavy &= set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_markers_are_registered(suite):
    result = suite.runpytest_subprocess("--markers")

    result.stdout.fnmatch_lines(["@pytest.mark.nfv(*labels): labels that SLA selectors and reports know the test by"])


def test_a_sweep_whose_quick_part_is_not_swept_is_refused():
    from pytest_nfvperf.plugin.labels import sweep

    with pytest.raises(ValueError, match="values is 'rfc2455': write a list of values"):
        sweep("frame_size", "rfc2455")
    with pytest.raises(ValueError, match="quick keeps 65, which is not among"):
        sweep("frame_size", [64, 128], quick={65})
    with pytest.raises(ValueError, match="must keep at least one value"):
        sweep("frame_size", [64, 128], quick=set())


def test_smoke_runs_one_short_case_of_each_suite(suite):
    (suite.path / "mine" / "test_more.py").write_text(
        "import pytest\n"
        "def test_measures_nothing(): ...\n"
        "@pytest.mark.nfv_smoke\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_marked(n, phy2phy): ...\n"
    )
    (suite.path / "other").mkdir()
    (suite.path / "other" / "test_other.py").write_text(
        "import pytest\n"
        "@pytest.mark.nfv_not_quick\n"
        "def test_long(phy2phy): ...\n"
        "def test_first(phy2phy): ...\n"
        "def test_second(phy2phy): ...\n"
    )
    result = suite.runpytest_subprocess("--collect-only", "-q", "--nfv-profile", "smoke")
    assert [line for line in result.outlines if "::" in line] == [
        "mine/test_more.py::test_measures_nothing",
        "mine/test_more.py::test_marked[1]",
        "other/test_other.py::test_first",
    ]


@pytest.mark.parametrize(
    ("profile", "kept"), [("smoke", "bridges_1_4_9"), ("quick", "bridges_1_2_4_9"), ("gate", "bridges_1_to_9")]
)
def test_a_comparison_has_three_values_in_smoke_some_in_quick_and_else_all(suite, profile, kept):
    (suite.path / "mine" / "test_mine.py").write_text(
        "from pytest_nfvperf import compares\n"
        "@compares('bridges', range(1, 10), quick=(1, 2, 4, 9))\n"
        "def test_chain(bridges, study): ...\n"
    )
    result = suite.runpytest_subprocess("--collect-only", "-q", "--nfv-profile", profile)
    assert [line for line in result.outlines if "::" in line] == [f"mine/test_mine.py::test_chain[{kept}]"]


def test_a_plan_of_smoke_says_what_it_is(suite):
    result = run_plan(suite, "--nfv-profile", "smoke", "mine/test_mine.py")
    result.stdout.fnmatch_lines(
        [
            "nfvperf: profile smoke (*it shows that they work here, and accepts nothing), testbed *",
            "*confirmation of ndr 1.00 s*",
        ]
    )
