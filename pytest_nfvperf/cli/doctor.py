"""``nfvperf doctor``: what this machine can and cannot do, and what to do about it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_nfvperf.adapters.host.cpus import complete_testbed
from pytest_nfvperf.adapters.machine import machine_checks as machine
from pytest_nfvperf.adapters.machine.machine_checks import Check, CheckState, distance_check, lab_checks, node_checks
from pytest_nfvperf.adapters.ovs.installation import named_versions
from pytest_nfvperf.adapters.report.terminal import rendered, table
from pytest_nfvperf.backends.embedded_side import cached_round_trips, side_of
from pytest_nfvperf.backends.local import LocalBackend
from pytest_nfvperf.config.testbed_file import load_testbed
from pytest_nfvperf.model.display import TableColumn, TableRow, how_many, longest_word
from pytest_nfvperf.model.errors import NfvperfError
from pytest_nfvperf.model.testbed.testbed import Testbed

_MARKS = {CheckState.OK: ("ok", "green"), CheckState.WARN: ("note", "yellow"), CheckState.MISSING: ("missing", "red")}
_ABSENT = ("absent", "yellow")  # of a missing thing that is optional


def doctor(file: Path | None) -> int:
    """Check this machine, and what a testbed file needs of it. Returns 1 if something needed is missing."""
    testbed = load_testbed(file)[0] if file is not None else None
    if testbed is not None:
        testbed = replace(testbed, ovs=named_versions(testbed.ovs))
    found = [*machine.checks(testbed), distance_check(testbed, cached_round_trips)]
    if testbed is not None:
        found += [*lab_checks(complete := complete_testbed(testbed)), *node_checks(testbed)]
        found += _as_a_run(complete) if not _missing(found) else []
    print(doctor_text(found, color=sys.stdout.isatty(), width=shutil.get_terminal_size((120, 24)).columns))
    return 1 if _missing(found) else 0


def _as_a_run(testbed: Testbed) -> list[Check]:
    """What a run looks at before it starts anything, in its own words; nothing for a replay."""
    if testbed.generator.engine == "replay":
        return []
    try:
        LocalBackend(testbed, side_of(testbed)).check()
    except NfvperfError as error:
        return [Check("a run's own look", CheckState.MISSING, "refused", str(error), needed=True)]
    return [Check("a run's own look", CheckState.OK, "nothing is missing", needed=True)]


def doctor_text(checks: Sequence[Check], *, color: bool = False, width: int = 120) -> str:
    """The table of checks, needed ones first. The last line says whether all of them are met."""
    rows = list[TableRow]()
    room = width - max((len(check.name) for check in checks), default=0) - len("missing  ")
    for title, needed in (("needed", True), ("optional", False)):
        rows.append(("", (title, "bold"), ""))
        for check in [check for check in checks if check.needed is needed]:
            mark = _ABSENT if check.state is CheckState.MISSING and not needed else _MARKS[check.state]
            seen = [check.seen] if longest_word(check.seen) <= room else ["", check.seen]  # a path stays whole below
            rows.append((mark, check.name, *seen, check.advice))
    columns = [TableColumn(""), TableColumn("what"), TableColumn("seen", folds=True)]
    missing = _missing(checks)
    ready = f"ready: no, {how_many(missing, 'thing')} missing" if missing else "ready: yes"
    return f"{rendered(table(columns, rows, width), width=width, color=color)}\n\n{ready}"


def _missing(checks: Sequence[Check]) -> int:
    return sum(check.needed and check.state is CheckState.MISSING for check in checks)
