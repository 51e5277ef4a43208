"""A run's page, with what others published beside it: of a run that ends, of one in a guest, of one made long ago."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_nfvperf.adapters.evidence.reader import RunEvidence
from pytest_nfvperf.adapters.report.html import render_report
from pytest_nfvperf.adapters.report.page_charts import NoteFault, raise_fault
from pytest_nfvperf.session.published_figures import published_beside, relations_of, series_of


def write_report(
    run: RunEvidence,
    folder: Path,
    root: Path | None = None,
    *,
    time_for_charts: Callable[[], bool] = lambda: True,
    note: NoteFault = raise_fault,
) -> Path:
    """Write ``report.html`` into a folder, with its charts; returns its path.

    Args:
        run: what the evidence says.
        folder: where the page goes.
        root: see ``published_beside``.
        time_for_charts: see ``render_report``.
        note: see ``render_report``.
    """
    published = published_beside(run, root)
    relations = relations_of(published, run)
    return render_report(
        run, folder, series_of(published), relations=relations, time_for_charts=time_for_charts, note=note
    )
