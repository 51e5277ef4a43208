"""Mistakes of a newcomer, and the answers: each says what to write instead."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from user_project import CONFTEST, make_project

from pytest_nfvperf.plugin.output import _our_fixtures

SIMULATED = """
from pytest_nfvperf.adapters.generators.fake import FakeGenerator
from pytest_nfvperf.backends.simulated import SimulatedBackend

def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: FakeGenerator(4e6))
"""

MISTAKES = """
import pytest
from pytest_nfvperf import IMIXES, StreamSpec, Traffic, bridge_chain

def test_kind_of_a_port(bridge, endpoint):
    endpoint("p0", "br0", kind="vhostuser")

def test_kind_of_a_vnf(vnf):
    vnf("v1", "br0", kind="testpmf")

def test_mix():
    Traffic(frame_size=IMIXES["simpel"])

def test_name_of_a_topology(deploy):
    deploy("phy2phy")

def test_nothing_to_judge(sla):
    sla.check(None)

def test_no_outcome(sla):
    sla.check()

def test_a_list(sla, phy2phy, search):
    sla.check([search.ndr_pdr(phy2phy, Traffic(frame_size=64))])

def test_streams(sla, streams, deploy):
    live = deploy(bridge_chain(2, ends="namespace"))
    sla.check(streams.run(live, StreamSpec(streams=4, duration_s=0.8, omit_s=0.2)))

@pytest.mark.parametrize("load", ["4 Mpps", -5])
def test_load_of_a_soak(load, soak, phy2phy):
    soak.run(phy2phy, Traffic(frame_size=64), load_fps=load)

def test_load_of_a_trial(search, phy2phy):
    search.loss_at(phy2phy, Traffic(frame_size=64), "4 Mpps", 1.0)

def test_algorithm(search, phy2phy):
    search.throughput(phy2phy, Traffic(frame_size=64), "rfc2455")
"""

ANSWERS = {
    "test_kind_of_a_port": (
        "usage error: 'vhostuser' is no port kind, did you mean 'vhost-user'? "
        "There are testbed, vhost-user, af_packet, af_xdp, tap"
    ),
    "test_kind_of_a_vnf": (
        "usage error: 'testpmf' is no vnf kind, did you mean 'testpmd'? There are testbed, loop, testpmd, qemu"
    ),
    "test_mix": ("usage error: 'simpel' is no IMIX, did you mean 'simple'? There are simple, cisco570, spirent512"),
    "test_name_of_a_topology": (
        "usage error: deploy(): topology is 'phy2phy': write a topology, such as phy2phy() or what compose(...) "
        "returned, or None"
    ),
    "test_nothing_to_judge": (
        "usage error: sla.check() judges an Outcome, which search, study and soak return, not None: does the function "
        "that measured return its Outcome?"
    ),
    "test_no_outcome": ("usage error: sla.check() has nothing to judge: give it what search, study or soak returned"),
    "test_a_list": (
        "usage error: sla.check() judges an Outcome, which search, study and soak return, not a list: write "
        "sla.check_each(outcomes) for outcomes of several subjects, sla.check(*outcomes) for several of one"
    ),
    "test_streams": (
        "usage error: sla.check() judges an Outcome, which search, study and soak return, not one run of streams, "
        "which has no interval to judge by. Measure TCP by study.tcp_throughput(...) and judge by sla.check_each(...), "
        "or assert on the run's result, such as run.result.goodput_bps > 1e9 (docs/how-to/streams.md)"
    ),
    "test_load_of_a_soak[[]4 Mpps]": (
        "usage error: soak.run(): load_fps is '4 Mpps': write a number from 1 to 1e+09 frames per second and "
        "direction, such as 4e6, or None"
    ),
    "test_load_of_a_trial": (
        "usage error: search.loss_at(): load_fps is '4 Mpps': write a number from 1 to 1e+09 frames per second and "
        "direction, such as 4e6"
    ),
    "test_algorithm": "usage error: 'rfc2455' is no algorithm, did you mean 'rfc2544'? There are rfc2544, tst009",
    "test_load_of_a_soak[[]-5]": (
        "usage error: soak.run(): load_fps is -5: write a number from 1 to 1e+09 frames per second and "
        "direction, such as 4e6, or None"
    ),
}


def project(pytester: pytest.Pytester, text: str) -> None:
    pytester.makeconftest(CONFTEST + SIMULATED)
    (pytester.path / "mine").mkdir()
    (pytester.path / "mine/test_mine.py").write_text(text)


def test_each_mistake_is_answered_with_what_to_write(pytester):
    project(pytester, MISTAKES)

    result = pytester.runpytest_subprocess("--nfv-report", "none", "-q")

    for name, answer in ANSWERS.items():
        result.stdout.fnmatch_lines([f"_* {name} _*", answer], consecutive=False)
    result.assert_outcomes(failed=len(ANSWERS))
    assert result.ret == 4
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_plan_says_it_of_streams_too(pytester):
    project(pytester, MISTAKES)

    result = pytester.runpytest_subprocess("--nfv-plan", "-k", "test_streams")

    result.stdout.fnmatch_lines([f"mine/test_mine.py::test_streams: cannot be planned: {ANSWERS['test_streams']}"])


def test_our_fixtures_without_our_plugin(pytester):
    project(pytester, "def test_mine(phy2phy):\n    pass\n")
    pytester.makeconftest(CONFTEST)

    result = pytester.runpytest_subprocess("-p", "no:nfvperf")

    result.stdout.fnmatch_lines(
        ["E*UsageError: this fixture needs pytest_nfvperf's plugin, which pytest did not load: leave out `-p no:*"]
    )


@pytest.mark.parametrize("options", [(), ("-q",), ("-qq",), ("--no-summary",)])
def test_the_results_are_named_at_the_end(pytester, options):
    project(pytester, "def test_mine(nfv_session):\n    pass\n")

    result = pytester.runpytest_subprocess("--nfv-report", "none", *options)

    result.stdout.fnmatch_lines([f"evidence: {pytester.path}/reports/*"])


def test_the_results_are_named_before_the_first_test_and_after_a_mistake(pytester):
    project(pytester, "def test_mine(nfv_session):\n    pass\n")
    pytester.makefile(
        ".yaml", wrong="schema: 1\nrules:\n  - where: {topology: none}\n    require: {ndr: '>= 1 Mpps'}\n"
    )

    fine = pytester.runpytest_subprocess("--nfv-report", "none")
    wrong = pytester.runpytest_subprocess("--nfv-report", "none", "--nfv-sla", "wrong.yaml")

    fine.stdout.fnmatch_lines([f"  results:   {pytester.path}/reports/*", "mine/*", f"evidence: {pytester.path}/*"])
    assert wrong.ret == 4
    wrong.stdout.fnmatch_lines([f"evidence: {pytester.path}/reports/*"])


def test_a_plan_names_no_results(pytester):
    project(pytester, "def test_mine(nfv_session):\n    pass\n")

    pytester.runpytest_subprocess("--nfv-plan").stdout.no_fnmatch_line("*results:*")


def no_room(pytester: pytest.Pytester, results: Path) -> str:
    result = pytester.runpytest_subprocess("--nfv-results", str(results))
    assert result.ret == 4
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
    return next(line for line in result.stderr.lines if line.startswith("ERROR: "))


ABSENT = """
schema: 1
name: lab
dut:
  ovs: {datapath: dpdk}
  ports:
    - {name: p0, NAMED0}
    - {name: p1, NAMED1}
generator: {engine: embedded, devices: [nosuch2, nosuch3], ports: [0, 1]}
links: [[generator.0, dut.p0], [generator.1, dut.p1]]
"""


@pytest.mark.parametrize(
    ("key", "said"), [("pci", "PCI device 0000:ff:1f.0"), ("interface", "interface '0000:ff:1f.0'")]
)
def test_a_nic_that_is_absent_is_a_broken_testbed(pytester, key, said):
    """It is no mistake of the user's: a cable's card has died, or the machine is another one."""
    make_project(pytester)
    named = [f'{key}: "0000:ff:1f.{number}"' for number in range(2)]
    (pytester.path / "lab.yaml").write_text(ABSENT.replace("NAMED0", named[0]).replace("NAMED1", named[1]))

    result = pytester.runpytest_subprocess("--nfv-testbed", "lab.yaml")

    assert result.ret == 11
    text = " ".join(result.stdout.str().split())
    assert f"dut.ports[0].{key}: port 'p0': this machine has no {said}" in text
    assert (text.count(said), "Testbed broken: of 1 selected test 1 not run" in text) == (1, True)
    assert pytester.run(sys.executable, "-m", "pytest_nfvperf.cli.main", "show").ret == 11


def test_results_that_are_a_file(pytester):
    project(pytester, "def test_mine(nfv_session):\n    pass\n")
    (pytester.path / "taken").write_text("")

    told = no_room(pytester, pytester.path / "taken")

    assert "cannot be opened: Not a directory. Free space under" in told
    assert "or choose another results directory (--nfv-results)" in told


def test_results_below_a_place_that_takes_no_directory(pytester):
    project(pytester, "def test_mine(nfv_session):\n    pass\n")

    assert "or choose another results directory (--nfv-results)" in no_room(pytester, Path("/proc/nowhere"))


@pytest.mark.skipif(not Path("/dev/full").exists() or os.geteuid() != 0, reason="needs /dev/full")
def test_results_on_a_full_disk(pytester, tmp_path):
    """A tmpfs of one page takes the directory, and not the evidence."""
    project(pytester, "def test_mine(nfv_session):\n    pass\n")
    full = pytester.mkdir("full")
    pytester.run("mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=3", "none", str(full))
    try:
        result = pytester.runpytest_subprocess("--nfv-results", str(full))
    finally:
        pytester.run("umount", str(full))

    shown = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in shown
    assert "(--nfv-results)" in shown
    assert result.ret in {4, 11}


@pytest.mark.parametrize("conftest", ["write {} with this line", "add this line to {}"], ids=["none", "another"])
def test_each_fixture_of_ours_that_is_not_there_says_what_conftest_needs(pytester, conftest):
    if conftest.startswith("add"):
        pytester.makeconftest("import pytest\n@pytest.fixture\ndef rig(phy2phy): pass")
    # Whoever takes nfv_session itself measures: that run needs a testbed before it needs the fixture.
    ours = [*sorted(_our_fixtures() - {"nfv_session"}), "rig"] if conftest.startswith("add") else ["phy2phy"]
    pytester.makepyfile("\n".join(f"def test_{at}({name}): pass" for at, name in enumerate(ours)))

    text = pytester.runpytest().stdout.str()

    file = conftest.format(pytester.path / "conftest.py")
    for name in ours:
        wanted = "phy2phy" if name == "rig" else name
        assert f"fixture '{wanted}' not found\n>       '{wanted}' comes with pytest_nfvperf: {file}:\n" in text
    assert text.count('>       pytest_plugins = ["pytest_nfvperf.fixtures.all"]\n') == len(ours)


def test_the_names_of_our_fixtures_are_those_that_pytest_knows(pytester):
    pytester.makeconftest(CONFTEST)
    listed = pytester.runpytest("--fixtures", "-q", "-v").stdout.str()

    known = set(re.findall(r"^(\w+)(?: \[\w+ scope\])? -- \S*pytest_nfvperf/fixtures/", listed, re.MULTILINE))
    assert known == _our_fixtures()
    assert {"phy2phy", "search", "sla", "deploy", "study", "profile"} <= known


def test_a_fixture_of_nobody_stays_pytests_own_error(pytester):
    pytester.makepyfile("def test_it(phy2phi): pass")

    text = pytester.runpytest().stdout.str()

    assert "fixture 'phy2phi' not found" in text
    assert "pytest_nfvperf" not in text.split("ERRORS")[1]


def test_a_misspelt_option_is_named_with_the_nearest(pytester):
    pytester.makeconftest("def pytest_addoption(parser):\n    parser.addoption('--nfv-own')\n")
    pytester.makepyfile("def test_it(): pass")

    assert pytester.runpytest("--nfv-own", "1").ret == 0
    refused = pytester.runpytest("--nfv-profil=gate")

    assert refused.ret == 4
    refused.stderr.fnmatch_lines(
        ["ERROR: there is no option --nfv-profil, did you mean '--nfv-profile' or *? All are in docs/*"]
    )
