"""The triage of a history: one line a cause, at the right version; what noise and chance do not add to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nfvperf.cli.main import main
from pytest_nfvperf.features.history.command import watch
from pytest_nfvperf.features.history.files import History, add_entry
from pytest_nfvperf.features.history.page import HistoryLinks, render_history, sparkline, version_urls
from pytest_nfvperf.features.history.series import Acknowledgement, HistoryEntry, HistoryFigure, Watched
from pytest_nfvperf.features.history.triage import TriageLine, importance, triage
from pytest_nfvperf.model.errors import ConfigError
from tests.browser_support import CHROMIUM, Tab, chromium
from tests.history_support import NOISY_WEEKS, PLANTED, entry, series, sixty_runs

BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (nfvperf doctor says how to install it)")
MOVED_METRICS = {14: {"ndr", "pdr", "cycles_per_packet", "dut_cpu_seconds"}, 32: {"latency_p99"}, 45: {"ndr", "pdr"}}
SEEDS = 20


def lines_of(entries: Sequence[HistoryEntry], *acknowledged: Acknowledgement) -> list[TriageLine]:
    """The oldest first."""
    return triage(entries, watch(History(tuple(entries), acknowledged, ()), "", ""))[::-1]


def causes(entries: Sequence[HistoryEntry]) -> list[tuple[int, dict[str, tuple[str, str]]]]:
    """(number of the first run after it, what changed there) for each line."""
    numbers = {each.run: number for number, each in enumerate(entries)}
    return [
        (numbers[line.first.run], {name: (before, after) for name, before, after in line.differs})
        for line in lines_of(entries)
    ]


def test_three_planted_changes_are_three_lines_with_their_versions() -> None:
    entries = sixty_runs()
    assert causes(entries) == list(PLANTED.items())
    for (number, _), line in zip(PLANTED.items(), lines_of(entries), strict=True):
        assert {moved.metric for moved, _ in line.moved} == MOVED_METRICS[number]
        assert line.moved[0][0].metric in {"ndr", "latency_p99"}, "the most important metric comes first"
        assert line.before is entries[number - 1]
    assert [line.state for line in lines_of(entries)] == ["worse", "worse", "better"]


def test_nineteen_such_histories_of_twenty_have_these_lines_and_no_other() -> None:
    found = [causes(sixty_runs(seed)) for seed in range(SEEDS)]
    assert all(set(PLANTED) <= {number for number, _ in each} for each in found)
    assert sum(each == list(PLANTED.items()) for each in found) >= SEEDS - 1


def test_noisy_weeks_are_left_out_and_said() -> None:
    watched = watch(History(tuple(sixty_runs()), (), ()), "ndr_pdr", "")
    noisy = {number for week in NOISY_WEEKS for number in week}
    for each in watched:
        assert len(each.disturbed & noisy) >= 12
        assert len(each.disturbed - noisy) <= 2


def test_a_step_without_another_version_says_so() -> None:
    entries = [replace(each, versions={"ovs": "3.2.1"}) for each in sixty_runs()]
    assert causes(entries) == [(number, {}) for number in PLANTED]


def test_a_change_is_placed_at_the_version_although_one_run_strays() -> None:
    """The run before the new version was slow, too, for a reason of its own."""
    values = [4.0, 4.02, 3.99, 4.01, 4.0, 3.98, 4.01, 3.62, 3.6, 3.61, 3.6, 3.59]
    entries = [
        entry(number, HistoryFigure("pdr", "pps", value), versions={"ovs": "3.2" if number <= 8 else "3.3"})
        for number, value in enumerate(values, 1)
    ]
    ((line,), (watched,)) = lines_of(entries), watch(History(tuple(entries), (), ()), "", "")
    assert [change.run for change in watched.changes] == ["run-08"]
    assert (line.before.run, line.first.run, line.differs) == ("run-08", "run-09", (("ovs", "3.2", "3.3"),))


def test_a_nic_s_firmware_is_a_cause() -> None:
    entries = [
        entry(
            number,
            HistoryFigure("pdr", "pps", 4.0 if number <= 6 else 3.5),
            fingerprint={"ports": {"p0": {"kind": "pci", "firmware": "22.31" if number <= 6 else "22.36"}}},
        )
        for number in range(1, 13)
    ]
    (line,) = lines_of(entries)
    assert line.differs == (("port p0 firmware", "22.31", "22.36"),)


def test_what_somebody_knows_of_is_acknowledged_when_nothing_is_open() -> None:
    entries = sixty_runs()
    known = Acknowledgement("phy2phy", "latency_p99", entries[32].run, "the driver polls less often")
    assert [line.state for line in lines_of(entries, known)] == ["worse", "worse", "better"]
    all_of_it = replace(known, test="")
    assert [line.state for line in lines_of(entries, all_of_it)] == ["worse", "acknowledged", "better"]


def test_metrics_by_importance() -> None:
    metrics = ["dut_cpu_seconds", "my_own", "latency_p99", "forwarding_rate", "cycles_per_packet", "pdr", "ndr"]
    assert sorted(metrics, key=importance) == [
        *("ndr", "pdr", "forwarding_rate", "latency_p99", "cycles_per_packet", "my_own", "dut_cpu_seconds"),
    ]


@pytest.mark.parametrize("value", [0.0, 1.0, 4e6])
@pytest.mark.parametrize("runs", [1, 2, 9])
def test_a_small_picture_of_one_value_is_a_line(value: float, runs: int) -> None:
    heights = set(re.findall(r"[ML][\d.-]+ ([\d.]+)", sparkline(Watched(series([value] * runs, metric="loss_ratio")))))
    assert len(heights) == 1
    assert 0 < float(heights.pop()) < 28


# The page.


def write_page(folder: Path, entries: Sequence[HistoryEntry], links: HistoryLinks | None = None) -> Path:
    watched = watch(History(tuple(entries), (), ()), "", "")
    causes = triage(entries, watched)
    return render_history(entries, watched, causes, [], folder / "history.html", links or HistoryLinks({}, {}))


def test_the_page_has_a_row_for_each_cause_and_says_where_runs_are_too_few(tmp_path: Path) -> None:
    text = write_page(tmp_path, sixty_runs()).read_text()
    rows = re.findall(r"<tr data-time.*?</tr>", text, re.DOTALL)
    assert [re.findall(r"<li><b>(\w+)</b> ([\d.]+) → ([\d.]+)</li>", row) for row in rows] == [
        [(name, before, after)] for cause in reversed(PLANTED.values()) for name, (before, after) in cause.items()
    ]
    assert "too few runs: 4 of 6" in text
    assert '<b class="inconclusive">1</b><span>too few runs to tell</span>' in text
    assert re.search(r"14 runs \(20250621-013000-4020 to \d{8}-013000-40\d\d, .* scatter much more than", text)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])  # type: ignore[index]
    assert len(data["runs"]) == 60
    assert len(data["series"]) == text.count('id="s-') == 31


def test_versions_and_runs_are_links_where_somebody_said_to_what(tmp_path: Path) -> None:
    entries = sixty_runs()
    urls = version_urls(["https://host/commit/{version}", "dpdk=https://dpdk.example/v{version}?a&b"])
    text = write_page(tmp_path, entries, HistoryLinks(urls, {entries[14].run: "runs/4014/report.html"})).read_text()
    assert '<a href="https://host/commit/3.3.0">3.3.0</a>' in text
    assert '<a href="https://dpdk.example/v24.11.0?a&amp;b">24.11.0</a>' in text
    assert '<a href="runs/4014/report.html">20250615-013000-4014</a>' in text
    commits = [
        replace(each, versions={"ovs": "3.7.90", "commit": ("a" if number < 14 else "b/") * 20})
        for number, each in enumerate(entries)
    ]
    text = write_page(tmp_path, commits, HistoryLinks(urls, {})).read_text()
    assert f'<a href="https://host/commit/{"b%2F" * 20}">' in text, "the commit, where it is known"


@pytest.mark.parametrize(
    "template", ["https://host/commit/", "ftp://host/{version}", "linux=https://host/{version}", "javascript:{version}"]
)
def test_a_template_that_is_none_is_a_mistake(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"is no template of an address: write \[NAME=\]https://HOST"):
        version_urls([template])
    add_entry(tmp_path, sixty_runs()[0])
    output = tmp_path / "page.html"
    options = ["--history", str(tmp_path), "--output", str(output), "--version-url", template]
    assert main(["history", "show", *options]) == 4
    assert f"--version-url: {template!r} is no template" in capsys.readouterr().err
    assert not output.exists()


def test_show_prints_a_line_a_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for each in sixty_runs():
        add_entry(tmp_path / "history", each)
    assert main(["history", "show", "--history", str(tmp_path / "history"), "--output", str(tmp_path / "x.html")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if " since run " in line]
    assert [re.sub(r" 2025-.*?: (\w+) .*: ([+-][\d.]+%) (\S+) .*", r" \1 \2 \3", line) for line in lines] == [
        "better since run 20250716-013000-4045 of kernel +5.6% ndr",
        "worse since run 20250703-013000-4032 of dpdk +26.5% latency_p99",
        "worse since run 20250615-013000-4014 of ovs -8.2% ndr",
    ]


def test_check_prints_each_cause_with_its_series_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Series that count come first; on a terminal of 80 columns no line is longer, and no word is cut."""
    for each in sixty_runs():
        add_entry(tmp_path / "history", each)
    command = ["history", "check", "--history", str(tmp_path / "history")]
    assert main(command) == 1
    *lines, end = capsys.readouterr().out.splitlines()
    heads = [index for index, line in enumerate(lines) if not line.startswith("  ")]
    assert [lines[index].partition(" of ")[0] for index in heads] == [
        "better since run 20250716-013000-4045",
        "worse since run 20250703-013000-4032",
        "worse since run 20250615-013000-4014",
    ]
    moved = [line for line in lines if line.startswith("  ")]
    assert all(re.match(r"  (worse|better): \S+ \S+ \d+, .*%\)", line) for line in moved)
    counted = sum(line.startswith("  worse: ") and "recovered" not in line for line in moved)
    assert end.startswith(f"{counted} changes for the worse that nobody acknowledged (exit status 1)")

    monkeypatch.setattr("pytest_nfvperf.features.history.page._MOST_MOVED", 2)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(command) == 1
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) < 80
    assert "  and 4 others: choose by --test or --metric\n" in narrow
    shown = re.sub(r"and \d+ others: choose by --test or --metric", "", narrow)
    assert set(shown.split()) <= set(" ".join([*lines, end]).split()), "no word is cut"


def test_a_page_of_more_series_than_a_browser_bears_says_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_nfvperf.features.history.page._MOST_ROWS", 12)
    monkeypatch.setattr("pytest_nfvperf.features.history.page._MOST_MOVED", 2)
    text = write_page(tmp_path, sixty_runs()).read_text()
    assert "19 series have no row here: choose some by --test and --metric" in text
    assert text.count('id="s-') == 12
    assert re.findall(r'<li class="soft">and (\d+) more</li>', text) == ["4", "4", "10"]
    assert re.findall(r'<td class="n" data-th="series">(\d+)</td>', text) == ["6", "6", "12"]
    assert set(re.findall(r'href="#(s-\d+)"', text)) <= set(re.findall(r'id="(s-\d+)"', text))


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    """One browser for all."""
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("history"), sixty_runs())


@pytest.mark.thorough("starts Chromium")
@BROWSER
@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1400, False), (1400, True)])
def test_nothing_is_beside_the_window(tab: Tab, page: Path, width: int, dark: bool) -> None:
    tab.show(page, width=width, dark=dark)
    tab.ask("document.querySelectorAll('button.open').forEach(button => button.click())")
    tab.ask("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert tab.ask("document.querySelectorAll('tr.plot svg circle').length") > 1_500
    assert tab.ask("document.documentElement.scrollWidth") <= width
    assert tab.ask("[...document.querySelectorAll('.wide')].every(one => one.scrollWidth <= one.clientWidth)")
    assert tab.ask(
        "[...document.querySelectorAll('.badge')].every(one => one.getBoundingClientRect().right <= innerWidth)"
    )
    assert tab.complaints == []


@pytest.mark.thorough("starts Chromium")
@BROWSER
def test_filters_and_order(tab: Tab, page: Path) -> None:
    tab.show(page)
    rows = "[...document.querySelectorAll('#causes tbody tr')]"
    seen = f"{rows}.filter(row => row.checkVisibility()).map(row => row.dataset.count)"

    def choose(field: str, value: str) -> None:
        tab.ask(f"document.getElementById('{field}').value = '{value}'")
        tab.ask(f"document.getElementById('{field}').dispatchEvent(new Event('input'))")

    assert tab.ask(seen) == ["6", "6", "12"]
    choose("order", "count")
    assert tab.ask(seen) == ["12", "6", "6"]
    choose("metric", "latency_p99")
    assert tab.ask("document.getElementById('found').textContent") == "1 of 3 changes, 6 of 31 series"
    choose("suite", "mirror")
    assert tab.ask("document.getElementById('found').textContent") == "0 of 3 changes, 0 of 31 series"
    choose("metric", "")
    assert tab.ask("document.getElementById('found').textContent") == "0 of 3 changes, 1 of 31 series"
    choose("suite", "")
    choose("find", "23.11")
    assert tab.ask("document.getElementById('found').textContent") == "1 of 3 changes, 0 of 31 series"
    tab.ask("document.querySelector('#causes th[data-key=time] button').click()")
    assert tab.ask("document.querySelector('#causes th[data-key=time]').getAttribute('aria-sort')") == "descending"


@pytest.mark.thorough("starts Chromium")
@BROWSER
def test_a_link_opens_the_series_and_the_keyboard_walks_its_runs(tab: Tab, page: Path) -> None:
    tab.show(page, fragment="#s-3")
    tab.wait("document.querySelector('#s-3 + tr.plot svg') !== null", "the series to open")
    assert tab.ask("document.querySelector('.tip').textContent").startswith(
        "2025-07-30 01:30, run 20250730-013000-4059: "
    )
    tab.ask("document.querySelector('tr.plot svg').focus()")
    for kind in ("keyDown", "keyUp"):
        tab.call("Input.dispatchKeyEvent", type=kind, key="ArrowLeft", code="ArrowLeft", windowsVirtualKeyCode=37)
    assert tab.ask("document.querySelector('.tip').textContent").startswith(
        "2025-07-29 01:30, run 20250729-013000-4058: "
    )
