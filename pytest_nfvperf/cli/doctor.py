"""``nfvperf doctor``: what this machine can and cannot do, and what to do about it."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from pytest_nfvperf.adapters.host.cpus import complete_testbed
from pytest_nfvperf.adapters.machine import machine_checks as machine
from pytest_nfvperf.adapters.machine.check import Check, CheckState
from pytest_nfvperf.adapters.machine.cpu_distance import distance_check
from pytest_nfvperf.adapters.machine.lab_needs import lab_checks, node_checks
from pytest_nfvperf.adapters.ovs.installation import NAMED_VERSIONS
from pytest_nfvperf.backends.embedded_side import cached_round_trips
from pytest_nfvperf.config.testbed_file import load_testbed
from pytest_nfvperf.model.display import how_many

_MARKS = {CheckState.OK: "[green]ok[/]", CheckState.WARN: "[yellow]note[/]", CheckState.MISSING: "[red]missing[/]"}
_ABSENT = "[yellow]absent[/]"
"""Of a missing thing that is optional."""


def doctor(file: Path | None) -> int:
    """Check this machine, and what a testbed file needs of it. Returns 1 if something needed is missing."""
    testbed = load_testbed(file)[0] if file is not None else None
    if testbed is not None:
        testbed = replace(testbed, ovs=NAMED_VERSIONS.part("--nfv-ovs")(testbed.ovs, (), None))
    found = [*machine.checks(testbed), distance_check(testbed, cached_round_trips)]
    found += [*lab_checks(complete_testbed(testbed)), *node_checks(testbed)] if testbed is not None else []
    print(doctor_text(found, color=sys.stdout.isatty(), width=shutil.get_terminal_size((120, 24)).columns))
    return 0 if is_usable(found) else 1


def doctor_text(checks: Sequence[Check], *, color: bool = False, width: int = 120) -> str:
    """The table of checks, needed ones first. The last line says whether all of them are met."""
    table = Table(box=box.SIMPLE_HEAD, show_lines=False)
    for title in ("", "what", "seen", "what to do"):
        table.add_column(title, overflow="fold")
    for title, needed in (("needed", True), ("optional", False)):
        table.add_row("", f"[bold]{title}[/]", "", "")
        for check in [check for check in checks if check.needed is needed]:
            mark = _ABSENT if check.state is CheckState.MISSING and not needed else _MARKS[check.state]
            table.add_row(mark, check.name, check.seen, check.advice)
        table.add_section()
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=color, highlight=False).print(table)
    missing = how_many(_missing(checks), "thing")
    ready = "ready: yes" if is_usable(checks) else f"ready: no, {missing} missing"
    return f"{out.getvalue().rstrip()}\n\n{ready}"


def _missing(checks: Sequence[Check]) -> int:
    return sum(check.needed and check.state is CheckState.MISSING for check in checks)


def is_usable(checks: Sequence[Check]) -> bool:
    return _missing(checks) == 0
