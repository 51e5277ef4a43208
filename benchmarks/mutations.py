"""Would the tests notice? Forty faults are planted one at a time, and the tests that reach the changed line run.

``python -m benchmarks mutations``. First ``make test`` runs once in a copy of the tree, and coverage notes which test
reaches which line, in the processes that a test starts, too. Then each fault is planted in the copy, and those tests
run, the quickest first, until one fails. A fault that none finds shows what no test holds.

It takes an hour or two on a machine that nothing else uses. What is known is kept in reports/mutations: an interrupted
one goes on. Faults that were not found are tried again, with the tests of changed files, too.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
import zlib
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import coverage

from benchmarks.mutants import AREAS, COUNT, Fault, chosen
from benchmarks.table import Figure
from benchmarks.tree_copy import ROOT, TIMED_OUT, TreeCopy, changed_files, commit, tree_copy

WANTED = 38
_KEPT = ROOT / "reports/mutations"
_BATCH_S = (10.0, 60.0, 300.0)
"""Seconds of tests that one pytest runs: the first ones are few, and find most faults."""
_PASSED, _FAILED, _WRONG_CALL, _NOTHING_RAN = 0, 1, 4, 5
_TIER = "not kernel and not thorough and not daily"
"""The tests of ``make test``."""


def mutations() -> list[Figure]:
    """All of them, by the tests of ``make test``."""
    found, count = check(["make", "--no-print-directory", "test"], "test", "")
    figure = Figure("planted faults that tests find", f"{found} of {count}", f">= {WANTED}", found >= WANTED)
    if found < WANTED:
        print(figure, flush=True)
        sys.exit(1)
    return [figure]


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m benchmarks.mutations``: a part of it, or the coverage alone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__.splitlines()[0])
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="by these tests only, on three workers")
    parser.add_argument("--faults", default="", metavar="TEXT", help="only faults with this text, such as judge.py")
    parser.add_argument("--list", action="store_true", help="print the faults")
    parser.add_argument(
        "--coverage", nargs="+", metavar="TARGET", help="print what the tests of these make targets cover, added up"
    )
    asked = parser.parse_args(argv)
    if asked.list:
        print("\n".join(f"{fault.area}: {fault}" for fault in chosen(ROOT / "pytest_nfvperf")))
        return 0
    if asked.coverage:
        return _print_coverage(asked.coverage)
    command, name = ["make", "--no-print-directory", "test"], "test"
    if asked.tests:
        options = ["-n", "3", "--dist", "loadfile", "-m", _TIER]
        command = [".venv/bin/python", "-m", "pytest", *asked.tests, *options]
        name = "-".join(asked.tests).replace("/", ".")[:60] + f"-{zlib.crc32(' '.join(asked.tests).encode()):08x}"
    found, count = check(command, name, asked.faults)
    return 0 if found * COUNT >= WANTED * count else 1


def check(command: Sequence[str], name: str, only: str) -> tuple[int, int]:
    """Plant those faults whose description has this text; how many were found, and how many there are."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the copy goes
    with tree_copy() as copy:
        faults = [fault for fault in chosen(copy.package) if only in f"{fault.area}: {fault}"]
        reach = _reach(copy, command, _KEPT / f"reach-{name}.json", {fault.file for fault in faults})
        results = _KEPT / f"results-{name}.json"
        known: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}
        for fault in faults:
            if not known.get(fault.key, {}).get("found"):
                known[fault.key] = _try(copy, fault, reach)
                results.write_text(json.dumps(known, indent=1))
            print(_line(fault, known[fault.key]), flush=True)
    found = sum(known[fault.key]["found"] for fault in faults)
    print(f"{found} of {len(faults)} faults are found")
    return found, len(faults)


def _line(fault: Fault, result: dict[str, Any]) -> str:
    if result["found"]:
        return f"found      {fault}\n           by {result['by']} ({result['ran']} tests, {result['seconds']:.0f} s)"
    return f"NOT FOUND  {fault}\n           {result['ran']} tests reach it ({result['seconds']:.0f} s)"


def _try(copy: TreeCopy, fault: Fault, reach: dict[str, Any]) -> dict[str, Any]:
    """Run the tests that reach it, the quickest first, until one fails that passes without the fault."""
    began, ran = time.monotonic(), 0
    tests: list[str] = _reaching(fault, reach)
    times: dict[str, list[float]] = reach["tests"]
    file = copy.package / fault.file
    planted = fault.planted(file.read_bytes())
    while tests:
        batch = _batch(tests, times, ran)
        with copy.changed(file, planted):
            status, failed = _run_tests(copy, batch, sum(times.get(test, [0.0])[0] for test in batch))
        ran += len(batch)
        tests = [test for test in tests if test not in batch]
        if status == _WRONG_CALL:
            raise RuntimeError(f"pytest does not know one of these tests: {', '.join(batch)}")
        for name in failed or ([] if status in {_PASSED, _NOTHING_RAN} else batch[:1]):
            if _run_tests(copy, [name], times.get(name, [60.0])[0])[0] == _PASSED:
                by = name if status == _FAILED else f"{name} and others: {_END.get(status, f'status {status}')}"
                return {"found": True, "by": by, "ran": ran, "seconds": time.monotonic() - began}
            # Disturbed, or its own fault: the rest of the batch runs again.
            batch = [test for test in batch if test not in {name, name.partition("::")[0]}]
            tests = [*batch, *tests]
    return {"found": False, "by": "", "ran": ran, "seconds": time.monotonic() - began}


_END = {TIMED_OUT: "they did not end", 2: "pytest could not collect them", 3: "pytest broke"}


def _batch(tests: Sequence[str], times: dict[str, list[float]], ran: int) -> list[str]:
    """The next tests for one pytest, those of a file one after the other."""
    most, total, batch = _BATCH_S[min(ran // 20, len(_BATCH_S) - 1)], 0.0, list[str]()
    for test in tests:
        total += times.get(test, [0.0])[0]
        if batch and total > most:
            break
        batch.append(test)
    return sorted(batch, key=lambda test: test.partition("::")[0])


def _run_tests(copy: TreeCopy, tests: Sequence[str], expected_s: float) -> tuple[int, list[str]]:
    """Exit status of pytest, which ends at the first failure, and which tests failed."""
    names, outcomes = copy.work / "names", copy.work / "outcomes"
    names.write_text("\n".join(tests))
    outcomes.unlink(missing_ok=True)
    command = copy.python("-m", "pytest", "-x", "-q", "-p", "no:xdist", "-m", _TIER, f"@{names}")
    status, _ = copy.run(command, {"NFV_TESTS_OUTCOMES": str(outcomes)}, timeout_s=60 + 5 * expected_s)
    if any(not test.startswith("tests/unit") for test in tests):
        copy.run([str(copy.root / ".venv/bin/nfvperf"), "clean"], {}, timeout_s=120)
    ended = json.loads(outcomes.read_text()) if outcomes.exists() else {}
    return status, [test for test, (_, passed) in ended.items() if not passed]


def _reaching(fault: Fault, reach: dict[str, Any]) -> list[str]:
    """Tests that reach its line and passed, and those of files that changed since, the quickest first."""
    times: dict[str, list[float]] = reach["tests"]
    contexts = set(reach["lines"].get(fault.file, {}).get(str(fault.line), []))
    changed = changed_files(reach["commit"])
    new = [name for name in changed if name.startswith(tuple(reach["within"])) and "/test_" in name]
    new = [name for name in new if (ROOT / name).exists()]
    found = [name for name, (_, passed) in times.items() if passed]
    found = [name for name in found if name in contexts or name.partition("::")[0] in contexts]
    old = [name for name in found if name.partition("::")[0] not in changed]
    return [*sorted(old, key=lambda name: times[name][0]), *new]


def _reach(copy: TreeCopy, command: Sequence[str], file: Path, needed: Set[str]) -> dict[str, Any]:
    """Which test reaches which line of the sources: as kept while those that are needed are the same, or by a run."""
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if kept and not {f"pytest_nfvperf/{name}" for name in needed} & set(changed_files(kept["commit"])):
        return kept
    outcomes = copy.work / "all-outcomes"
    _, measured = _run_measured(copy, command, outcomes)
    return _keep_reach(copy, measured, outcomes, file)


def _run_measured(copy: TreeCopy, command: Sequence[str], outcomes: Path) -> tuple[int, coverage.Coverage]:
    """Run tests with coverage; their exit status, and what all processes so far have reached."""
    print(f"running {' '.join(command)} with coverage ...", flush=True)
    environment = {"COVERAGE_PROCESS_START": str(copy.coverage_config), "NFV_TESTS_OUTCOMES": str(outcomes)}
    status, output = copy.run(command, environment)
    print("\n".join(output.splitlines()[-12:]), flush=True)
    measured = coverage.Coverage(config_file=str(copy.coverage_config))
    measured.load()
    measured.combine([str(copy.data)])
    measured.save()
    return status, measured


def _keep_reach(copy: TreeCopy, measured: coverage.Coverage, outcomes: Path, file: Path) -> dict[str, Any]:
    data = measured.get_data()
    lines: dict[str, dict[int, list[str]]] = {}
    for name in sorted({name for files in AREAS.values() for name in files}):
        by_line = data.contexts_by_lineno(str(copy.package / name))
        lines[name] = {line: sorted(filter(None, contexts)) for line, contexts in by_line.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    tests = json.loads(outcomes.read_text())
    within = sorted({"/".join(name.split("/")[:2]) for name in tests})
    reach = {"commit": commit(), "within": within, "tests": tests, "lines": lines}
    file.write_text(json.dumps(reach))
    return dict(json.loads(file.read_text()))


def _print_coverage(targets: Sequence[str]) -> int:
    """Lines and branches of the package that the tests of these targets reach, files that none reaches included."""
    statuses = []
    with tree_copy() as copy:
        for number, target in enumerate(targets):
            outcomes = copy.work / f"outcomes-{target}"
            status, measured = _run_measured(copy, ["make", "--no-print-directory", target], outcomes)
            if target == "test":  # what `python -m benchmarks mutations` needs, too
                _keep_reach(copy, measured, outcomes, _KEPT / "reach-test.json")
            _print_totals(copy, measured, " ".join(targets[: number + 1]))
            statuses.append(status)
    return max(statuses)


def _print_totals(copy: TreeCopy, measured: coverage.Coverage, targets: str) -> None:
    sources = [path for path in copy.package.rglob("*.py") if path.resolve().is_relative_to(copy.package)]
    measured.get_data().touch_files([str(path) for path in sources])
    report = copy.work / "coverage.json"
    measured.json_report(outfile=str(report))
    figures = json.loads(report.read_text())
    totals = figures["totals"]
    for name, file in sorted(figures["files"].items(), key=lambda pair: -pair[1]["summary"]["missing_lines"])[:40]:
        summary = file["summary"]
        print(f"{summary['missing_lines']:5} lines missed, {summary['percent_covered']:3.0f} %: {name}")
    print(f"make {targets}: {totals['covered_lines']} of {totals['num_statements']} lines, ", end="")
    print(
        f"{totals['covered_branches']} of {totals['num_branches']} branches: {totals['percent_covered']:.1f} %",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
