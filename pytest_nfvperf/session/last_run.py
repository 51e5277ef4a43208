"""The last run: the newest one beside this run in which a test passed, on the same rig and DUT.

Tables show each figure beside that of its last run. ``--nfv-fail-below`` judges by it, as an SLA file would.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_nfvperf.adapters.evidence.reader import PATTERN, RunEvidence, facts_by_test, read_run
from pytest_nfvperf.adapters.report.texts import changes_since
from pytest_nfvperf.config.sla_file import LAST
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.comparison import rig_changes, rig_facts
from pytest_nfvperf.model.evidence.conclusion import TestResult, conclude_test
from pytest_nfvperf.model.figure import Figure
from pytest_nfvperf.model.measure.compare import ComparisonData, ReadingMethod, SideFigures, compare_figures
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.metrics import HIGHER, metric_of
from pytest_nfvperf.model.sla.rules import Limit, Rule
from pytest_nfvperf.model.sla.verdict import Baseline, subject_of
from pytest_nfvperf.session.slas import start_text

MOST_RUNS, MOST_AGE = 20, timedelta(days=30)
"""Earlier runs that are looked at, and their age."""
FAIL_BELOW = "--nfv-fail-below"
NOT_YET = f"{FAIL_BELOW} judges nothing here yet: no last run has a figure to compare with"
_BEGAN, _NAMED = "%Y%m%d-%H%M%S", re.compile(r"\d{8}-\d{6}")
_NOT_COMPARED = ("_min", "_max", "_cpu_seconds")
"""Ends of names of figures that one frame decides, or the machine."""
_COSTS = frozenset({"cores", "cycles", "cpu-s/Gbit"})
"""Units of costs. ``--nfv-fail-below`` is about rates, times and counted instructions."""

TestOnRig = tuple[str, Mapping[str, Any]]
"""A test's node id, and the ``rig_facts`` of where it ran."""


class LastRun:
    """Compares tests with the runs beside this one. A run is read when it is first asked for, and once.

    ``tests``: node ids of the tests whose results are read. ``fail_below``: as in Options. ``baseline``: what it names.
    """

    def __init__(
        self, run_dir: Path, tests: Collection[str], fail_below: tuple[float, str] | None, baseline: Baseline | None
    ) -> None:
        self._tests, self._fail_below, self._baseline = tests, fail_below, baseline
        self._unread, self._read = iter(newest_first(run_dir)[:MOST_RUNS]), list[RunEvidence]()

    def _earlier(self) -> Iterator[RunEvidence]:
        yield from self._read
        for path in self._unread:
            try:
                run = read_run(path, results_of=self._tests)
            except (ConfigError, OSError):  # damaged, of a newer nfvperf, somebody else's
                continue
            self._read.append(run)
            yield run

    def _of(self, outcome: Outcome, on: TestOnRig) -> tuple[RunEvidence | None, str]:
        """The newest run in which the test passed on the same rig and DUT; else how the newest differed, if any did."""
        (node_id, rig), why = on, ""
        for run in self._earlier():
            test = run.tests.get(node_id)
            data = run.runs.get(test.file) if test is not None else None
            if test is None or data is None or data.compare is not None or run.being_written:
                continue
            passed = conclude_test(facts_by_test(test, run)).result is TestResult.PASSED
            if passed and key_of(outcome) in map(key_of, test.outcomes.values()):
                changed = rig_changes(rig_facts(data, test.topologies.values()), rig)
                if not changed:
                    return run, ""
                why = why or f"not compared with {run.run_id}: {changed}"
        return None, why

    def compare(self, outcome: Outcome, on: TestOnRig | None) -> ComparisonData | None:
        """A test's figures beside its last run, or why they are not compared; None if there is none."""
        if on is None:
            return None
        last, why = self._of(outcome, on)
        rates = self._fail_below is not None and self._fail_below[1] == LAST and gate_rule(1.0, LAST, outcome.figures)
        notes = tuple(filter(None, (why, NOT_YET if rates and self.gate([outcome], on) is None else "")))
        sides = () if last is None else (_side(outcome, last, on[0]),)
        run_id = "" if last is None else last.run_id
        found = ComparisonData(*key_of(outcome), ReadingMethod.RUNS, run_id, sides, notes=notes)
        return found if sides or notes else None

    def gate(self, outcomes: Sequence[Outcome], on: TestOnRig | None) -> tuple[Rule, Baseline] | None:
        """What --nfv-fail-below requires of outcomes of one subject, and by which run; None where it judges nothing."""
        if self._fail_below is None or on is None:
            return None
        (share, of), baseline = self._fail_below, self._baseline
        subject = subject_of({name: value for outcome in outcomes for name, value in outcome.labels})
        if of == LAST:
            last = next((found for outcome in outcomes if (found := self._of(outcome, on)[0]) is not None), None)
            if last is None:
                return None
            alike = [one for one in last.tests[on[0]].outcomes.values() if subject_of(one.label) == subject]
            figures = [(figure, metric_of(figure.metric).better) for one in alike for figure in one.figures]
            # Only what a figure can fall below: a rate of at least 4 Mpps is no limit.
            deciding = [each for each, better in figures if (each.high if better == HIGHER else each.low) is not None]
            baseline = Baseline(f"the last run {last.run_id}", start_text(last), {subject: deciding})
        if baseline is None:
            return None
        then = () if baseline.unlike else baseline.observed.get(subject, ())
        observed = () if of == LAST else [figure for outcome in outcomes for figure in outcome.figures]
        rule = gate_rule(share, of, then or observed)
        return None if rule is None else (rule, baseline)


def newest_first(run_dir: Path) -> list[Path]:
    """Runs of the same folder that began before this one, and not too long ago, by their names, or else their files."""
    began = {path.parent: _began(path) for path in run_dir.parent.glob(f"*/{PATTERN}") if not path.parent.is_symlink()}
    oldest, now = f"{datetime.now(UTC) - MOST_AGE:{_BEGAN}}", _began(run_dir)
    earlier = [path for path, when in began.items() if oldest <= when <= now and path.resolve() != run_dir.resolve()]
    return sorted(earlier, key=lambda path: (began[path], path.name), reverse=True)


def _began(path: Path) -> str:
    named = _NAMED.match(path.name) or _NAMED.match(path.parent.name)
    return named[0] if named else f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):{_BEGAN}}"


def key_of(about: Outcome | ComparisonData) -> tuple[tuple[tuple[str, str], ...], str]:
    return about.labels, about.algorithm


def _side(outcome: Outcome, last: RunEvidence, node_id: str) -> SideFigures:
    """The figures of an outcome beside those of the last run."""
    test = last.tests[node_id]
    alike = next(one for one in test.outcomes.values() if key_of(one) == key_of(outcome))
    then, before = {figure.key: figure for figure in alike.figures}, changes_since(outcome, test.comparisons.values())
    found = []
    for figure in outcome.figures:
        known = before.get((figure.metric, figure.at or ""))
        is_main = figure.unit == metric_of(figure.metric).unit and not figure.metric.endswith(_NOT_COMPARED)
        if is_main and figure.key in then and not figure.of_class:
            found.append(compare_figures(figure, then[figure.key], known.noise_ratios if known is not None else ()))
    return SideFigures("this run", metrics=tuple(filter(None, found)))


def gate_rule(share: float, of: str, figures: Iterable[Figure]) -> Rule | None:
    """Require each rate to be at least this share of the earlier one, each time at most the earlier one over it.

    ``figures``: those to judge; None where none of them is a rate or a time.
    """
    require = []
    for figure in {figure.key: figure for figure in figures}.values():  # a latency repeats the goals it was taken at
        metric = metric_of(figure.metric)
        if metric.compared and metric.unit == figure.unit and figure.unit not in _COSTS and not figure.of_class:
            operator, ratio = (">=", share) if metric.better == HIGHER else ("<=", 1 / share)
            text = f"{operator} {100 * ratio:.4g} % of {of}"
            require.append((figure.metric, Limit(operator, ratio, "ratio", text, at=figure.at, of_baseline=True)))
    return Rule((), tuple(require), f"{FAIL_BELOW} '{100 * share:g} % of {of}'") if require else None
