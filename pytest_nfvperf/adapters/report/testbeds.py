"""Which testbed measured what, in a run that several workers measured."""

from __future__ import annotations

from pytest_nfvperf.adapters.evidence.reader import RunEvidence, worker_of


def measured_on(run: RunEvidence) -> dict[str, list[str]]:
    """For each testbed the files of those who measured on it; in the order of the tests."""
    files = dict.fromkeys(test.file for test in run.tests.values() if test.measured)
    found: dict[str, list[str]] = {}
    for file in files:
        if file in run.runs:
            found.setdefault(run.runs[file].testbed.name, []).append(file)
    return found


def testbed_lines(run: RunEvidence) -> list[str]:
    """``testbed r650-a measured 12 tests (gw0, gw2)``, a line each; none in a run without workers."""
    lines = []
    for name, files in measured_on(run).items():
        count = sum(test.measured and test.file in files for test in run.tests.values())
        workers = ", ".join(filter(None, map(worker_of, files)))
        if workers:
            lines.append(f"testbed {name} measured {count} test{'' if count == 1 else 's'} ({workers})")
    return lines


testbed_lines.__test__ = False  # type: ignore[attr-defined]
