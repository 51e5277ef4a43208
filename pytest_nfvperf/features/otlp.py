"""A run as metrics of OpenTelemetry, sent over OTLP: its figures, and the samples of its soaks.

A data point is a gauge with the time and the attributes of its measurement: sent twice, it is in a database once.
"""

from __future__ import annotations

import logging
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence
from pytest_nfvperf.adapters.evidence.writer import read_samples
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.measure.soak_series import TIME
from pytest_nfvperf.model.metrics import RATES, metric_of

_MOST_POINTS = 2000  # of a request: some 2 MB. Collectors refuse 20 MB

Point = tuple[str, str, dict[str, str], int, float]  # name, unit, attributes, ns since the epoch, value

_UCUM = {"pps": "{frames}/s", "bps": "bit/s", "ratio": "1", "line_ratio": "1", "ns": "ns", "s": "s", "bytes": "By"}
"""Other units are annotations, such as ``{cycles}``."""

_SAMPLED = (("_ns$", "ns"), ("rss$", "By"), ("rxq_busy|^up$", "1"), ("", "{count}"))  # by a pattern of the name


def figure_points(run: RunEvidence) -> Iterator[Point]:
    """Each figure at the time when its measurement ended. Rates are in frames only."""
    for test in run.tests.values():
        for key, outcome in test.outcomes.items():
            for figure in outcome.figures:
                own = metric_of(figure.metric).unit or figure.unit
                if not math.isfinite(figure.value) or (own == RATES[0] != figure.unit and figure.unit in RATES):
                    continue
                about = {"at": figure.at, "class": figure.of_class, "bound": figure.bound.value or "exact"}
                name = figure.metric if figure.unit == own else f"{figure.metric}.{figure.unit}"
                unit, attributes = _UCUM.get(figure.unit, f"{{{figure.unit}}}"), {**outcome.label, **about}
                yield _name(name), unit, _attributes(test, key, attributes), run.times_ns[key], figure.value


def sample_points(run: RunEvidence) -> Iterator[Point]:
    """All samples of soaks. A count is that of the interval that ends at its time. Print which files are absent."""
    for test, key, soak in [(one, *item) for one in run.tests.values() for item in one.soaks.items()]:
        file = (run.path if run.path.is_dir() else run.path.parent) / soak.samples
        if not file.exists():
            print(f"nfvperf: left out: the samples of {key}, since there is no {file}", file=sys.stderr)
            continue
        table, trial = read_samples(file), run.trials.get(soak.trial)
        # A trial is recorded as soon as its counters are read. A soak that broke off has none.
        ended, took_s = (soak.trial, trial.wall_s) if trial is not None else (key, soak.soak.elapsed_s)
        began_ns = run.times_ns[ended] - round(took_s * 1e9)
        columns = []
        for source, _, name in (column.rpartition(".") for column in table.columns[1:]):
            unit = next(unit for pattern, unit in _SAMPLED if re.search(pattern, name))
            named = _name("soak." + re.sub(r"^(p\d+|min|max)$", r"latency_\1", name.removesuffix("_ns")))
            columns.append((named, unit, _attributes(test, key, {**dict(test.data.labels), "source": source})))
        for row, at_s in enumerate(table.column(TIME)):
            for column, about in zip(table.columns[1:], columns, strict=True):
                if not math.isnan(value := table.column(column)[row]):
                    yield *about, began_ns + round(at_s * 1e9), value


def _attributes(test: TestEvidence, record: str, about: Mapping[str, str | None]) -> dict[str, str]:
    own = {"test.case.name": test.node_id, "nfvperf.record": record}
    return {**{f"nfvperf.{name}": value for name, value in about.items() if value}, **own}


def _name(text: str) -> str:
    return "nfvperf." + re.sub(r"[^\w.]", "_", text, flags=re.ASCII)


def send(run: RunEvidence, url: str) -> int:
    """Send a run to a collector; returns the number of data points. ``url``: with or without ``/v1/metrics``.

    Raises:
        ConfigError: the client is not installed, nobody answers there, or data points are refused.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
        from requests import Session  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError("--otlp needs OpenTelemetry: pip install 'pytest-nfvperf[otlp]'") from error
    endpoint = f"{url.rstrip('/').removesuffix('/v1/metrics')}/v1/metrics"
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # our error says what it would print
    answers: list[Any] = []
    # In the order of time: Prometheus takes no sample before one that it has.
    points, sent = merge(sorted(figure_points(run), key=itemgetter(3)), sample_points(run), key=itemgetter(3)), 0
    with Session() as session:
        exporter = OTLPMetricExporter(endpoint=endpoint, session=_noting(session, answers))
        while part := list(islice(points, _MOST_POINTS)):
            exporter.export(_metrics_data(run, part))
            if why := _refusal(answers.pop() if answers else OSError("nothing could be sent")):
                raise ConfigError(f"cannot send run {run.run_id} to {endpoint}: {why} ({sent} data points were sent)")
            sent += len(part)
    return sent


def _noting(session: Any, answers: list[Any]) -> Any:
    """Note each answer, or the error in place of it: the exporter says no more than success or failure."""
    request = session.request

    def noted(*arguments: Any, **options: Any) -> Any:
        try:
            answers.append(request(*arguments, **options))
        except OSError as error:  # as all errors of requests are
            answers.append(error)
            raise
        return answers[-1]

    session.request = noted
    return session


def _refusal(answer: Any) -> str:
    """Why a request was not taken as a whole; "" if it was."""
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2  # noqa: PLC0415 - an extra

    if not hasattr(answer, "status_code"):
        while answer.__context__ is not None:
            answer = answer.__context__
        return str(answer)
    if answer.status_code // 100 != 2:
        return " ".join(f"{answer.status_code} {answer.reason} {answer.text[:200]}".split())
    content = answer.content if "protobuf" in answer.headers.get("Content-Type", "") else b""
    partial = metrics_service_pb2.ExportMetricsServiceResponse.FromString(content).partial_success
    refused = partial.rejected_data_points
    return f"it refused {refused} data points: {partial.error_message}" if refused else ""


def _metrics_data(run: RunEvidence, points: Sequence[Point]) -> Any:
    """In the SDK's own classes: its meters would stamp each point with the time of now."""
    from opentelemetry.sdk.metrics import export  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

    # Nothing that may change, as the result does by a resume, nor anything of this machine.
    known = {"service.name": "nfvperf", "service.instance.id": run.run_id, "nfvperf.run.id": run.run_id}
    if (data := run.run) is not None:
        known |= {"service.version": data.tool_version, "nfvperf.testbed": data.testbed.name}
        versions = {name: data.fingerprint.get(name) for name in ("ovs", "dpdk", "kernel")}
        known |= {f"nfvperf.{name}.version": str(value) for name, value in versions.items() if value}
    named: dict[tuple[str, str], list[export.NumberDataPoint]] = {}
    for name, unit, attributes, time_ns, value in points:
        named.setdefault((name, unit), []).append(export.NumberDataPoint(attributes, 0, time_ns, float(value)))
    metrics = [export.Metric(name, "", unit, export.Gauge(of_it)) for (name, unit), of_it in named.items()]
    scope = export.ScopeMetrics(InstrumentationScope("nfvperf"), metrics, "")
    return export.MetricsData([export.ResourceMetrics(Resource(known), [scope], "")])
