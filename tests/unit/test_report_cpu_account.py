"""The page says where the CPU time of a run of streams or requests does not add up, and is silent where it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_nfvperf.adapters.evidence.reader import TestEvidence, read_run
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.model.evidence.records import RequestData, TestData
from tests.sample_run import small_run, write_sample
from tests.sample_study import request_run, stream_run


def page_with(tmp_path: Path, requests: dict[str, RequestData]) -> str:
    run = read_run(write_sample(tmp_path, small_run()))
    node_id = "suites/pods/test_latency.py::test_response_time"
    data = TestData((("suite", "pods"), ("test", "test_response_time")))
    run.tests[node_id] = TestEvidence(node_id, data, streams={"stream-0001": stream_run()}, requests=requests)
    return render_report(run, tmp_path / "out").read_text()


def test_what_is_missing_is_said_of_the_run(tmp_path: Path) -> None:
    whole = request_run()
    assert whole.cpu is not None
    part = replace(whole, cpu=replace(whole.cpu, machine_ns=700_000_000, blind=("nobody sees other containers",)))
    page = page_with(tmp_path, {"requests-0001": whole, "requests-0002": part})
    assert "CPU time does not add up in 1 of 2 runs of streams or requests:" in page
    said = page.partition("CPU time does not add up")[2].partition("</p>")[0]
    assert "requests-0001" not in said
    assert (
        "requests-0002: the parts are 0.49 s of CPU, the machine counted 0.70 s, a difference of -30.0%: nobody sees "
        "other containers."
    ) in said


def test_a_page_of_runs_that_add_up_says_nothing(tmp_path: Path) -> None:
    assert "CPU time does not add up" not in page_with(tmp_path, {"requests-0001": request_run()})
