"""The table that a run ends with: what it measured, or what it compared."""

from __future__ import annotations

from pytest_nfvperf.adapters.evidence.comparison import compared_run
from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.comparison_table import comparison_text
from pytest_nfvperf.adapters.report.table import summary_rows, summary_text
from pytest_nfvperf.model.evidence.conclusion import RunConclusion


def run_table(run: RunEvidence, conclusion: RunConclusion, *, width: int | None = None, color: bool = False) -> str:
    """The table as text, "" where nothing was measured; ``width`` in columns, None: as wide as it needs."""
    compared = compared_run(run, conclusion)
    if compared is not None:
        return comparison_text(compared, width=width, color=color)
    rows = summary_rows(run, conclusion)
    return summary_text(rows, width=width, color=color) if rows else ""
