"""What the report of a large run takes: 1,000 tests and 50,000 trials."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.table import Figure
from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.traffic.traffic import RFC2544_FRAME_SIZES, Traffic
from tests.browser_support import chromium
from tests.sample_run import SampleRun

_TESTS, _TRIALS, _SUITES = 1_000, 50_000, 10
_MOST_S, _MOST_BYTES, _MOST_PAGE, _MOST_OPEN_S = 20.0, 1 << 30, 15_000_000, 2.0


class _LargeRun(SampleRun):
    """Ten suites, each a hundred searches that differ in frame size and flows."""

    def labels(self, suite: str, test: str, topology: str, traffic: Traffic) -> tuple[tuple[str, str], ...]:
        number = self.number
        own = {"suite": f"suite-{number % _SUITES}", "flows": str(number // _SUITES // len(RFC2544_FRAME_SIZES) + 1)}
        return tuple((dict(super().labels(suite, test, topology, traffic)) | own).items())

    def start_test(self, name: str, labels: tuple[tuple[str, str], ...], description: str) -> None:
        super().start_test(f"{name}_{self.number}", labels, description)

    def whole(self, directory: Path) -> Path:
        """Write it; the last tests repeat trials until there are as many as wanted."""
        writer = EvidenceWriter(directory / "evidence.jsonl")
        self.begin()
        trials = 0
        for self.number in range(_TESTS):
            size = RFC2544_FRAME_SIZES[self.number // _SUITES % len(RFC2544_FRAME_SIZES)]
            self.throughput_test("phy2phy", size)
            due = _TRIALS * (self.number + 1) // _TESTS
            while trials + sum(record.kind == "trial" for record in self.records) < due:
                self.trial(Traffic(frame_size=size), 1_000_000, 7e6, "search")
            trials += sum(record.kind == "trial" for record in self.records)
            self._write(writer)
        self.end()
        self._write(writer)
        writer.close()
        return writer.path

    def _write(self, writer: EvidenceWriter) -> None:
        for record in self.records:
            writer.emit(record)
        self.records.clear()

    number = 0


def report_size() -> list[Figure]:
    """Renders it in a process of its own, then opens the page in Chromium."""
    with TemporaryDirectory() as name:
        evidence = _LargeRun().whole(Path(name))
        began = time.monotonic()
        run([sys.executable, "-m", "pytest_nfvperf.cli.main", "report", name], deadline_s=600)
        took = time.monotonic() - began
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        page = Path(name, "report.html")
        opened = _opened(page)
        size = page.stat().st_size
        what = f"report of {_TESTS:,} tests, {_TRIALS:,} trials"
        detail = f"evidence of {evidence.stat().st_size / 1e6:.0f} MB"
        return [
            Figure(f"{what}: rendered in", format_seconds(took), "< 20 s", took < _MOST_S, detail),
            Figure(f"{what}: memory", f"{memory / 1e6:.0f} MB", "< 1 GiB", memory < _MOST_BYTES),
            Figure(f"{what}: page", f"{size / 1e6:.1f} MB", "< 15 MB", size < _MOST_PAGE),
            Figure(f"{what}: opens in", format_seconds(opened), "< 2 s", opened < _MOST_OPEN_S, "until it is loaded"),
        ]


def _opened(page: Path) -> float:
    with chromium() as tab:
        tab.show(page)
        return float(tab.ask("performance.getEntriesByType('navigation')[0].loadEventEnd")) / 1e3
