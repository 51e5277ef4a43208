"""Published relations beside the measured ones: S5's of the shipped file, in the table of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence, read_run
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.adapters.report.published_figures import NOT_MEASURED, PublishedRelation, subjects_of
from pytest_nfvperf.config.sla_file import load_sla
from pytest_nfvperf.model.evidence.records import TestData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.statistics import Samples
from pytest_nfvperf.session import run_report
from pytest_nfvperf.session.run_report import published_figures, published_relations, write_report
from tests.outcomes import measured
from tests.sample_run import small_run, write_sample

ROOT = Path(__file__).parents[2]
TEST = {"suite": "pods", "test": "test_vduse", "topology": "pods", "to": "pod"}


def outcome(interface: str, buffer: str, *gbps: float) -> Outcome:
    datapath = "system" if interface == "veth" else "dpdk"
    labels = TEST | {"interface": interface, "buffer": buffer, "datapath": datapath}
    samples = Samples("tcp_throughput", "bps", tuple(value * 1e9 for value in gbps))
    return measured(Outcome(tuple(labels.items()), "tcp", 0.0, 1, samples=(samples,)))


def with_pods(run: RunEvidence, *tests: tuple[str, list[Outcome]]) -> RunEvidence:
    """The run, and tests of suites/pods for a buffer each."""
    for number, (buffer, outcomes) in enumerate(tests):
        node_id = f"suites/pods/test_streams.py::test_vduse[{number}]"
        data = TestData(tuple((TEST | {"buffer": buffer}).items()))
        run.tests[node_id] = TestEvidence(node_id, data, outcomes={str(at): one for at, one in enumerate(outcomes)})
    return run


def seen(tmp_path: Path) -> RunEvidence:
    """VDUSE above veth with 512 bytes, and above it with 1 MiB too; nothing was measured with 64."""
    steady = [(value, value * 1.01, value * 0.99) * 3 for value in (1.0, 2.0)]
    return with_pods(
        read_run(write_sample(tmp_path, small_run())),
        ("512", [outcome("veth", "512", *steady[0]), outcome("vduse", "512", *steady[1])]),
        ("1048576", [outcome("veth", "1048576", *steady[0]), outcome("vduse", "1048576", *steady[1])]),
    )


def relations_in(run: RunEvidence) -> tuple[PublishedRelation, ...]:
    return published_relations(published_figures(run, ROOT), run)


def test_a_relation_is_shown_with_what_was_measured_here(tmp_path: Path) -> None:
    small, large = found = relations_in(seen(tmp_path))
    assert small.suite == large.suite == "pods"
    assert small.name == "S5, pods on VDUSE beat pods on veth for small and medium writes"
    assert "OVN-Kubernetes on OpenShift, 2025 (S5)" in small.source
    assert small.relation == "tcp_throughput >= 100 % of {interface: veth, datapath: system}"
    assert (small.agrees, large.agrees) == ("the same here", "not so here")
    assert small.seen.startswith("200 % (")
    assert "(2.00 Gbps against 1.00 Gbps)" in large.seen
    assert subjects_of(found) == ["buffer=512", "buffer=1048576"]


def test_a_relation_that_was_selected_and_not_measured_says_so(tmp_path: Path) -> None:
    run = with_pods(read_run(write_sample(tmp_path, small_run())), ("64", []))
    (small,) = relations_in(run)
    assert (small.seen, small.agrees, small.labels) == (NOT_MEASURED, "", ())
    assert subjects_of([small]) == [""]


def test_a_run_of_other_tests_has_none(tmp_path: Path) -> None:
    run = with_pods(read_run(write_sample(tmp_path, small_run())))
    assert relations_in(run) == ()


def test_the_page_has_them_in_the_section_of_their_suite(tmp_path: Path) -> None:
    run = seen(tmp_path)
    page = render_report(run, tmp_path / "out", relations=relations_in(run)).read_text()
    below = page.partition("<h3>Beside what was published</h3>")[2]
    table = below.partition("</table>")[0]
    assert page.count("Beside what was published") == 1
    assert "S5, large writes are bound by the copy through the bounce buffer" in table
    assert "buffer=1048576" in table
    assert "not so here" in table
    assert "They are no requirement here" in below


def test_every_report_has_them_whoever_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's end, ``nfvperf report``, and the host for a run in a guest. Each file is read once for a page."""
    read: list[Path] = []
    monkeypatch.setattr(run_report, "load_sla", lambda path: (read.append(path), load_sla(path))[1])
    page = write_report(seen(tmp_path), tmp_path / "out", ROOT).read_text()
    assert page.count("Beside what was published") == 1
    assert ROOT / "suites/pods/published.yaml" in read
    assert len(read) == len(set(read))
