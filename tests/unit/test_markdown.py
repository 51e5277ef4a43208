"""The summary of a run as Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, conclude, read_run
from pytest_nfvperf.adapters.report.markdown import escaped, markdown
from tests.sample_run import write_sample


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunEvidence:
    folder = Path(tmp_path_factory.mktemp("run"))
    write_sample(folder)
    return read_run(folder)


def test_it_has_the_headline_the_dut_and_a_line_a_test(run: RunEvidence) -> None:
    conclusion = conclude(run)
    lines = markdown(run, conclusion).splitlines()
    assert lines[0].endswith(escaped(conclusion.headline))
    assert any(line.startswith("- DUT: OVS 3") for line in lines)
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| |")]
    assert len(rows) == len(conclusion.tests) > 2
    for row, test in zip(rows, conclusion.tests, strict=True):
        assert f"**{escaped(test.badge)}**" in row
        assert row.count(" | ") == 3, "text of the run does not make columns"


def test_a_long_one_ends_in_time_and_says_what_is_left_out(run: RunEvidence) -> None:
    conclusion = conclude(run)
    whole = markdown(run, conclusion)
    most = len(whole.encode()) - 200
    short = markdown(run, conclusion, most)
    assert len(short.encode()) <= most
    assert "more tests are in report.html of the run" in short


def test_text_is_shown_as_it_is() -> None:
    assert escaped("a|b\n[c](d) *e* <f>") == r"a\|b \[c\](d) \*e\* \<f\>"
