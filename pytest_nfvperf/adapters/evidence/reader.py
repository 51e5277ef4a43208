"""Evidence read back, and what became of the run: tolerant of one that was killed, strict about everything else."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from pytest_nfvperf.adapters.evidence.writer import is_being_written
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import ConfigError
from pytest_nfvperf.model.evidence.comparison import counted
from pytest_nfvperf.model.evidence.conclusion import (
    WHEN_THE_RUN_ENDED,
    RunConclusion,
    RunFacts,
    TestFacts,
    conclude_run,
)
from pytest_nfvperf.model.evidence.records import (
    KINDS,
    SCHEMA_VERSION,
    STEPS,
    AttachmentData,
    Cause,
    ConnectData,
    ErrorData,
    LedgerData,
    RecordKind,
    RequestData,
    RunData,
    RunEndData,
    SoakData,
    StreamData,
    TestData,
    TestEndData,
    TopologyData,
    TrialData,
)
from pytest_nfvperf.model.evidence.rig_condition import RigCondition
from pytest_nfvperf.model.measure.compare import ComparisonData
from pytest_nfvperf.model.measure.outage import Outage
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import SMOKE
from pytest_nfvperf.model.measure.streams import Reconnection
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.traffic.trial import DirectionCounts


class Line(BaseModel):
    """Fields of every line. Unknown keys are allowed: later versions of the project only add keys."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_version: Literal[3] = Field(alias="schema", description="Version of this format.")
    id: str = Field(description='Unique in the run and readable: "trial-0012".')
    run: str = Field(description="Run id.")
    test: str = Field(description="pytest node id; empty for records of the run itself.")
    time_ns: int = Field(description="Wall clock, ns since the epoch.")
    kind: str
    data: Any


def _line_of(kind: RecordKind) -> Any:
    # The model has a LedgerLine of its own.
    name = "BoundingLedger" if kind is RecordKind.LEDGER else kind.title().replace("_", "")
    fields: dict[str, Any] = {"kind": (Literal[kind.value], ...), "data": (kind.data, ...)}
    return create_model(f"{name}Line", __base__=Line, __doc__=kind.meaning, **fields)


_ANY_LINE: Any = Annotated[reduce(or_, map(_line_of, RecordKind)), Field(discriminator="kind")]
_LINE: TypeAdapter[Line] = TypeAdapter(_ANY_LINE)


def parse_line(text: bytes | str) -> Line:
    """One line as typed data.

    pydantic.ValidationError if it is no such line, or of another version. Strict: text is no number.
    """
    return _LINE.validate_json(text, strict=True, by_alias=True, by_name=True)


def schema_text() -> str:
    return json.dumps(evidence_schema(), indent=2, ensure_ascii=False) + "\n"


def evidence_schema() -> dict[str, Any]:
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytest_nfvperf evidence, one line",
        "description": f"Schema version {SCHEMA_VERSION}. Files are JSON lines; see docs/reference/evidence.md.",
    }
    return head | _LINE.json_schema(by_alias=True, mode="serialization")


PATTERN = "evidence*.jsonl"
"""Names of evidence files in a results directory: one a process (evidence-gw0.jsonl of an xdist worker)."""

_HEAD = re.compile(
    rb'\{"schema":\d+,"kind":"(?P<kind>\w+)","id":"[^"]*","run":"[^"]*","test":(?P<test>"(?:[^"\\]|\\.)*"),'
)
"""As the writer has it."""
_OF_RESULTS = frozenset({"run", "test", "topology", "outcome", "verdict", "comparison", "error", "test_end", "run_end"})

CONTROLLER, STOPPED, REFUSED = "controller", "stopped", "refused"
"""Ends of names of files that say how a whole run ended. They are written by the process that distributes tests to
xdist's workers; by one that was stopped while it wrote the report; and by one that was to continue a run, and ended by
a user's mistake before its first test."""


@dataclass(slots=True)
class TestEvidence:
    """All records of one test, by id, in order.

    Attributes:
        end: None if it did not end.
        file: evidence file, hence the process that ran it.
        began_ns: wall clock.
        lost_in: files of workers that died with it before it was repeated.
        earlier: earlier attempts, if another plugin repeated the test within its process.
    """

    __test__ = False

    node_id: str
    data: TestData = field(default_factory=TestData)
    trials: dict[str, TrialData] = field(default_factory=dict)
    streams: dict[str, StreamData] = field(default_factory=dict)
    requests: dict[str, RequestData] = field(default_factory=dict)
    connects: dict[str, ConnectData] = field(default_factory=dict)
    reconnections: dict[str, Reconnection] = field(default_factory=dict)
    soaks: dict[str, SoakData] = field(default_factory=dict)
    outages: dict[str, Outage] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    comparisons: dict[str, ComparisonData] = field(default_factory=dict)
    errors: dict[str, ErrorData] = field(default_factory=dict)
    topologies: dict[str, TopologyData] = field(default_factory=dict)
    attachments: dict[str, AttachmentData] = field(default_factory=dict)
    end: TestEndData | None = None
    file: str = ""
    began_ns: int = 0
    lost_in: tuple[str, ...] = ()
    earlier: tuple[TestEvidence, ...] = ()

    @property
    def measured(self) -> bool:
        """True if it sent something, or deployed something to send through."""
        runs = self.trials or self.streams or self.requests or self.connects or self.reconnections or self.soaks
        return bool(runs or self.topologies)

    def verdicts_on(self, outcome: Outcome) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts.values() if verdict.is_about(outcome.labels))


@dataclass(slots=True)
class RunEvidence:
    """One run, merged from all its files.

    Attributes:
        runs: the run record of each file; several with xdist.
        tests: by pytest node id, in order of their first record; "" holds what belongs to no test.
        ends: the closing record of each file; a killed process left none.
        spans_ns: wall clock of the first and last record of each file. Somebody may have set the clock in between.
        problems: what is wrong with the files, for a person.
        being_written: names of the files that a process has open to write more.
        times_ns: wall clock of each record, by its id.
        machine: condition of the rig over all trials that were read, also those that are not kept.
    """

    path: Path
    run_id: str = ""
    runs: dict[str, RunData] = field(default_factory=dict)
    tests: dict[str, TestEvidence] = field(default_factory=dict)
    ends: dict[str, RunEndData] = field(default_factory=dict)
    trials: dict[str, TrialData] = field(default_factory=dict)
    spans_ns: dict[str, tuple[int, int]] = field(default_factory=dict)
    truncated: bool = False
    problems: list[str] = field(default_factory=list)
    being_written: tuple[str, ...] = ()
    times_ns: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    machine: RigCondition = field(default_factory=RigCondition, compare=False, repr=False)

    @property
    def run(self) -> RunData | None:
        return next(iter(self.runs.values()), None)

    @property
    def started_ns(self) -> int:
        return min((first for first, _ in self.spans_ns.values()), default=0)

    @property
    def ended_ns(self) -> int:
        return max((last for _, last in self.spans_ns.values()), default=0)

    @property
    def took_s(self) -> float:
        """Duration: measured by the process if it ended by itself, else by the wall clock."""
        measured_s = [end.seconds for end in self.ends.values() if end.seconds]
        if not self.resumed and len(measured_s) == len(self.runs) > 0:
            return max(measured_s)
        return max(0.0, (self.ended_ns - self.started_ns) / 1e9)

    @property
    def resumed(self) -> frozenset[str]:
        """Files of processes that a later one continued (``--nfv-resume``)."""
        return frozenset(file for data in self.runs.values() for file in data.resumes)

    @property
    def not_for_testbed(self) -> dict[str, tuple[str, ...]]:
        """Tests that no process selected because its testbed lacks what they need, by the reason."""
        left = {reason: tests for data in self.runs.values() for reason, tests in data.not_for_testbed.items()}
        return {reason: tuple(test for test in tests if test not in self.tests) for reason, tests in left.items()}

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return {key: value for test in self.tests.values() for key, value in test.outcomes.items()}

    @property
    def verdicts(self) -> dict[str, Verdict]:
        return {key: value for test in self.tests.values() for key, value in test.verdicts.items()}

    @property
    def comparisons(self) -> dict[str, ComparisonData]:
        return {key: value for test in self.tests.values() for key, value in test.comparisons.items()}

    @property
    def errors(self) -> dict[str, ErrorData]:
        return {key: value for test in self.tests.values() for key, value in test.errors.items()}

    def test(self, node_id: str) -> TestEvidence:
        return self.tests.setdefault(node_id, TestEvidence(node_id))


def read_run(
    path: Path | str,
    only: Collection[str] | None = None,
    *,
    steps: bool = True,
    known_ends: Mapping[str, RunEndData] | None = None,
    results_of: Collection[str] | None = None,
) -> RunEvidence:
    """Read a results directory (all its evidence files) or one evidence file.

    The reader leaves out an incomplete last line and reports it (``truncated``, ``problems``).

    Args:
        path: of the directory or file.
        only: names of the files to read; None for all.
        steps: False keeps only the last search step of each test. The others take most of a run's memory, and the
            conclusion does not need them.
        known_ends: how the processes of these files ended, if they could not write it.
        results_of: only what came of these tests, without their trials: all else costs no more than its bytes.

    Raises:
        ConfigError: nothing there, a line that is not evidence, another schema version, or files of several runs.
    """
    path = Path(path)
    evidence = RunEvidence(path)
    seen: dict[str, tuple[str, int]] = {}  # file and line of each id
    parts: dict[Hashable, Any] = {}
    attempts: dict[str, list[TestEvidence]] = {}
    files = [file for file in _files(path) if only is None or file.name in only]
    evidence.being_written = tuple(file.name for file in files if is_being_written(file))  # before it is read
    for file in files:
        evidence.tests = {}  # those of this file: which file decides on a test is known once all are read
        for number, text in _complete_lines(file, evidence):
            if results_of is not None and not _is_result(text, results_of):
                continue
            line = _parse(file, number, text)
            _check_identity(evidence, seen, line, (file.name, number))
            _take(evidence, file.name, line, parts)
            if not steps:
                _forget_steps(evidence, evidence.tests.get(line.test))
        for test in evidence.tests.values():
            test.file = file.name
            attempts.setdefault(test.node_id, []).append(test)
    evidence.ends |= {file: end for file, end in (known_ends or {}).items() if file not in evidence.ends}
    evidence.tests = {node_id: _of_resumed(tried, evidence.runs) for node_id, tried in attempts.items()}
    evidence.problems += filter(None, (_why_no_end(evidence, file.name) for file in files))
    evidence.problems += [_repeated(test) for test in evidence.tests.values() if test.earlier]
    return evidence


def _repeated(test: TestEvidence) -> str:
    """Tell a reader who sees that a test passed that it failed before."""
    attempts = []
    for number, end in enumerate((one.end for one in test.earlier), 1):
        how = "did not end" if end is None else ", ".join(filter(None, (end.status, end.reason)))
        attempts.append(f"attempt {number} {how}")
    return f"another plugin repeated {test.node_id}, and attempt {len(attempts) + 1} decides: {'; '.join(attempts)}"


def _of_resumed(tried: Sequence[TestEvidence], runs: Mapping[str, RunData]) -> TestEvidence:
    """Merge a test over all files. A test that ran again after a resume replaces the earlier record."""
    after = {file for test in tried if test.node_id and test.file in runs for file in runs[test.file].resumes}
    settled = _settled([test for test in tried if test.file not in after])
    base = next((test for test in tried if test.file == settled.data.measured_in), None)
    if base is not None:  # judged again by another SLA: figures of the earlier process, verdicts of the later one
        return replace(base, data=settled.data, verdicts=settled.verdicts, end=settled.end)
    settled.lost_in += tuple(test.file for test in tried if test.file in after)
    return settled


def _settled(tried: Sequence[TestEvidence]) -> TestEvidence:
    """Merge a test over one run's files. A dead worker's record is replaced once another worker repeated the test."""
    ended = [test for test in tried if test.end is not None or not test.node_id]
    attempts = ended or [max(tried, key=lambda test: test.began_ns)]
    settled, *others = attempts
    settled.lost_in = tuple(test.file for test in tried if all(test is not one for one in attempts))
    for other in others:
        for one in fields(TestEvidence):
            if isinstance(records := getattr(settled, one.name), dict):
                records.update(getattr(other, one.name))
        settled.end = other.end or settled.end
    return settled


def _why_no_end(evidence: RunEvidence, file: str) -> str:
    """Why a file lacks its end; "" if it has one."""
    if file in evidence.ends or file in evidence.resumed or file in evidence.being_written:
        return ""
    repeated = [test for test in evidence.tests.values() if file in test.lost_in]
    if not repeated:
        return f"{file}: the run did not end by itself; what is missing was not measured"
    who = ", ".join(f"{test.node_id}, which {worker_of(test.file)} repeated" for test in repeated)
    return f"worker {worker_of(file)} died while it ran {who}"


def worker_of(file: str) -> str:
    """``gw0`` of ``evidence-gw0.jsonl``; "" for a run without workers."""
    return Path(file).stem.removeprefix("evidence").removeprefix("-")


def _files(path: Path) -> list[Path]:
    files = sorted(path.glob(PATTERN)) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise ConfigError(
            f"no evidence here: expected a results directory with {PATTERN} or one such file", file=str(path)
        )
    return files


def _complete_lines(file: Path, evidence: RunEvidence) -> Iterator[tuple[int, bytes]]:
    """Numbered lines. The last one counts only if it is complete; an editor may have removed the final line feed."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.endswith(b"\n") or _is_object(line):
                if line.strip():
                    yield number, line
            else:
                if file.name in evidence.being_written:
                    why = "the run goes on and is writing it"
                elif file.name in evidence.ends:
                    why = "the run had ended before; whatever added to the file later did not finish"
                else:
                    why = "the run was killed while it wrote, or the file is not whole "
                    why += "(a full disk, a copy that was broken off)"
                evidence.truncated = True
                evidence.problems.append(
                    f"{file.name}: line {number} is cut off after {len(line)} bytes and left out: {why}"
                )


def _is_result(line: bytes, tests: Collection[str]) -> bool:
    """Whether a line is of a run, or a result of one of these tests, by its first bytes; True where they do not say."""
    head = _HEAD.match(line)
    if head is None or head["kind"].decode() not in _OF_RESULTS:
        return head is None
    return head["test"] == b'""' or json.loads(head["test"]) in tests


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _parse(file: Path, number: int, text: bytes) -> Line:
    try:
        return _line(text)
    except KeyError as error:
        why = f" or one before: it has no {error}"
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        why = f": {where or 'line'}: {first['msg']}"
    raise ConfigError(f"not an evidence record of this version{why}", file=str(file), key=f"line {number}")


def _line(text: bytes) -> Line:
    """A line of this version, or of one before. As ``parse_line``; KeyError if one before lacks a key."""
    try:
        return parse_line(text)
    except ValidationError:
        older = json.loads(text) if _is_object(text) else {}
        if older.get("schema") not in {1, 2}:
            raise
    from pytest_nfvperf.adapters.evidence.older import upgraded  # noqa: PLC0415 - few read older files

    return parse_line(json.dumps(upgraded(older)))


def _check_identity(
    evidence: RunEvidence, seen: dict[str, tuple[str, int]], line: Line, where: tuple[str, int]
) -> None:
    file, number = where
    evidence.run_id = evidence.run_id or line.run
    if line.run != evidence.run_id:
        raise ConfigError(
            f"{file} line {number} is of run {line.run!r}, the lines before of {evidence.run_id!r}: "
            "read one run at a time",
            file=str(evidence.path),
        )
    if line.id in seen and line.kind != "run":
        twice = "{} line {} and {} line {}".format(*seen[line.id], *where)
        raise ConfigError(f"id {line.id!r} is used twice: {twice}", file=str(evidence.path))
    seen[line.id] = where


def _take(evidence: RunEvidence, file: str, line: Line, parts: dict[Hashable, Any]) -> None:
    evidence.spans_ns[file] = (evidence.spans_ns.get(file, (line.time_ns, 0))[0], line.time_ns)
    evidence.times_ns[line.id] = line.time_ns
    data = line.data
    match data:
        case RunData():
            evidence.runs[file] = data
        case RunEndData():
            evidence.ends[file] = data
        case TrialData():
            evidence.machine.add(data)
            evidence.trials[line.id] = evidence.test(line.test).trials[line.id] = _sharing(data, parts)
        case LedgerData() if data.trial in evidence.trials:
            trial = replace(evidence.trials[data.trial], ledger=data.ledger)
            evidence.trials[data.trial] = evidence.test(line.test).trials[data.trial] = trial
        case TestData():
            test = evidence.test(line.test)
            if data.attempt > 1:  # earlier attempts stay readable, and decide nothing
                earlier = (*test.earlier, replace(test, earlier=()))
                test = evidence.tests[line.test] = TestEvidence(line.test, earlier=earlier)
            test.data, test.began_ns = data, line.time_ns
        case TestEndData():
            evidence.test(line.test).end = data
        case _:
            test, collected_in = evidence.test(line.test), KINDS[type(data)].collected_in
            if collected_in:
                getattr(test, collected_in)[line.id] = data


def _sharing(trial: TrialData, parts: dict[Hashable, Any]) -> TrialData:
    """Share traffic and directions with earlier trials, to save memory."""
    result = trial.result
    spec = replace(
        result.spec,
        traffic=parts.setdefault(result.spec.traffic, result.spec.traffic),
        directions=parts.setdefault(result.spec.directions, result.spec.directions),
    )

    def sharing(count: DirectionCounts) -> DirectionCounts:
        return replace(count, direction=parts.setdefault(count.direction, count.direction))

    counts = tuple(map(sharing, result.counts))
    classes = tuple(replace(each, counts=tuple(map(sharing, each.counts))) for each in result.classes)
    return replace(trial, result=replace(result, spec=spec, counts=counts, classes=classes))


def _forget_steps(evidence: RunEvidence, test: TestEvidence | None) -> None:
    """Drop the last trial but one if it is a search step. The last trial shows why a test was disturbed."""
    if test is None or len(test.trials) < 2:
        return
    before = list(test.trials)[-2]
    if test.trials[before].result.spec.purpose in STEPS:
        del evidence.trials[before], test.trials[before]


def conclude(run: RunEvidence) -> RunConclusion:
    """Conclude a run that was read. All selected tests count, also those that never began.

    Old evidence does not list the selected tests, and lacks those that never began.
    """
    ended, data, rig = _ended(run), run.run, run.machine.did
    tests = [facts_by_test(test, run) for test in run.tests.values() if test.node_id]
    selected = dict.fromkeys(node_id for one in run.runs.values() for node_id in one.selected or ())
    running = ended is None and bool(run.being_written)
    ends = (end for file, end in run.ends.items() if file not in run.resumed)
    limit_s = next((end.time_limit_s for end in ends if end.time_limit_s is not None), None)
    why = "its turn has not come yet" if running else ""
    if limit_s is not None:
        why = f"not begun: the time limit of {format_seconds(limit_s)} was used up"
    never = [TestFacts(node_id, began=False, reason=why) for node_id in selected if node_id not in run.tests]
    judged = {verdict.rule for test in run.tests.values() for verdict in test.verdicts.values()}
    awaited = {rule: where for one in run.runs.values() for rule, where in one.awaited.items() if rule not in judged}
    facts = RunFacts(
        (*tests, *never),
        None if ended is None else ended.exit_status,
        ended.reason if ended else "",
        smoke=data is not None and data.profile == SMOKE.name,
        running=running,
        compared=counted(run.comparisons.values()) if data is not None and data.compare is not None else None,
        rig="" if rig is None else str(rig.grade),
        out_of_time=limit_s is not None,
        unjudged=() if run.resumed else tuple(f"{rule} {where}" for rule, where in awaited.items()),
    )
    return conclude_run(facts)


def _ended(run: RunEvidence) -> RunEndData | None:
    """How the run ended; None if it was killed. A killed worker does not kill the run: its controller knows.

    A process that a later one continued no longer counts.
    """
    ends = {file: end for file, end in run.ends.items() if file not in run.resumed}
    # These speak for the whole run, the one that wrote last first.
    for who in (STOPPED, REFUSED, CONTROLLER):
        for file, end in ends.items():
            if _is_of(file, who):
                return end
    if not ends or set(run.runs) - set(ends) - run.resumed:
        return None  # a process began and did not end
    return max(ends.values(), key=lambda end: end.exit_status)


def facts_by_test(test: TestEvidence, run: RunEvidence) -> TestFacts:
    end = test.end
    if end is None and _lost_a_worker(run):
        who = "the workers that ran it" if test.lost_in else "the worker that ran it"
        end = TestEndData("error", 0.0, f"{who} died", Cause.TESTBED)
    if end is not None:
        reason = end.reason
    elif _ended(run) is not None:
        reason = WHEN_THE_RUN_ENDED
    else:
        reason = "it is running" if run.being_written else "it had begun when the run was killed"
    # Why its last trial, and its last run of streams, were invalid.
    trials = [trial.result.invalid for trial in test.trials.values()][-1:]
    streams = [stream.result.invalid for stream in test.streams.values()][-1:]
    return TestFacts(
        test.node_id,
        status=None if end is None else end.status,
        cause=Cause.UNKNOWN if end is None else end.cause,
        reason=reason,
        verdicts=tuple(test.verdicts.values()),
        errors=tuple(error.message for error in test.errors.values()),
        invalid=next((str(reasons[0]) for reasons in (*trials, *streams) if reasons), ""),
        measured=bool(test.outcomes),
    )


def _lost_a_worker(run: RunEvidence) -> bool:
    """True if an xdist worker was killed or crashed, and its controller survived."""
    ends = [file for file in run.ends if file not in run.resumed]
    if any(_is_of(file, REFUSED) for file in ends):
        return False  # it began no test
    return any(_is_of(file, CONTROLLER) for file in ends) and bool(set(run.runs) - set(run.ends) - run.resumed)


def _is_of(file: str, who: str) -> bool:
    """Matches ``evidence-controller.jsonl``, and after a resume ``evidence-resumed-1-controller.jsonl``."""
    return worker_of(file).rpartition("-")[2] == who
