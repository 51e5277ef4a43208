"""Two runs that were made already: whether they may be compared, and how weakly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nfvperf.adapters.evidence.comparison import compared_runs
from pytest_nfvperf.adapters.evidence.reader import read_run
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter
from pytest_nfvperf.cli.main import main
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.records import KINDS, RecordIds, RunEndData, TestData, TestEndData, make_record
from pytest_nfvperf.model.measure.bounds import PlateauPoint
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.statistics import Samples
from tests.outcomes import measured
from tests.sample_run import run_data

LABELS = (("frame_size", "64"), ("suite", "throughput"), ("test", "test_rate"), ("topology", "phy2phy"))
SPREAD = (0.99, 0.995, 1.0, 1.005, 1.01, 1.0, 0.997, 1.003)


@pytest.fixture
def made(tmp_path):
    """Writes a run with one outcome of this rate, and reads it back."""

    def write(name, rate, fingerprint=None, labels=LABELS):
        ids, folder = RecordIds(), tmp_path / name
        folder.mkdir()
        writer = EvidenceWriter(folder / "evidence.jsonl")
        samples = Samples("forwarding_rate", "pps", tuple(rate * share for share in SPREAD))
        facts = {"cpu_model": "EPYC", "kernel": "6.1"} | (fingerprint or {})
        for number, payload in enumerate(
            [
                replace(run_data(), fingerprint=facts),
                TestData(labels),
                measured(Outcome(labels, "frmol", 64.0, 2, samples=(samples,))),
                TestEndData("passed", 1.0),
                RunEndData(0, 2.0),
            ]
        ):
            test = "t.py::rate" if 0 < number < 4 else ""
            writer.emit(make_record(payload, id=ids.next(KINDS[type(payload)]), run=name, test=test, time_ns=number))
        writer.close()
        return read_run(folder)

    return write


@pytest.mark.parametrize(
    ("rate", "word", "status"),
    [(4e6, "same", 0), (3.4e6, "slower", 1), (4.6e6, "faster", 0), (3.8e6, "cannot tell", 10)],
)
def test_only_large_differences_are_told(made, rate, word, status):
    compared = compared_runs(made("one", 4e6), made("two", rate), 0.02)

    (side,) = compared.tests[0].data.sides
    assert (side.side, side.deciding.word, compared.exit_status) == ("two", word, status)
    assert side.deciding.noise_floor == pytest.approx(0.1)
    assert not compared.paired
    assert "nothing alternated, so the statistics are weaker" in compared.warnings[0]


def test_runs_of_different_machines_are_refused(made):
    with pytest.raises(ConfigError, match=r"cannot be compared: they differ in cpu_model \(EPYC and Xeon\)"):
        compared_runs(made("one", 4e6), made("two", 4e6, {"cpu_model": "Xeon"}), 0.02)


def test_what_else_differs_is_told(made):
    compared = compared_runs(made("one", 4e6), made("two", 4e6, {"kernel": "6.12"}), 0.02)

    assert compared.differences == (("kernel", (("one", "6.1"), ("two", "6.12"))),)


def test_runs_without_a_test_in_common_are_refused(made):
    with pytest.raises(ConfigError, match="have no rate, time or cost of the same test in common"):
        compared_runs(made("one", 4e6), made("two", 4e6, labels=(("test", "other"),)), 0.02)


def test_tests_are_the_same_by_their_labels_whatever_firmware_and_file_they_had(made):
    """As the history follows them: `nfvperf site` would else say that nothing is in common."""
    first = made("one", 4e6, labels=(*LABELS, ("firmware", "1.2")))
    second = made("two", 4e6, labels=(*LABELS, ("firmware", "1.3")))
    moved = replace(second, tests={"suites/t.py::rate": second.tests["t.py::rate"]})

    (test,) = compared_runs(first, moved, 0.02).tests
    assert test.data.sides[0].deciding.word == "same"


def test_a_plateau_is_compared_though_it_has_no_samples(made):
    def with_plateau(run, rate):
        (test,) = run.tests.values()
        ((record, outcome),) = test.outcomes.items()
        point = PlateauPoint("trial-0009", rate, rate * 0.99, rate * 1.01, 62)
        test.outcomes[record] = measured(replace(outcome, samples=(), figures=()), plateaus=[point])
        return run

    compared = compared_runs(with_plateau(made("one", 4e6), 4e6), with_plateau(made("two", 4e6), 3.4e6), 0.02)
    (metric,) = compared.tests[0].data.sides[0].metrics
    assert (metric.metric, metric.ratio) == ("forwarding_rate", pytest.approx(0.85))


def test_one_run_twice_is_refused(made):
    run = made("one", 4e6)
    with pytest.raises(ConfigError, match="are one run, one: nothing can differ"):
        compared_runs(run, run, 0.02)


def test_the_command_prints_the_table_and_writes_the_document(made, capsys):
    one, two = made("one", 4e6), made("two", 3.4e6, {"kernel": "6.12"})

    assert main(["compare", str(one.path), str(two.path)]) == 1
    out = capsys.readouterr().out
    assert "kernel: 6.1 | 6.12" in out
    assert "0.850" in out
    assert "slower" in out
    assert "the statistics are weaker" in out
    assert (two.path / "comparison-with-one.json").is_file()
    assert main(["compare", str(one.path), "installed"]) == 4
    assert "no evidence here" in capsys.readouterr().err
