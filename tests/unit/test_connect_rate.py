"""iperf 2's lines as times of connects, and connects that cannot be asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nfvperf.adapters.generators.program_pairs import Iperf2Engine, read_report
from pytest_nfvperf.measure.streams import connect_values
from pytest_nfvperf.model.errors import GeneratorError, UnavailableError
from pytest_nfvperf.model.measure.streams import ConnectResult, ConnectSpec
from pytest_nfvperf.model.traffic.histogram import Histogram

HEAD = "TCP three-way-handshake (3WHS) only\n------------------------------------------------------------\n"
BOOKWORM = (
    "[  1] local 198.18.77.1%ca port 60958 connected with 198.18.77.2 port 5901 (sock=3) (icwnd/mss/irtt=14/1448/48) "
    "(ct={} ms) on 2026-11-23 01:23:32 (UTC)\n"
)
TRIXIE = (
    "[  1] local 198.18.77.1%ca port 51470 connected with 198.18.77.2 port 6005 (icwnd/mss/irtt=14/1448/6) "
    "(ct={} ms) on 2026-11-23 01:42:17.025 (UTC)\n"
)
REFUSED = (
    "tcp connect failed: Connection refused\n[  1] local 0.0.0.0 port 0 connected with 198.18.77.2 port 7777 (sock=4)\n"
)
TRIXIE_REFUSED = (
    "[  1] tcp connect to 198.18.77.2 port 7133 failed (Connection refused) on 2026-11-23 02:03:24.081 (UTC)\n"
    "[  1] tcp connect to 198.18.77.2 port 7133 failed (Bad file descriptor) on 2026-11-23 02:03:24.091 (UTC)\n"
)
SUMMARY = "[ CT] final connect times (min/avg/max/stdev) = {:.3f}/{:.3f}/{:.3f}/46.285 ms (tot/err) = {}/{}\n"


@pytest.mark.parametrize(
    ("line", "refused", "counted"), [(BOOKWORM, REFUSED, "20/1"), (TRIXIE, TRIXIE_REFUSED, "19/0")]
)
def test_times_are_those_of_each_connect(line: str, refused: str, counted: str) -> None:
    summary = SUMMARY.format(0.014, 0.029, 0.102, *counted.split("/"))
    said = HEAD + line.format("0.10") + line.format("0.02") * 18 + refused + summary
    times, mean_ns, failed = read_report(said)
    assert times.counts == ((20_000, 18), (100_000, 1))
    assert (times.min_ns, times.max_ns) == (14_000, 102_000)
    assert mean_ns == pytest.approx(29_000)
    assert failed == 1


@given(st.lists(st.integers(1, 10**8), min_size=2, max_size=200), st.integers(0, 10))
def test_percentiles_are_as_near_as_the_lines_say(times_us: list[int], failed: int) -> None:
    lines = "".join(BOOKWORM.format(f"{us / 1000:4.2f}") for us in times_us)
    low, high = min(times_us), max(times_us)
    mean, total = sum(times_us) / len(times_us), len(times_us) + failed
    found, _, refused = read_report(
        HEAD + lines + REFUSED * failed + SUMMARY.format(low / 1e3, mean / 1e3, high / 1e3, total, failed)
    )
    assert found.total == len(times_us)
    assert refused == failed
    assert found.percentile_ns(100) == pytest.approx(high * 1000, abs=5001)
    middle = sorted(times_us)[(len(times_us) - 1) // 2]
    assert found.percentile_ns(50) == pytest.approx(middle * 1000, abs=5001)


def test_a_client_that_was_refused_is_told() -> None:
    with pytest.raises(GeneratorError, match="iperf connected to nothing") as caught:
        read_report(HEAD + REFUSED * 3)
    assert "Connection refused" in caught.value.evidence["iperf"]


def test_a_report_without_its_end_is_no_report() -> None:
    with pytest.raises(GeneratorError, match="iperf printed no summary of its connects"):
        read_report(HEAD + BOOKWORM.format("0.02"))


def test_figures_of_a_result() -> None:
    times = Histogram(((20_000, 990), (500_000, 11)), 14_000, 501_000, 9)
    values = connect_values(ConnectResult(ConnectSpec(1001), times, 25_273.0, 2, 1001, 100_000_000, "iperf 2.1.8"))
    assert values["connect_rate"] == pytest.approx(10_000)
    assert values["connect_time_mean"] == pytest.approx(25_273)
    assert (values["connect_time_p50"], values["connect_time_p99"]) == (20_000, 500_000)
    assert values["failed_connects"] == 2


def test_no_time_is_no_rate() -> None:
    times = Histogram(((20_000, 1),), 14_000, 14_000, 9)
    result = ConnectResult(ConnectSpec(), times, 14_000.0, 0, 1, 0, "iperf 2.1.8")
    assert connect_values(result)["connect_rate"] is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"connects": 9}, "connects is 9: write a whole number from 10 to 25000"),
        ({"connects": 25_001}, "connects is 25001: "),
        ({"duration_s": 0}, "duration_s is 0: "),
    ],
)
def test_connects_that_cannot_be_made_are_refused(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ConnectSpec(**wrong)  # type: ignore[arg-type]


def test_a_machine_without_iperf_skips_and_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnavailableError, match=r"iperf is not installed: apt-get install iperf$"):
        Iperf2Engine(None)  # type: ignore[arg-type]
