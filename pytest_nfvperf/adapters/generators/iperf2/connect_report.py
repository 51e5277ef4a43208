"""What iperf 2 prints of its connects: a line for each with its time, and a summary at the end."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from pytest_nfvperf.model.errors import GeneratorError
from pytest_nfvperf.model.traffic.histogram import Histogram

_TIME = re.compile(r"\(ct=(\d+)\.(\d\d) ms\)")
_MS = r"(\d+\.\d+)"
_SUMMARY = re.compile(rf"final connect times \(min/avg/max/stdev\) = {_MS}/{_MS}/{_MS}/\S+ ms \(tot/err\)")
_FAILED = re.compile(r"^(?:\[.*\] )?tcp connect (?:to \S+ port \d+ )?failed(?! \(Bad file descriptor\))", re.MULTILINE)
"""A line for each. The summary's own count is right in 2.1.8, and 0 at any number of them in 2.2.1. That version keeps
its closed socket after the first failure: the bad descriptors that follow are no connects."""
_STEP_NS = 10_000
"""A line has milliseconds with two decimals; the summary has three."""
_EXACT_DIGITS = 9
_SHOWN_LINES = 20


@dataclass(frozen=True, slots=True)
class ConnectReport:
    """Times of connects that succeeded, their mean, and how many failed."""

    times: Histogram
    mean_ns: float
    failed: int


def read_report(text: str) -> ConnectReport:
    """The report of a client that ran with ``--connect-only --enhanced``.

    Raises:
        GeneratorError: no connection was to be had, or the summary is not there; with the last lines as evidence.
    """
    steps = Counter(int(whole) * 100 + int(hundredths) for whole, hundredths in _TIME.findall(text))
    summary = _SUMMARY.search(text)
    if not steps or summary is None:
        why = "connected to nothing" if not steps else "printed no summary of its connects"
        raise GeneratorError(f"iperf {why}", evidence={"iperf": "\n".join(text.splitlines()[-_SHOWN_LINES:])})
    low, mean, high = (float(ms) * 1e6 for ms in summary.groups()[:3])
    counts = tuple((step * _STEP_NS, count) for step, count in sorted(steps.items()))
    return ConnectReport(Histogram(counts, round(low), round(high), _EXACT_DIGITS), mean, len(_FAILED.findall(text)))
