"""The report of a run in virtual time: the host writes it after the guest has ended.

In the guest importing the charts' libraries takes half a minute. So the run there only says where its report will be,
and leaves a note in the shared folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pytest_nfvperf.plugin.output import EndParts

NOTE = "NFVPERF_REPORT_NOTE"
"""Environment variable of the run in the guest: the file in which it notes its directory."""
PAGE = "report.html"


def is_left_to_host() -> bool:
    return NOTE in os.environ


def leave_to_host(run_dir: Path) -> Path:
    """Leave a note for the host; returns the path of the future report."""
    Path(os.environ[NOTE]).write_text(str(run_dir), encoding="utf-8")
    return run_dir / PAGE


def write_noted(note: Path, rootpath: Path) -> None:
    """Write the report that a run in a guest left to its host. ``note``: the file that ``NOTE`` named there."""
    if not note.exists():
        return
    # Every pytest run imports this module, and these take a second.
    from pytest_nfvperf.adapters.evidence.reader import read_run  # noqa: PLC0415
    from pytest_nfvperf.session.run_report import write_report  # noqa: PLC0415

    run_dir, parts = Path(note.read_text(encoding="utf-8")), EndParts()
    with parts.isolated("the report cannot be written", f"then: nfvperf report {run_dir}"):
        write_report(read_run(run_dir), run_dir, rootpath, note=parts.note)
    for line in parts.unshown():
        print(f"nfvperf: {line}", file=sys.stderr)
