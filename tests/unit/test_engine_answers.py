"""An answer of the engine in which one value cannot be: a broken testbed or an invalid trial, and never a figure."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from changed_answers import CANNOT_BE, changed_at, leaves

from pytest_nfvperf.adapters.generators.checks import parsing_answer
from pytest_nfvperf.adapters.generators.embedded.trial_results import trial_result
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.disturbance.validity import generator_reasons
from pytest_nfvperf.model.disturbance.windows import ThreadWindows, Windows
from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.generator import GeneratorPort

PAGE = (Path(__file__).parents[2] / "docs/reference/engine-protocol.md").read_text()
SPEC = TrialSpec(Traffic(frame_size=64), 1000, 0.01, (Direction("p0", "p0"),))
PORTS = {"p0": GeneratorPort("p0", "x", "x")}


def documented() -> dict[str, Any]:
    """The answer to a trial, as the page of the protocol shows it."""
    lines = (json.loads(line) for line in PAGE.splitlines() if line.startswith('{"id": 4, "ok": true'))
    return next(answer for answer in lines if "streams" in answer)


def read(answer: dict[str, Any]) -> TrialResult:
    with parsing_answer("nfvperf-gen", answer):
        return trial_result(SPEC, answer, PORTS, {"p0": True})


COUNTED = [path for path in leaves(documented()) if path[0] in {"streams", "ports"}]


@pytest.mark.parametrize("value", CANNOT_BE, ids=repr)
@pytest.mark.parametrize("path", COUNTED, ids=lambda path: ".".join(map(str, path)))
def test_no_value_that_cannot_be_becomes_another_figure(path: tuple[Any, ...], value: Any) -> None:
    told = ""
    try:
        result = read(changed_at(documented(), path, value))
        reasons = (*result.invalid, *generator_reasons(result))
    except GeneratorError as error:
        told = str(error)
    if told:
        assert "nfvperf-gen answered what cannot be read: " in told or "a whole number belongs there" in told
    elif value is ... and path[0] == "streams" and path[-1] == "misdirected":  # recordings of older engines lack it
        assert result.counts[0].misdirected is None
    elif not reasons and not {"latency", "latency_raw", "due"} & {*path}:
        assert result.counts == read(documented()).counts


def test_windows_of_traffic_without_classes_stay_as_they_were_counted() -> None:
    """Steps: the last frames are lost, which no later one follows. Verify: only classes have these put elsewhere."""
    columns: dict[str, Any] = {field.name: (0,) * 10 for field in fields(ThreadWindows)} | {"sent": (1,) * 10}
    windows = Windows(1_000_000, (ThreadWindows(**columns),), ())
    answer = changed_at(documented(), ("streams", 0, "highest_seq"), 1)
    result = trial_result(SPEC, answer, PORTS, {"p0": True}, windows=windows)
    assert result.windows == windows


def test_the_answer_is_evidence() -> None:
    answer = changed_at(documented(), ("streams", 0, "received"), "N/A")
    with pytest.raises(GeneratorError, match="nfvperf-gen answered what cannot be read: ") as caught:
        read(answer)
    assert '"received": "N/A"' in caught.value.evidence["its answer"]


def test_the_documented_answer_is_a_valid_trial() -> None:
    result = read(documented())
    assert (result.valid, result.sent, result.received, generator_reasons(result)) == (True, 10, 10, ())
