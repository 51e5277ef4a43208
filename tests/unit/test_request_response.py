"""sockperf's log of messages as response times, and requests that cannot be sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.program_pairs import SockperfEngine, read_log
from pytest_nfvperf.measure.streams import response_values
from pytest_nfvperf.model.errors import GeneratorError, UnavailableError
from pytest_nfvperf.model.measure.streams import RequestResult, RequestSpec

HEAD = "------------------------------\ntest was performed using the following parameters: --mps=max, --tcp\n"


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + text)
    return path


def test_times_are_those_of_each_message(tmp_path: Path) -> None:
    rows = "txTime, rxTime\n1.000000100, 1.000020100\n1.500000000, 1.500030000\n2.000000000, 0.000000000\n"
    times, unanswered, elapsed_ns = read_log(log(tmp_path, rows))
    assert (times.min_ns, times.max_ns, times.total) == (20_000, 30_000, 2)
    assert unanswered == 1
    assert elapsed_ns == 999_999_900


def test_columns_that_other_versions_add_are_no_times(tmp_path: Path) -> None:
    head = "packet, txTime(sec), rxTime(sec), rtt(usec)\n"
    times, _, _ = read_log(log(tmp_path, f"{head}0, 1.0, 1.00002, 20.000\n1, 1.1, 1.10002, 20.000\n------\n"))
    assert (times.min_ns, times.max_ns, times.total) == (20_000, 20_000, 2)


def test_a_log_without_messages_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="sockperf logged no message") as caught:
        read_log(log(tmp_path, "txTime, rxTime\n"))
    assert "--mps=max" in caught.value.evidence["its log"]
    with pytest.raises(GeneratorError, match="without having written its log"):
        read_log(tmp_path / "none")


def test_a_time_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="sockperf logged 'nan' as a time"):
        read_log(log(tmp_path, "txTime, rxTime\n1.0, nan\n"))


def test_figures_of_a_result(tmp_path: Path) -> None:
    rows = "txTime, rxTime\n" + "".join(f"{number}.0, {number}.0000{number}\n" for number in range(1, 10))
    result = RequestResult(RequestSpec(), *read_log(log(tmp_path, rows)), engine="sockperf 3.7")
    values = response_values(result)
    assert values["response_time_p50"] == pytest.approx(50_000, rel=0.01)
    assert values["response_time_p999"] == pytest.approx(90_000, rel=0.01)
    assert values["responses"] == pytest.approx(9 / 8)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"message_bytes": 13}, "message_bytes is 13: write a whole number from 14 to 65000"),
        ({"duration_s": 0}, "duration_s is 0: "),
        ({"load_per_s": 0}, "load_per_s is 0: "),
    ],
)
def test_requests_that_cannot_be_sent_are_refused(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RequestSpec(**wrong)  # type: ignore[arg-type]


def test_a_machine_without_sockperf_skips_and_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnavailableError, match=r"sockperf is not installed: apt-get install sockperf"):
        SockperfEngine(None)  # type: ignore[arg-type]
