"""Measurements of a bisection: one run of pytest, or one comparison of two versions."""

from __future__ import annotations

import itertools
import math
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

from pytest_nfvperf.adapters.evidence.comparison import COMPARISON_FILE, read_comparison_document
from pytest_nfvperf.adapters.evidence.reader import PATTERN, conclude, read_run
from pytest_nfvperf.adapters.process.process import tail
from pytest_nfvperf.features.bisect.bisection import Ask, BisectionState, Purpose, bisection_state
from pytest_nfvperf.features.bisect.candidates import Candidate, Installer, NotUsableError
from pytest_nfvperf.features.bisect.events import (
    BisectionSubject,
    Event,
    MetricDifference,
    Question,
    Ran,
    Unusable,
    VersionComparison,
    failed,
    passed,
)
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, RunResult
from pytest_nfvperf.model.metrics import metric_of

_OUTPUT = "output.txt"
_NO_PAGE = ("--nfv-report", "none")
"""A bisection has a page of its own; `nfvperf report` makes that of a single run."""
_ROUNDS = 6
"""Builds of each side whose instructions are counted: five bound a ratio, six also if one is disturbed. A bisection
learns from all versions by how much equal builds differ, so it needs no second build of the base."""
_INSTRUCTIONS_ERROR = 0.0003
"""Least standard error of the logarithm of a ratio of instructions: readings of one build may all be the same."""
_END_S = 90.0
"""A run that is asked to end takes its testbed down and writes its report."""


def bisect(
    question: Question,
    measure: Callable[[Ask], Event],
    events: Sequence[Event],
    record: Callable[[Event], None],
    begins: Callable[[Ask], None] = lambda _: None,
    ended: Callable[[Event, BisectionState], None] = lambda *_: None,
) -> BisectionState:
    """Measure and record until there is a verdict.

    ``events``: all in order, also those of an earlier process; ``record`` adds one, which is on the disk when it
    returns. ``begins``, ``ended``: report the progress; ``ended`` gets the state after the event.
    """
    now = bisection_state(question, events)
    while isinstance(now.step, Ask):
        begins(now.step)
        event = _relevant(measure(now.step), now.subject)
        record(event)
        now = bisection_state(question, events)
        ended(event, now)
    return now


def _relevant(event: Event, subject: BisectionSubject | None) -> Event:
    """The event; Unusable if it has no figure or outcome of the bisection's subject."""
    match event:
        case VersionComparison() if subject and subject.metric:
            if all(figure.subject != subject for figure in event.figures):
                why = f"its comparison has no {subject.metric} of {subject.test}"
                return Unusable(event.version, f"{why}: {event.note}" if event.note else why)
        case Ran() if subject:
            if subject.test not in {*event.passed, *dict(event.failed)}:
                return Unusable(event.version, f"{subject.test} neither passed nor failed on it")
    return event


def _run_child(argv: Sequence[str], log: Path) -> int:
    """Run a command with its output in ``log``; returns its exit status.

    It has a process group of its own: Ctrl-C reaches only this process, which then asks it to end, and waits. If this
    process is killed, the kernel sends the child SIGTERM, and it removes what it made.
    """
    command = ["setpriv", "--pdeathsig", "TERM", *argv]
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, process_group=0
            )
    except OSError as error:
        raise TestbedError(f"cannot start {argv[0]}: {error.strerror}: {error.filename}") from error
    try:
        return child.wait()
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(_END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def run_tests(arguments: Sequence[str], results: Path) -> RunConclusion:
    """Run pytest once, and read its conclusion from its evidence.

    ``results``: a new directory, for this run alone; its output goes there, too.

    Raises:
        ConfigError: pytest refused the arguments, or measured nothing, so that there is no evidence.
        TestbedError: it cannot be started.
    """
    results.mkdir(parents=True)
    output = results / _OUTPUT
    status = _run_child([sys.executable, "-m", "pytest", *arguments, *_NO_PAGE, "--nfv-results", str(results)], output)
    found = sorted({path.parent.resolve() for path in results.glob(f"*/{PATTERN}")})
    if not found:
        raise ConfigError(
            f"pytest ended with status {status} and left no evidence: nothing was selected that measures, or an option "
            f"cannot be used. It said:\n{tail(output)}"
        )
    return conclude(read_run(found[0]))


def compare(
    base: str, version: str, arguments: Sequence[str], results: Path, *, blocks: int | None
) -> VersionComparison:
    """Compare two versions by ``nfvperf compare``; the base is version 0 of the answer, the other version 1.

    ``arguments``: of pytest. ``results``: a new directory, for this comparison alone. ``blocks``: of fresh builds,
    after which it ends even without a result; None: count instructions.

    Raises:
        NotUsableError: the version cannot do what the tests need, though the base can.
        ConfigError: the arguments cannot be used.
        TestbedError: there is no comparison, which is not the version's fault.
    """
    results.mkdir(parents=True)
    output = results / _OUTPUT
    sides = [f"base={base}", f"version={version}"]
    command = [sys.executable, "-m", "pytest_nfvperf.cli.main", "compare", *sides, "--", *arguments]
    counting = ["--nfv-virtual-time"] if blocks is None else []
    most = ["--nfv-compare-blocks", str(_ROUNDS if blocks is None else blocks)]
    status = _run_child([*command, *counting, *most, *_NO_PAGE, "--nfv-results", str(results)], output)
    documents = sorted(results.glob(f"2*/{COMPARISON_FILE}"))
    if not documents:
        what = (
            f"the comparison ended with status {status}, and compared nothing: {tail(output, 1).strip()}\n"
            f"It said:\n{tail(output)}"
        )
        usage = status in {RunResult.USAGE.exit_status, RunResult.EMPTY.exit_status}
        raise ConfigError(what) if usage else TestbedError(what)
    return read_comparison(documents[0])


def read_comparison(path: Path) -> VersionComparison:
    """The second side in ``comparison.json`` (docs/reference/comparison.md), as version 1 against version 0.

    Raises:
        NotUsableError: the second side broke.
        TestbedError: it has another schema, or nothing was measured, which is not the version's fault.
    """
    document = read_comparison_document(path)
    comparisons = document["comparisons"]
    troubles = [side for one in comparisons for side in one["sides"] if side["state"] != "measured"]
    figures = tuple(figure for one in comparisons for figure in _figures(one, _name(one, comparisons)))
    metrics = [metric for one in comparisons for side in one["sides"] for metric in side["metrics"]]
    if metrics:
        note = "" if figures else f"no figure has an interval: {metrics[0]['reason']}"
        return VersionComparison(0, 1, max(1, *(metric["blocks"] for metric in metrics)), figures, note=note)
    if troubles:
        raise NotUsableError(f"{troubles[0]['state']}: {troubles[0]['reason']}")
    reason = next((f"{left['test']}: {left['reason']}" for left in document["left_out"]), "no test compares anything")
    raise TestbedError(f"nothing was compared ({document['result']}): {reason}")


def _name(comparison: Mapping[str, Any], comparisons: Sequence[Mapping[str, Any]]) -> str:
    """The test; with the labels that distinguish it if the test made several comparisons."""
    same = [other["labels"] for other in comparisons if other["test"] == comparison["test"]]
    distinct = [
        f"{name}={value}"
        for name, value in comparison["labels"].items()
        if any(labels.get(name) != value for labels in same)
    ]
    return " ".join([comparison["test"], *distinct])


def _figures(comparison: Mapping[str, Any], test: str) -> Iterator[MetricDifference]:
    for side in comparison["sides"]:
        for metric in side["metrics"] if side["state"] == "measured" else ():
            ratio, low, high = metric["ratio"], metric["low"], metric["high"]
            least = _INSTRUCTIONS_ERROR if metric_of(metric["metric"]).virtual else 0.0
            if ratio and low and high and (high > low or least):
                z = NormalDist().inv_cdf((1 + metric["confidence"]) / 2)
                error = max(least, math.log(high / low) / 2 / z)
                yield MetricDifference(test, metric["metric"], math.log(ratio), error, metric["better"] == "higher")


@dataclass(frozen=True, slots=True)
class MeasuredVersions:
    """Measures versions on this machine, by ``nfvperf compare`` or by one run of the tests.

    ``arguments``: of pytest. ``results``: gets a directory for each run.
    """

    candidates: Sequence[Candidate]
    installer: Installer
    arguments: Sequence[str]
    results: Path

    def measure(self, ask: Ask) -> Event:
        """Make a measurement; Unusable if a version does not build or start.

        Raises:
            TestbedError: the testbed is broken, which is not the version's fault.
            ConfigError: the tests or their options cannot be used.
        """
        again = ask.purpose is Purpose.CONFIRM
        wheres = []
        for version in (ask.base, ask.version):
            try:
                wheres.append(self.installer.where(self.candidates[version]))
            except NotUsableError as error:
                return Unusable(version, str(error))
        if not ask.blocks:
            return self._run(ask.version, wheres[1], again=again)
        blocks = None if ask.virtual else ask.blocks
        try:
            found = compare(wheres[0], wheres[1], self.arguments, self._new_directory(ask.version), blocks=blocks)
        except NotUsableError as error:
            return Unusable(ask.version, str(error))
        except (ConfigError, TestbedError) as error:
            # Tests that count no instructions, or a machine without guests, are no mistake: rates may differ.
            if not (ask.virtual and ask.purpose is Purpose.ENDS):
                raise
            why = error.message.strip().partition("\n")[0]
            found = VersionComparison(0, 1, 1, (), note=f"instructions were not counted: {why}")
        return replace(found, base=ask.base, version=ask.version, again=again, virtual=ask.virtual)

    def _run(self, version: int, where: str, *, again: bool) -> Event:
        run = self._conclusion(version, where)
        good = tuple(test.node_id for test in run.tests if passed(test))
        bad = tuple((test.node_id, test.full_reason or test.reason) for test in run.tests if failed(test))
        if good or bad or run.result is not RunResult.BROKEN:
            return Ran(version, good, bad, again)
        # The version is unusable only if the testbed does not break on the good end as well.
        control = self._conclusion(0, self.installer.where(self.candidates[0])) if version else run
        if control.result is RunResult.BROKEN:
            raise TestbedError(f"the testbed broke on {self.candidates[0].name}: {control.last_line}")
        return Unusable(version, run.reason)

    def _conclusion(self, version: int, where: str) -> RunConclusion:
        run = run_tests([*self.arguments, "--nfv-ovs", where], self._new_directory(version))
        if run.result in {RunResult.USAGE, RunResult.EMPTY}:
            raise ConfigError(f"the tests cannot be run: {run.last_line}")
        if run.result in {RunResult.INTERRUPTED, RunResult.KILLED, RunResult.INTERNAL}:
            raise TestbedError(f"the tests were interrupted on {self.candidates[version].name}: {run.last_line}")
        return run

    def _new_directory(self, version: int) -> Path:
        """``007-v12``: in the order of time, with the version's name."""
        name = self.candidates[version].name.replace(":", "-").replace("/", "-")
        in_use = {path.name.partition("-")[0] for path in self.results.glob("*-*")}
        number = next(each for each in itertools.count(1) if f"{each:03}" not in in_use)
        return self.results / f"{number:03}-{name}"
