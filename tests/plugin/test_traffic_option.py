"""``--nfv-traffic``: a suite's tests send what a file says, and figures of it are not compared with others."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
from pytest_nfvperf.model.traffic.mix import classes_of
from tests.plugin.test_mistakes import project

SUITE = """
import pytest
from pytest_nfvperf import Traffic, TrafficMix, bridge_chain
from pytest_nfvperf import Subject

@pytest.mark.parametrize("frame_size", [64, 512])
def test_search(frame_size, phy2phy, search):
    search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size))

def test_study(study):
    study.forwarding_rate("bridges", [Subject("1", bridge_chain(1)), Subject("2", bridge_chain(2))], Traffic())

def test_soak(phy2phy, soak):
    soak.run(phy2phy, Traffic(frame_size=128), load_fps=1e6, duration_s=1)

def test_own_classes(phy2phy, search):
    mix = TrafficMix(a=(Traffic(), "50 %"), b=(Traffic(frame_size=128), "50 %"))
    search.throughput(phy2phy, mix)
"""

GTPU = """
schema: 1
packet: Ether()/IP()/UDP(dport=2152)/GTP_U_Header(teid=4)/IP(dst="10.1.0.1")/UDP(dport=5000)
vary: [{field: "IP[2].dst", count: 100}]
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    project(pytester, SUITE)
    (pytester.path / "gtpu.yaml").write_text(GTPU)
    return pytester


def run(suite: pytest.Pytester, *arguments: str, status: int = 0) -> pytest.RunResult:
    result = suite.runpytest_subprocess("--nfv-report", "none", *arguments)
    assert result.ret == status, result.stdout.str() + result.stderr.str()
    return result


def evidence(suite: pytest.Pytester) -> RunEvidence:
    return read_run(suite.path / "reports" / "latest")


def sent(found: RunEvidence, test: str) -> set[tuple[str | None, str]]:
    """Headers and frame sizes of all trials of the tests of this name."""
    trials = [trial for one in found.tests.values() if f"::{test}" in one.node_id for trial in one.trials.values()]
    return {
        (each.traffic.headers_label, each.traffic.frame_label)
        for trial in trials
        for each in classes_of(trial.result.spec.traffic)
    }


def test_searches_studies_and_soaks_send_the_file(suite: pytest.Pytester):
    run(suite, "--nfv-traffic", "gtpu.yaml")

    found = evidence(suite)
    assert sent(found, "test_search[64]") == {("gtpu-udp", "96")}
    assert sent(found, "test_search[512]") == {("gtpu-udp", "512")}
    assert sent(found, "test_soak") == {("gtpu-udp", "128")}
    assert {headers for headers, _ in sent(found, "test_study")} == {"gtpu-udp"}
    assert sent(found, "test_own_classes") == {(None, "64"), (None, "128")}
    assert found.run is not None
    assert str(found.run.fingerprint["traffic"]).startswith("gtpu-udp ")
    labels = [dict(outcome.labels) for outcome in found.tests["mine/test_mine.py::test_search[64]"].outcomes.values()]
    assert [(each["frame_size"], each["headers"]) for each in labels] == [("96", "gtpu-udp")]


def test_without_the_option_nothing_changes(suite: pytest.Pytester):
    run(suite, "-k", "test_search")

    found = evidence(suite)
    assert sent(found, "test_search") == {(None, "64"), (None, "512")}
    assert found.run is not None
    assert "traffic" not in found.run.fingerprint


def test_classes_and_a_capture_are_sent(suite: pytest.Pytester):
    packets = [Ether() / IP() / UDP(sport=1, dport=2) / (b"x" * n) for n in (20, 600)]
    wrpcap(str(suite.path / "web.pcap"), packets)
    (suite.path / "mix.yaml").write_text(
        "schema: 1\nclasses:\n"
        "  voice: {share: 10 %, packet: 'Ether()/IP(tos=184)/UDP()', frame_size: 200}\n"
        "  web: {share: 90 %, pcap: web.pcap}\n"
    )
    run(suite, "--nfv-traffic", "mix.yaml", "-k", "test_search and 64")

    assert sent(evidence(suite), "test_search[64]") == {("udp", "200"), ("web", "own")}


def test_the_plan_says_what_is_sent(suite: pytest.Pytester):
    result = run(suite, "--nfv-traffic", "gtpu.yaml", "--nfv-plan")

    result.stdout.fnmatch_lines(
        [
            "traffic of gtpu.yaml, in place of the tests' own:",
            "  Ether / IP / UDP / GTP_U_Header / IP / UDP",
            "    frame sizes as the tests say, at least 96",
            "    IP[[]2].dst has 100 values, by 1",
            "    one frame: 0*0800450000*",
            "mine/test_mine.py::test_search[[]64]: about *",
        ]
    )


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (None, "*gtpu.yaml: cannot be read: No such file or directory*"),
        ("schema: 1\npacket: Ether()/IPX()\n", "*gtpu.yaml:2: packet: scapy has no layer 'IPX'*"),
        ("schema: 1\nframe_size: 63\n", "*gtpu.yaml:2: frame_size: *63*"),
        ("schema: 1\npcap: none.pcap\n", "*gtpu.yaml:2: pcap: *none.pcap: cannot be read*"),
    ],
)
def test_a_file_that_cannot_be_used_ends_the_run_before_anything_is_sent(
    suite: pytest.Pytester, text: str | None, answer: str
):
    (suite.path / "gtpu.yaml").unlink()
    if text is not None:
        (suite.path / "gtpu.yaml").write_text(text)

    result = run(suite, "--nfv-traffic", "gtpu.yaml", status=4)
    assert any(answer.strip("*").split("*")[0] in line for line in result.stderr.lines + result.outlines)
    assert not list((suite.path / "reports").rglob("evidence*.jsonl")) or not evidence(suite).trials


BASELINE = """
from pytest_nfvperf import Traffic

def test_pdr(phy2phy, search, sla):
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=128)))
"""


def test_figures_of_different_traffic_are_not_compared(pytester: pytest.Pytester):
    project(pytester, BASELINE)
    (pytester.path / "mine/sla.yaml").write_text("schema: 1\nrules:\n  - require: {pdr: '>= 97 % of baseline'}\n")
    (pytester.path / "gtpu.yaml").write_text(GTPU)
    (pytester.path / "same.yaml").write_text(GTPU + "# the same, under another name\n")
    (pytester.path / "other.yaml").write_text(GTPU.replace("100", "200"))
    pytester.runpytest_subprocess("--nfv-report", "none", "--nfv-results", "old", "--nfv-traffic", "gtpu.yaml")

    def judged(*traffic: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess("--nfv-report", "none", "--nfv-baseline", "old/latest", *traffic)

    assert judged("--nfv-traffic", "same.yaml").ret == 0
    for given in (("--nfv-traffic", "other.yaml"), ()):
        result = judged(*given)
        assert result.ret == 10
        result.stdout.fnmatch_lines(["*traffic: gtpu-udp * then, * now*"])


def test_a_run_is_resumed_with_the_same_traffic_only(suite: pytest.Pytester):
    run(suite, "--nfv-traffic", "gtpu.yaml", "-k", "test_search")
    before = len(evidence(suite).trials)

    run(suite, "--nfv-traffic", "gtpu.yaml", "-k", "test_search", "--nfv-resume", "reports/latest")
    assert len(evidence(suite).trials) == before
    result = run(suite, "-k", "test_search", "--nfv-resume", "reports/latest")
    result.stdout.fnmatch_lines(["*traffic gtpu-udp * then, None now*"])
    assert sent(evidence(suite), "test_search") >= {(None, "64"), (None, "512")}
