"""``nfvperf export --otlp``: what a collector gets, here one on the loopback that decodes it."""

from __future__ import annotations

import math
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.evidence.writer import SamplesFile
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.features import otlp
from pytest_nfvperf.model.evidence.records import RecordKind
from tests.history_support import START_NS
from tests.sample_run import small_run, write_sample
from tests.sample_soak import quiet_row
from tests.sample_study import study_records

PROTOBUF = "application/x-protobuf"
Point = tuple[str, str, frozenset[tuple[str, str]], frozenset[tuple[str, str]], int, float]
"""Name, unit, attributes of the resource and of the point, time, value."""


class Collector(ThreadingHTTPServer):
    """Answers as it is told; ``requests`` are those that it got, decoded."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.answer: tuple[int, str, bytes] = (200, PROTOBUF, b"")
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def points(self) -> list[Point]:
        return [
            (metric.name, metric.unit, pairs(of_run.resource), pairs(point), point.time_unix_nano, point.as_double)
            for request in self.requests
            for of_run in request.resource_metrics
            for scope in of_run.scope_metrics
            for metric in scope.metrics
            for point in metric.gauge.data_points
        ]

    def of(self, name: str) -> list[Point]:
        return [point for point in self.points if point[0] == name]


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert (self.path, self.headers["Content-Type"]) == ("/v1/metrics", PROTOBUF)
        self.server.requests.append(ExportMetricsServiceRequest.FromString(body))
        status, kind, answer = self.server.answer
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


def pairs(of: Any) -> frozenset[tuple[str, str]]:
    return frozenset((one.key, one.value.string_value) for one in of.attributes)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_sample(folder, small_run())
    return folder


@pytest.fixture(scope="module")
def soak(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a soak that has three samples; the second lacks one value."""
    folder = tmp_path_factory.mktemp("soak")
    write_sample(folder, [replace(record, time_ns=START_NS + record.time_ns * 10**9) for record in study_records()])
    file = SamplesFile(folder / "samples-soak-0001.jsonl", [name for name in quiet_row(0) if name != "t"], 3, {})
    for second in range(3):
        file.add({name: value for name, value in quiet_row(second).items() if second != 1 or name != "vswitchd.rss"})
    file.close()
    return folder


def test_each_figure_arrives_once_at_the_time_of_its_measurement(
    collector: Collector, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--otlp", collector.url, str(run)]) == 0

    read = read_run(run)
    points = collector.points
    assert capsys.readouterr().out == f"{read.run_id}: {len(points)} data points sent\n"
    assert max(Counter(point[:5] for point in points).values()) == 1, "no two of one series and time"
    (resource,) = {point[2] for point in points}
    assert {
        ("service.name", "nfvperf"),
        ("nfvperf.run.id", read.run_id),
        ("service.instance.id", read.run_id),
    } < resource
    key, outcome = next(iter(read.outcomes.items()))
    for figure in outcome.figures:
        if figure.unit not in {"bps", "line_ratio"}:
            (point,) = [
                point
                for point in collector.of(f"nfvperf.{figure.metric}")
                if {("nfvperf.record", key), ("nfvperf.bound", figure.bound.value or "exact")} < point[3]
                and dict(point[3]).get("nfvperf.at") == figure.at
            ]
            assert point[4:] == (read.times_ns[key], figure.value)
            assert ("nfvperf.frame_size", "64") in point[3]
    assert {point[1] for point in collector.of("nfvperf.ndr")} == {"{frames}/s"}
    assert {point[1] for point in collector.of("nfvperf.latency_p99")} == {"ns"}
    assert {dict(point[3])["nfvperf.bound"] for point in points} == {"exact", "at least"}


def test_a_run_that_is_sent_again_brings_nothing_new(
    collector: Collector, soak: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["export", "--otlp", collector.url, str(soak)])
    first = Counter(collector.points)
    assert max(first.values()) == 1
    collector.requests.clear()
    monkeypatch.setattr(otlp, "_MOST_POINTS", 7)

    main(["export", "--otlp", f"{collector.url}/v1/metrics/", str(soak / "evidence.jsonl")])

    assert Counter(collector.points) == first, "the same points, however they are divided"
    assert len(collector.requests) == math.ceil(first.total() / 7)
    times = [sorted(re.findall(r"time_unix_nano: (\d+)", str(request))) for request in collector.requests]
    assert all(before[-1] <= after[0] for before, after in pairwise(times)), "Prometheus takes no earlier sample"


def test_samples_of_a_soak_have_their_own_times(collector: Collector, soak: Path) -> None:
    main(["export", "--otlp", collector.url, str(soak)])

    read = read_run(soak)
    (data,) = [one for test in read.tests.values() for one in test.soaks.values()]
    began_ns = read.times_ns["soak-0001"] - round(data.soak.elapsed_s * 1e9)
    received = [point for point in collector.of("nfvperf.soak.received") if ("nfvperf.source", "p0->p1") in point[3]]
    assert [point[4:] for point in received] == [(began_ns + second * 10**9, 1e6) for second in (1, 2, 3)]
    assert ("nfvperf.topology", "phy2phy") in received[0][3]
    rss = collector.of("nfvperf.soak.rss")
    assert [(point[1], point[4]) for point in rss] == [("By", began_ns + second * 10**9) for second in (1, 3)], "not 0"
    assert {point[1] for point in collector.of("nfvperf.soak.latency_p99")} == {"ns"}
    assert {point[1] for point in collector.of("nfvperf.soak.up")} == {"1"}


def test_a_soaks_samples_begin_with_its_trial(collector: Collector, soak: Path, tmp_path: Path) -> None:
    """The soak is recorded up to 2 s after its end, its trial at once."""
    trial = next(one for one in small_run() if one.kind is RecordKind.TRIAL)
    records = [replace(record, time_ns=START_NS + record.time_ns * 10**9) for record in study_records()]
    write_sample(tmp_path, [replace(trial, id="trial-0002", run="r", time_ns=START_NS), *records])
    (tmp_path / "samples-soak-0001.jsonl").write_bytes((soak / "samples-soak-0001.jsonl").read_bytes())

    main(["export", "--otlp", collector.url, str(tmp_path)])

    began_ns = START_NS - round(trial.data["wall_s"] * 1e9)
    assert min(point[4] for point in collector.of("nfvperf.soak.sent")) == began_ns + 10**9


def test_figures_arrive_without_a_file_of_samples(
    collector: Collector, soak: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evidence.jsonl").write_bytes((soak / "evidence.jsonl").read_bytes())

    assert main(["export", "--otlp", collector.url, str(tmp_path)]) == 0

    assert (
        f"left out: the samples of soak-0001, since there is no {tmp_path / 'samples-soak-0001.jsonl'}"
        in capsys.readouterr().err
    )
    assert collector.of("nfvperf.memory_growth")
    assert not [point for point in collector.points if "soak." in point[0]]


PARTIAL = ExportMetricsServiceResponse()
PARTIAL.partial_success.rejected_data_points = 3
PARTIAL.partial_success.error_message = "too old"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((400, "text/plain", b"no such\ntenant"), "400 Bad Request no such tenant (0 data points were sent)"),
        ((302, "text/plain", b""), "302 Found (0 data"),
        ((200, PROTOBUF, PARTIAL.SerializeToString()), "it refused 3 data points: too old (0 data"),
    ],
)
def test_a_collector_that_does_not_take_it_ends_the_command(
    collector: Collector, run: Path, capfd: pytest.CaptureFixture[str], answer: tuple[int, str, bytes], said: str
) -> None:
    collector.answer = answer

    assert main(["export", "--otlp", collector.url, str(run)]) == 1

    where = f"nfvperf: cannot send run {read_run(run).run_id} to {collector.url}/v1/metrics: "
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(where + said)


@pytest.mark.parametrize("answer", [(200, "application/json", b"{}"), (202, "", b"")])
def test_an_answer_in_other_words_is_one(collector: Collector, run: Path, answer: tuple[int, str, bytes]) -> None:
    collector.answer = answer
    assert main(["export", "--otlp", collector.url, str(run)]) == 0


@pytest.mark.parametrize(
    ("url", "said"), [("http://127.0.0.1:9", "Connection refused"), ("127.0.0.1:4318", "No connection adapters")]
)
def test_nobody_answers(
    run: Path, url: str, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")

    assert main(["export", "--otlp", url, str(run)]) == 1

    (line,) = capfd.readouterr().err.splitlines()
    assert f" to {url}/v1/metrics: " in line
    assert said in line


def test_without_the_client_the_extra_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)

    assert main(["export", "--otlp", "http://127.0.0.1:9", str(run)]) == 1

    assert "pip install 'pytest-nfvperf[otlp]'" in capsys.readouterr().err
