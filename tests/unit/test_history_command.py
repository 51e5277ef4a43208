"""``nfvperf history``: what is kept, what is told, the exit statuses, and what becomes of damaged files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_nfvperf.cli.main import main
from pytest_nfvperf.session.slas import load_baseline
from tests.history_support import write_run

STEADY = (4.0e6, 4.02e6, 3.99e6, 4.01e6, 4.0e6, 3.98e6, 4.01e6)
FELL = (*STEADY, 3.5e6, 3.51e6)
Nfvperf = Callable[..., int]


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nfvperf:
    """``history("check")``: the command in this test's directory; returns its exit status."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: main(["history", *map(str, arguments)])


def fill(history: Nfvperf, rates: tuple[float, ...] = STEADY, first: int = 1, **facts: str) -> None:
    for number, rate in enumerate(rates, first):
        assert history("add", write_run(Path("results"), number, rate, **facts)) == 0


def test_a_run_is_added_once(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    fill(history, (4e6,))
    text = Path("history/run-01.json").read_text()
    assert "added: history/run-01.json: 2 figures of 1 subject\n" in capsys.readouterr().out

    assert history("add", "results/run-01") == 0
    assert "there already: history/run-01.json" in capsys.readouterr().out
    assert [path.name for path in Path("history").iterdir()] == ["run-01.json"]
    assert Path("history/run-01.json").read_text() == text
    kept = json.loads(text)
    assert (kept["schema"], kept["run"], kept["testbed"], kept["versions"]) == (
        1,
        "run-01",
        "embedded",
        {"ovs": "3.1.0"},
    )
    figure = kept["measured"][0]["figures"][0]
    assert (figure["metric"], figure["unit"], figure["value"]) == ("forwarding_rate", "pps", 4e6)
    assert figure["low"] < 4e6 < figure["high"]


def test_another_run_of_the_same_id_changes_nothing(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    fill(history, (4e6,))
    path = Path("history/run-01.json")
    other = path.read_text().replace('"started_ns": 17487360', '"started_ns": 17487361')
    path.write_text(other)
    assert history("add", "results/run-01") == 4
    assert "there is another run run-01, of 2025-06-01 00:01: nothing was changed" in capsys.readouterr().err
    assert path.read_text() == other


@pytest.mark.parametrize(
    ("start_ns", "said"),
    [
        (0, "this run began 1970-01-01 00:01 by the clock of its machine, before there was an nfvperf: the clock was"),
        (
            4_102_444_800 * 10**9,
            "this run began 2100-01-01 00:01 by the clock of its machine, in the future: the clock",
        ),
    ],
)
def test_a_run_whose_clock_was_not_set_is_no_point_of_a_history(
    history: Nfvperf, capsys: pytest.CaptureFixture[str], start_ns: int, said: str
) -> None:
    assert history("add", write_run(Path("results"), 1, 4e6, start_ns=start_ns)) == 4
    assert said in capsys.readouterr().err
    assert not Path("history").exists()


def test_a_killed_run_is_kept_with_what_it_has(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    assert history("add", write_run(Path("results"), 1, 4e6, killed=True)) == 0
    out = capsys.readouterr().out
    assert "This run was killed: the history has what it measured, and says so." in out
    assert json.loads(Path("history/run-01.json").read_text())["result"] == "killed"


def test_a_run_without_figures_is_refused(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    assert history("add", write_run(Path("results"), 1, 0)) == 4
    assert "nothing was measured in this run, so a history has no use for it" in capsys.readouterr().err
    assert not Path("history").exists()


def test_a_history_without_a_change_passes(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    fill(history)
    capsys.readouterr()
    assert history("check") == 0
    assert capsys.readouterr().out == "nothing new in 1 series of 7 runs (exit status 0)\n"


def test_a_fall_fails_until_somebody_acknowledges_it(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    fill(history, STEADY)
    fill(history, FELL[len(STEADY) :], first=8, ovs="3.2.0")
    capsys.readouterr()
    assert history("check") == 1
    out = capsys.readouterr().out
    assert (
        "worse since run run-08 of 2025-06-01 00:08: ovs 3.1.0 before, 3.2.0 after\n"
        "  worse: throughput/test_rate phy2phy 64, forwarding_rate: 4.00 Mpps to 3.50 Mpps (-12.4%)\n" in out
    )
    assert "1 change for the worse that nobody acknowledged (exit status 1)" in out

    about = ("--test", "test_rate phy2phy", "--metric", "forwarding_rate", "--at", "run-08")
    assert history("acknowledge", *about, "--reason", "checksums are verified now") == 0
    assert "acknowledged: throughput/test_rate phy2phy 64, forwarding_rate: -12.4% at run-08" in capsys.readouterr().out
    assert history("check") == 0
    out = capsys.readouterr().out
    assert out.startswith("acknowledged since run run-08 of 2025-06-01 00:08: ovs 3.1.0 before, 3.2.0 after\n")
    assert "Mpps (-12.4%); acknowledged: checksums are verified now\n" in out

    fill(history, (3.0e6, 3.01e6, 3.0e6), first=10)
    assert history("check") == 1


def test_an_improvement_is_told_and_passes(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    fill(history, (*STEADY, 4.5e6, 4.51e6))
    capsys.readouterr()
    assert history("check") == 0
    assert capsys.readouterr().out.startswith(
        "better since run run-08 of 2025-06-01 00:08: the same versions before and after\n"
        "  better: throughput/test_rate phy2phy 64, forwarding_rate: 4.00 Mpps to "
    )


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (
            ("--test", "rate", "--metric", "forwarding_rate", "--at", "run-80"),
            "no run 'run-80' in history, did you mean",
        ),
        (("--test", "pvp", "--metric", "forwarding_rate", "--at", "run-08"), "no series has --test 'pvp' and --metric"),
        (("--test", "rate", "--metric", "pdr", "--at", "run-08"), "There are throughput/test_rate phy2phy 64: forw"),
    ],
)
def test_an_acknowledgement_of_nothing_is_a_mistake(
    history: Nfvperf, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], answer: str
) -> None:
    fill(history, FELL)
    assert history("acknowledge", *arguments, "--reason", "known") == 4
    assert answer in capsys.readouterr().err
    assert not list(Path("history").glob("acknowledged*"))


def test_too_few_runs_to_tell(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    fill(history, STEADY[:5])
    assert history("check") == 10
    assert "too few runs to tell: a series needs 6 on equal machines" in capsys.readouterr().out


def test_a_new_machine_has_too_few_runs(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    fill(history)
    fill(history, (2e6, 2.01e6), first=8, cpu_model="Xeon")
    capsys.readouterr()
    assert history("check") == 10
    assert history("show") == 0
    assert "machine 2: testbed embedded, first run run-08; it is not machine 1: cpu_model: EPYC then, Xeon now" in (
        capsys.readouterr().out
    )


DAMAGES = {
    "<<<<<<< HEAD\n": "damaged: no JSON",
    '{"schema": 2, "run": "x"}': "schema 2 is of a newer nfvperf, this one reads up to 1: update nfvperf",
    '{"run": "x"}': "no file of a history: it has no schema number",
    '{"schema": 1, "run": "x"}': "damaged: Field required",
    '{"schema": 1, "run": NaN}': "damaged: no JSON (NaN is no number)",
}


@pytest.mark.parametrize(("text", "answer"), DAMAGES.items())
def test_a_damaged_file_is_named_and_the_others_are_used(
    history: Nfvperf, capsys: pytest.CaptureFixture[str], text: str, answer: str
) -> None:
    fill(history)
    Path("history/x.json").write_text(text)
    capsys.readouterr()
    assert history("check") == 11
    seen = capsys.readouterr()
    assert seen.err.startswith("nfvperf: left out: history/x.json: ")
    assert answer in seen.err
    assert seen.out == "nothing new in what could be read (exit status 11)\n"
    fill(history, FELL[len(STEADY) :], first=8)
    assert history("check") == 1


def test_a_directory_that_is_none_or_empty_is_a_mistake(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    assert history("check") == 4
    assert "history: no such directory: `nfvperf history add RUN` makes one" in capsys.readouterr().err
    Path("history").mkdir()
    assert history("show") == 4
    assert "history: no run of a history here: add one by" in capsys.readouterr().err


def test_a_wrong_option_is_a_mistake_and_no_change(history: Nfvperf) -> None:
    with pytest.raises(SystemExit) as end:
        history("check", "--smallest", "three")
    assert end.value.code == 4


def test_without_ruptures_the_answer_is_what_to_install(
    history: Nfvperf, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(history)
    monkeypatch.setitem(sys.modules, "ruptures", None)
    assert history("check") == 4
    assert "change points need ruptures: pip install 'pytest-nfvperf[history]'" in capsys.readouterr().err


def test_a_table_and_a_page(history: Nfvperf, capsys: pytest.CaptureFixture[str]) -> None:
    fill(history, FELL)
    capsys.readouterr()
    assert history("show", "--metric", "forwarding_rate") == 0
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if line.lstrip().startswith("throughput/test_rate")]
    assert " ".join(row.split()[2:]) == "64 forwarding_rate 1 9 4.00 Mpps 3.51 Mpps -12.4% at run-08"
    page = Path("reports/history.html").read_text()
    assert page.count('<svg class="spark"') == 2, "one of the cause, one of the series"
    assert '"name":"throughput/test_rate phy2phy 64, forwarding_rate"' in page
    assert '<span class="sized fail">-12.4%</span> forwarding_rate' in page
    assert "nothing that is known: the same versions before and after" in page


def test_a_file_of_a_history_is_a_baseline(history: Nfvperf) -> None:
    fill(history, (4e6,))
    fingerprint = {"cpu_model": "EPYC", "ovs": "3.2.0"}
    by_file = load_baseline(Path("history/run-01.json"), fingerprint)
    by_run = load_baseline(Path("results/run-01"), fingerprint)
    assert (by_file.name, by_file.when, by_file.unlike) == ("the baseline run-01.json", by_run.when, ())
    assert list(by_file.observed) == list(by_run.observed)
    for kept, seen in zip(*(next(iter(each.observed.values())) for each in (by_file, by_run)), strict=True):
        assert (kept.metric, kept.value, kept.unit, kept.low, kept.high) == (
            *(seen.metric, seen.value, seen.unit, seen.low, seen.high),
        )
    other = load_baseline(Path("history/run-01.json"), {"cpu_model": "Xeon"})
    assert other.unlike == ("cpu_model: EPYC then, Xeon now",)
