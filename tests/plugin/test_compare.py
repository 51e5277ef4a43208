"""``nfvperf compare`` as a user sees it, on a simulated testbed whose sides are as fast as they are called."""

from __future__ import annotations

import pytest
from compare_project import SUITE, compare, document, sides_project
from user_project import records


def test_a_slower_side_fails_and_a_faster_one_passes(pytester):
    """Steps: compare three sides in turns. Verify: words, figures, the document, exit status 1."""
    result = compare(sides_project(pytester), "installed", "slow=installed", "fast=installed", "--margin", "3 %")

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "  compares:  slow, fast with installed; the SLAs of tests are not judged",
            "installed (baseline): OVS simulated*",
            "*mine/ndr_pdr phy2phy 64 slow forwarding rate*0.8[45]* slower",
            "* fast forwarding rate*1.[01]* faster",
            "*Failed. Compared: 1 slower, 1 faster.*The table says which side is slower*(exit status 1)",
        ]
    )
    made = document(pytester)
    assert (made["schema"], made["paired"], made["margin"], made["exit_status"]) == (3, True, 0.03, 1)
    assert [side["name"] for side in made["sides"]] == ["installed", "slow", "fast"]
    (comparison,) = made["comparisons"]
    assert comparison["how"] == "alternating"
    slow, fast = comparison["sides"]
    (rate,) = [metric for metric in slow["metrics"] if metric["decides"]]
    assert (rate["metric"], rate["word"], rate["better"]) == ("forwarding_rate", "slower", "higher")
    assert rate["low"] < rate["ratio"] < rate["high"] < 0.9
    assert rate["ratio"] == pytest.approx(0.85, abs=0.01)
    assert (rate["blocks"], rate["pairs"]) == (8, 16)
    assert len(rate["block_ratios"]) == len(rate["noise_ratios"]) == 8
    assert rate["noise_floor"] >= 0.01
    assert fast["metrics"][0]["word"] == "faster"
    assert len(records(pytester.path, "comparison")) == 1


def test_equal_sides_are_the_same_and_their_settings_are_told(pytester):
    """Steps: compare a side with itself, with a setting. Verify: same, exit status 0, what differs."""
    setting = "again:other_config:emc-insert-inv-prob=0"
    result = compare(sides_project(pytester), "installed", "again=installed", "--set", setting)

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["again: OVS simulated*, emc-insert-inv-prob=0", "* again *rate * same", "*Compared: 1 same. (exit status 0)"]
    )
    made = document(pytester)
    assert made["differences"] == [{"what": "emc-insert-inv-prob", "values": {"installed": "-", "again": "0"}}]


@pytest.mark.parametrize("side_by_side", [True, False], ids=["in turns", "in rounds"])
def test_a_comparison_ends_at_so_many_blocks_though_it_cannot_tell(pytester, side_by_side):
    """Steps: compare equal sides at a margin that nothing can show. Verify: the first look at nine blocks is the last.

    In rounds each reading counts: looks come after 5, 10, 15 and 20.
    """
    sides = ("installed", "again=installed", "--margin", "0.01 %")
    result = compare(sides_project(pytester, side_by_side=side_by_side), *sides, behind=("--nfv-compare-blocks", "9"))

    assert result.ret == 10
    (side,) = document(pytester)["comparisons"][0]["sides"]
    assert side["metrics"][0]["word"] == "cannot tell"
    if side_by_side:
        assert side["metrics"][0]["blocks"] == 16
    else:
        assert {len(each["data"]["samples"][0]["values"]) for each in records(pytester.path, "outcome")} == {10}


@pytest.mark.own_interpreter
def test_a_project_whose_warnings_are_errors_is_compared(pytester):
    """Steps: compare with ``filterwarnings = error``. Verify: that the command imported the plugin is no warning.

    An installed package names its files; of this one, installed for development, pytest would know none.
    """
    project = sides_project(pytester)
    installed = project.mkdir("pytest_nfvperf-0.1.0.dist-info")
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-nfvperf\nVersion: 0.1.0\n")
    (installed / "RECORD").write_text("pytest_nfvperf/__init__.py,,\n")
    (installed / "entry_points.txt").write_text("[pytest11]\nnfvperf = pytest_nfvperf.plugin.hooks\n")
    project.makeini("[pytest]\nfilterwarnings = error\n")
    result = compare(project, "installed", "again=installed")

    assert result.ret == 0, result.stderr.str()
    result.stdout.fnmatch_lines(["*Compared: 1 same. (exit status 0)"])


BROKEN = (
    SUITE
    + """
def test_another(pvp, search):
    search.throughput(pvp, Traffic(frame_size=64))

def test_third(phy2phy, search):
    search.throughput(phy2phy, Traffic(frame_size=128))
"""
)


def test_a_side_that_does_not_start_is_left_out_and_the_others_go_on(pytester):
    """Steps: compare with a side that ends at its start. Verify: its reason, the others' words, exit status 11."""
    result = compare(sides_project(pytester, BROKEN), "installed", "broken=installed", "slow=installed")

    assert result.ret == 11
    result.stdout.fnmatch_lines(
        [
            "*testbed error: side 'broken' is broken: vswitchd ended with status 127",
            "*broken: vswitchd ended with status 127",
            "*Testbed broken. Compared: 3 broken, 3 slower.*(exit status 11)",
        ]
    )
    errors = records(pytester.path, "error")
    assert errors[0]["data"]["evidence"] == {"ovs-vswitchd.log": "no such library"}
    assert [("not tried again" in error["data"]["message"]) for error in errors] == [False, False, True]
    states = [side["state"] for each in document(pytester)["comparisons"] for side in each["sides"]]
    assert states == ["broken", "measured"] * 3


def test_a_side_that_dies_in_the_middle_is_left_out_and_the_others_are_measured_anew(pytester):
    result = compare(sides_project(pytester), "installed", "dying=installed", "slow=installed")

    assert result.ret == 11
    dying, slow = document(pytester)["comparisons"][0]["sides"]
    assert (dying["state"], dying["reason"]) == ("broken", "vswitchd was killed by signal 11")
    assert (slow["metrics"][0]["word"], slow["metrics"][0]["blocks"]) == ("slower", 8)


def test_where_none_is_left_the_test_is_broken(pytester):
    result = compare(sides_project(pytester), "installed", "broken=installed")

    assert result.ret == 11
    result.stdout.fnmatch_lines(["*side 'broken' is broken: vswitchd ended with status 127*"])
    assert document(pytester)["counts"] == {"broken": 1}


def test_a_side_that_forwards_nothing_has_failed(pytester):
    result = compare(sides_project(pytester), "installed", "dead=installed")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*dead*failed: forwarding_rate is 0 pps, where installed has * Mpps"])
    assert document(pytester)["comparisons"][0]["sides"][0]["state"] == "failed"


OTHERS = """
from pytest_nfvperf import Dut, Subject, Traffic, bridge_chain

def test_soak(phy2phy, soak):
    soak.run(phy2phy, Traffic())

def test_deploys_only(phy2phy):
    assert phy2phy.is_deployed

def test_study(study):
    study.forwarding_rate("bridges", [Subject(str(n), bridge_chain(n)) for n in (1, 2)], Traffic())

def test_tcp(study):
    chains = [Subject(str(n), bridge_chain(n, ends="namespace")) for n in (1, 2)]
    study.tcp_throughput("bridges", chains)

def test_checks_what_a_comparison_has_not(phy2phy, search):
    assert search.throughput(phy2phy, Traffic()).goal("throughput").load_fps > 1e6

def test_names_a_version(deploy):
    deploy(bridge_chain(1), dut=Dut(version="other"))
"""


def test_nothing_is_silently_left_out(pytester):
    """Steps: compare tests of all kinds, on a testbed without room for two DUTs. Verify: compared, or a reason."""
    result = compare(sides_project(pytester, OTHERS, side_by_side=False), "installed", "again=installed")

    left_out = {one["test"].split("::")[1]: one["reason"] for one in document(pytester)["left_out"]}
    assert left_out["test_soak"] == "not compared: a soak, whose length is its point, cannot alternate between sides"
    assert left_out["test_deploys_only"].startswith("not compared: the test passed, and measured nothing")
    assert left_out["test_names_a_version"].startswith("not compared: the test itself names the version 'other'")
    assert len(left_out) == 3
    compared = [(each["test"].split("::")[1], each["how"], each["labels"].get("bridges")) for each in
                document(pytester)["comparisons"]]  # fmt: skip
    assert compared == [
        *(("test_study", "rounds", "1"), ("test_study", "rounds", "2")),
        *(("test_tcp", "rounds", "1"), ("test_tcp", "rounds", "2")),
        ("test_checks_what_a_comparison_has_not", "rounds", None),
    ]
    result.stdout.fnmatch_lines(["*of 6 selected tests 3 skipped*"])
    (note,) = [each["data"]["text"] for each in records(pytester.path, "attachment") if "note" in each["data"]["name"]]
    assert note.startswith("the test ended by AttributeError: ")


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (["installed"], "a comparison needs two sides or more, not 'installed' alone"),
        (["installed", "installed"], "'installed' is given twice: each side needs a name of its own"),
        (["installed", "nosuch"], "no version is kept as 'nosuch'"),
        (["installed", "b=installed", "--margin", "2 mpps"], "--margin: "),
        (["installed", "b=installed", "--set", "c:other_config:x=1"], "--set: 'c:other_config:x=1': no side is called"),
        (["installed", "b=installed", "--set", "b:x=1"], "--set: 'b:x=1' is no setting: write SIDE:other_config:KEY="),
    ],
)
def test_mistakes_end_as_usage(pytester, sides, message):
    result = compare(sides_project(pytester), *sides)

    assert result.ret == 4
    assert message in result.stdout.str() + result.stderr.str()


def test_without_tests_it_asks_for_them(pytester, capsys):
    from pytest_nfvperf.cli.main import main

    assert main(["compare", "installed", "b=installed"]) == 4
    assert "which tests? Write them after --" in capsys.readouterr().err


CONVERSATIONS = """
from pytest_nfvperf import Conversation

def test_held(phy2phy, search):
    search.connection_rate(phy2phy, Conversation.tcp(hold_s=1))

def test_open(phy2phy, search):
    search.concurrent(phy2phy, Conversation.tcp(), most=1000)

def test_frames(phy2phy, search):
    search.ndr_pdr(phy2phy, Conversation.tcp())
"""


def test_connections_that_are_held_or_counted_as_frames_are_left_out(pytester):
    compare(sides_project(pytester, CONVERSATIONS), "installed", "again=installed")
    reasons = {one["test"].rpartition("::")[2]: one["reason"] for one in document(pytester)["left_out"]}
    assert reasons["test_held"] == "not compared: held connections say nothing at overload"
    assert reasons["test_open"].startswith("not compared: it is a number of connections")
    assert reasons["test_frames"].startswith("search.ndr_pdr() counts frames: ")
