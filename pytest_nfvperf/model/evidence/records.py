"""Evidence records: one JSON object a line, written as things happen.

Every record has the same envelope; its ``data`` is a model object as plain JSON. ``RecordKind`` is the registry of all
kinds: the writer, the reader and the published schema (reports/schema/evidence.schema.json) follow from it, and the
reader gets the same objects back.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import Any, Self

from pytest_nfvperf.model.display import storable
from pytest_nfvperf.model.disturbance.trial import TrialJudgement, TrialResult
from pytest_nfvperf.model.disturbance.windows import (
    LISTED_OF_STEPS,
    MOST_LISTED,
    Disturbance,
    SelectedWindows,
    disturbances,
)
from pytest_nfvperf.model.measure.compare import ComparisonData, ComparisonSettings
from pytest_nfvperf.model.measure.cpu_account import CpuAccount
from pytest_nfvperf.model.measure.ledger import Ledger
from pytest_nfvperf.model.measure.outage import Outage
from pytest_nfvperf.model.measure.outcome import Cost, Outcome
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.measure.soak_series import SoakCurve
from pytest_nfvperf.model.measure.streams import ConnectResult, Reconnection, RequestResult, StreamResult
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, DatapathInfo, Dut, GeneratorInfo, TestbedFacts
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.histogram import Histogram, compact_histogram
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import DirectionCounts

SCHEMA_VERSION = 3
"""Of evidence and of ``comparison.json``. It rises when a key is renamed or goes, not when one is added."""

STEPS = frozenset({"warm-up", "search", "loss curve", "back-to-back burst", "load for the soak"})
"""Purposes of trials whose records are short: there are many of them, and nobody asked for their latency."""

CONFIRMS = "confirmation of "
"""Purposes that begin so have a result to show, but no latency: their trials get no exact histograms."""

EncodeHistogram = Callable[[Histogram], str]
"""HdrHistogram V2 as text: adapters/evidence/hdr.py."""

_DURABLE, _MORE = "durable", "says more"
_EVEN_IF_EMPTY = frozenset({"invalid", "ledger", "repeat_of", "hdr"})
"""Fields of a trial that scripts look at: they are written even if they are empty."""
_WITH_DEFAULTS = frozenset({"windows"})
"""Fields of a trial that are written with their defaults, too."""


class Cause(StrEnum):
    """What ended a test that did not pass. UNKNOWN: evidence from before this field existed."""

    UNKNOWN = ""
    SLA = "sla"
    ASSERTION = "assertion"
    TEST = "test"  # the test itself raised something else, which says nothing about the DUT
    NOT_RUN = "not run"  # nobody ran its body
    INCONCLUSIVE = "inconclusive"
    TESTBED = "testbed"
    SETUP = "setup"  # a fixture raised what is no testbed error
    USAGE = "usage"
    INTERNAL = "internal"  # our own code raised what it did not mean to
    XFAIL = "xfail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class RunData:
    """What was run, with what, on what. It may be written again when more is known; the last one counts.

    Attributes:
        tool_version, python: versions of this project and of the interpreter.
        profile: quick, gate, full or soak.
        testbed: the testbed that was used, given or discovered; of what is read back only what reports need.
        testbed_yaml: the same as a testbed file.
        fingerprint: what must be equal for two runs to be compared (How we measure, rule 9), by name.
        dut, generator: None before they are started.
        sla: the SLA files in use.
        selected: node ids of all selected tests, in order; None: written before this was known.
        compare: the sides, if the run compares.
        resumes: evidence files of earlier processes that this one continues: how they ended no longer counts.
        not_for_testbed: node ids of tests that were not selected because the testbed lacks what they need, by reason.
        awaited: rules that a selected test must be judged by: what each selects, by its place.
    """

    tool_version: str
    python: str
    argv: tuple[str, ...]
    profile: str
    testbed: TestbedFacts
    testbed_yaml: str
    fingerprint: dict[str, Any] = field(default_factory=dict)
    dut: DatapathInfo | None = None
    generator: GeneratorInfo | None = None
    sla: tuple[str, ...] = ()
    selected: tuple[str, ...] | None = None
    compare: ComparisonSettings | None = None
    resumes: tuple[str, ...] = ()
    not_for_testbed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    awaited: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TestData:
    """A test began.

    Attributes:
        labels: suite, topology, frame_size, ...: as an Outcome's.
        parameters: pytest's parameters as text.
        description: the test's docstring (Steps, Verify).
        sla: name of the rules in force, equal for rules that require the same (``rules_name``); "": not recorded.
        measured_in: evidence file of an earlier process that measured the test. This process only judged it, by its
            own SLA. "" for a test that ran.
        attempt: from 2 on, another plugin repeated the test (pytest-rerunfailures). The last attempt decides.
    """

    __test__ = False

    labels: tuple[tuple[str, str], ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)
    description: str = ""
    sla: str = ""
    measured_in: str = ""
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class TrialData:
    """One finished trial, valid or not. Made by ``trial_data``.

    Attributes:
        result: counts, validity and health. Histograms keep common percentiles only; steps of a search have none.
            Only saturating trials keep their windows.
        wall_s: seconds the trial took with settling and reading counters.
        ledger: where frames went; None if no counters were read. Steps of a search have no hops and counters in it.
        cost: None if it was not measured.
        repeat_of: id of the invalid trial that this one repeats.
        hdr: exact histograms, HdrHistogram V2 base64, by "tx->rx" and "tx->rx raw" (from the actual send time), of a
            mix's classes by "tx->rx of NAME". Steps of a search and its confirmations have none.
        undisturbed: what was offered and lost while the machine disturbed nothing; None if nobody could tell.
        running: the same while no CPU was taken away, if the trial is judged by that; else None.
        disturbances: what the machine did meanwhile, and when.
    """

    result: TrialResult
    wall_s: float
    ledger: Ledger | None = None
    cost: Cost | None = None
    repeat_of: str | None = None
    hdr: dict[str, str] = field(default_factory=dict)
    undisturbed: SelectedWindows | None = None
    disturbances: tuple[Disturbance, ...] = ()
    running: SelectedWindows | None = None

    @property
    def judgement(self) -> TrialJudgement:
        """As TrialResult's, of which most records keep the sums of windows only; so ``reason`` is not known."""
        return TrialJudgement(self.result, self.undisturbed, self.running)

    @property
    def offered_load_fps(self) -> float:
        """The load that the DUT was asked to take in what is judged, frames/s per direction."""
        load_fps = self.result.spec.load_fps
        if (windows := self.judgement.windows) is not None:
            return load_fps * (1 - windows.skipped_ratio)
        return load_fps * self.result.offered / self.result.intended if self.result.intended else 0.0


@dataclass(frozen=True, slots=True)
class LedgerData:
    """The whole ledger of the search step that bounds a result, written at the end of its test.

    ``trial``: id of that step, whose own record has the losses only.
    """

    trial: str
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class TopologyData:
    """The test deployed a topology.

    Attributes:
        datapath: the kind that it was really built on: dpdk, netdev, system, linux-bridge.
        dut: which datapath the test asked for.
        port_kinds: by name, what its ports for generator and VNFs were: vhost-user, veth, physical, ...
        info: versions and installation of the DUT, and how that was built; None in old evidence.
        sending: by name, how the embedded generator drives the rings of its vhost-user ports: "own ring", or DPDK's
            driver and why.
    """

    topology: Topology
    datapath: str
    dut: Dut = TESTBED_DUT
    port_kinds: dict[str, str] = field(default_factory=dict)
    info: DatapathInfo | None = None
    sending: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamData:
    """A run of streams.

    Attributes:
        wall_s: from call to counts, s.
        datapath_cores, cpu: CPUs that the datapath used, and all the machine's; None if nobody accounts for them.
        repeat_of: id of the invalid run that this one repeats.
    """

    result: StreamResult
    wall_s: float
    datapath_cores: float | None = None
    repeat_of: str | None = None
    cpu: CpuAccount | None = None


@dataclass(frozen=True, slots=True)
class RequestData:
    """A run of requests and responses. Fields as StreamData's."""

    result: RequestResult
    wall_s: float
    cpu: CpuAccount | None = None


@dataclass(frozen=True, slots=True)
class ConnectData:
    """A run of connects. Fields as StreamData's."""

    result: ConnectResult
    wall_s: float
    cpu: CpuAccount | None = None


@dataclass(frozen=True, slots=True)
class SoakData:
    """A soak, however it ended.

    Attributes:
        trial: id of its trial; empty if the testbed broke before there were counts.
        samples: file of all samples, relative to the directory of the evidence.
        rows: how many samples it holds.
        soak: the summary, as in the outcome.
        series: curves over time, thinned.
    """

    trial: str
    samples: str
    rows: int
    soak: Soak
    series: tuple[SoakCurve, ...] = ()


@dataclass(frozen=True, slots=True)
class AttachmentData:
    """A named text, or a file beside the evidence.

    Attributes:
        name: such as "OVS configuration".
        text: the content; None for a file.
        path: the file, relative to the directory of the evidence; None for a text.
    """

    name: str
    media_type: str = "text/plain"
    text: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorData:
    """A broken testbed.

    Attributes:
        error: class name, such as "GeneratorError".
        message: what was observed, and what to do.
        evidence: named texts that show it.
        first_cause: id of the earlier error that caused this one.
    """

    error: str
    message: str
    evidence: dict[str, str] = field(default_factory=dict)
    first_cause: str | None = None


class Span(StrEnum):
    """What the time of a test is spent on, in the order of tables."""

    TRIALS = "trials"
    INVALID = "invalid"
    WARM_UP = "warm_up"
    CEILING = "ceiling"
    BUILDING = "building"
    WAITING = "waiting"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TestEndData:
    """A test ended.

    Attributes:
        status: pytest's word: passed, failed, error or skipped.
        times: seconds by ``Span``; together they are ``seconds``. Empty if nobody noted them.
        reason: a skip's, or a failure's first line.
        text: what pytest shows of the failure: the SLA's table, the assertion, the testbed error.
    """

    __test__ = False

    status: str
    seconds: float
    reason: str = ""
    cause: Cause = Cause.UNKNOWN
    text: str = ""
    times: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunEndData:
    """The run ended by itself.

    Attributes:
        exit_status: pytest's own. The command's exit status follows from all of the evidence.
        counts: tests by status.
        reason: what ended it early, such as "1 error during collection"; else "".
        time_limit_s: the run's time limit, if it was used up before every test had begun; else None.
    """

    exit_status: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    time_limit_s: float | None = None


class RecordKind(StrEnum):
    """What a record is about. Kinds are declared here only, in the order of docs/reference/evidence.md.

    Attributes:
        data: class of what it carries.
        meaning: its description in the schema.
        collected_in: attribute of ``TestEvidence`` that collects it by id; "": the reader treats it by itself.
        durable: the file is synced after it, so that measured data survive a crash of the machine.
        says_more: it only adds to a test that has ended, or to the run.
    """

    data: type[Any]
    meaning: str
    collected_in: str
    durable: bool
    says_more: bool

    def __new__(cls, name: str, data: type[Any], meaning: str, collected_in: str = "", *traits: str) -> Self:
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.data, kind.meaning, kind.collected_in = data, meaning, collected_in
        kind.durable, kind.says_more = _DURABLE in traits, _MORE in traits
        return kind

    RUN = "run", RunData, "The run: first line.", "", _MORE
    TEST = "test", TestData, "A test began."
    TRIAL = "trial", TrialData, "One finished trial.", "trials", _DURABLE
    LEDGER = "ledger", LedgerData, "The whole ledger of a trial that bounds a result.", "", _MORE
    SOAK = "soak", SoakData, "A soak's summary and curves.", "soaks", _DURABLE
    OUTAGE = "outage", Outage, "An event, and what it blocked.", "outages", _DURABLE
    STREAM = "stream", StreamData, "One finished run of streams.", "streams"
    REQUESTS = "requests", RequestData, "One finished run of requests and responses.", "requests"
    CONNECTS = "connects", ConnectData, "One finished run of TCP connects.", "connects"
    RECONNECTION = "reconnection", Reconnection, "A restart of the DUT, and what it interrupted.", "reconnections"
    OUTCOME = "outcome", Outcome, "What a search or sweep found.", "outcomes"
    VERDICT = "verdict", Verdict, "One requirement judged.", "verdicts"
    COMPARISON = "comparison", ComparisonData, "Sides of a comparison against its baseline.", "comparisons"
    TOPOLOGY = "topology", TopologyData, "The test deployed a topology.", "topologies"
    ATTACHMENT = "attachment", AttachmentData, "A named text or file.", "attachments", _MORE
    ERROR = "error", ErrorData, "A testbed error with its evidence.", "errors", _DURABLE, _MORE
    TEST_END = "test_end", TestEndData, "A test ended.", "", _DURABLE, _MORE
    RUN_END = "run_end", RunEndData, "The run ended: last line, absent when the run was killed.", "", _DURABLE, _MORE


KINDS: dict[type[Any], RecordKind] = {kind.data: kind for kind in RecordKind}


@dataclass(frozen=True, slots=True)
class Record:
    """One line of evidence.

    Attributes:
        id: unique in the run and readable, e.g. "trial-0012".
        run: run id.
        test: pytest node id; "" for records of the run itself.
        time_ns: wall clock, ns since the epoch.
        data: plain JSON.
    """

    kind: RecordKind
    id: str
    run: str
    test: str
    time_ns: int
    data: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA_VERSION,
            "kind": str(self.kind),
            "id": self.id,
            "run": self.run,
            "test": self.test,
            "time_ns": self.time_ns,
            "data": self.data,
        }


def make_record(payload: object, *, id: str, run: str, test: str, time_ns: int) -> Record:  # noqa: A002
    kind = KINDS[type(payload)]
    data = _without_defaults(payload) if kind is RecordKind.TRIAL else plain(payload)
    return Record(kind, id, storable(run), storable(test), time_ns, data)


def _without_defaults(value: Any) -> Any:
    """As ``plain``, without fields that have their default: the reader adds them again."""
    if isinstance(value, (list, tuple)):
        return [_without_defaults(item) for item in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return plain(value)
    value, written = _recorded(value), {}
    for each in dataclasses.fields(value):
        item, factory = getattr(value, each.name), each.default_factory
        default = each.default if factory is dataclasses.MISSING else factory()
        # 0 and 0.0 are equal, and differ in the file
        if each.name in _EVEN_IF_EMPTY or item != default or type(item) is not type(default):
            written[each.name] = plain(item) if each.name in _WITH_DEFAULTS else _without_defaults(item)
    return written


def plain(value: Any) -> Any:
    """A model object as plain JSON: dataclasses to dicts, tuples to lists, enums to their values.

    Texts are made storable: names of tests and paths may have surrogates, which no reader of JSON accepts.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return storable(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = _recorded(value)
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {storable(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _recorded(value: Any) -> Any:
    """What evidence keeps of a traffic: one frame of its smallest size; any other value as it is."""
    if not isinstance(value, Traffic) or value.packet is None:
        return value
    return dataclasses.replace(value, packet=value.packet.recorded(value.smallest_frame_size))


class RecordIds:
    """Readable ids, unique in a run: ``trial-0012``, or ``gw0-trial-0012`` in an xdist worker."""

    def __init__(self, worker: str = "") -> None:
        self._prefix = f"{worker}-" if worker else ""
        self._last = Counter[RecordKind]()

    def next(self, kind: RecordKind) -> str:
        self._last[kind] += 1
        return f"{self._prefix}{kind}-{self._last[kind]:04}"


def trial_data(
    result: TrialResult,
    *,
    wall_s: float,
    encode: EncodeHistogram | None,
    ledger: Ledger | None = None,
    cost: Cost | None = None,
    repeat_of: str | None = None,
) -> TrialData:
    """A trial as it goes to disk. Steps of a search (``STEPS``) keep no histograms and arrivals, and the losses only.

    ``encode``: makes text of exact histograms; None leaves them out. The others as in TrialData.
    """
    purpose, is_step = result.spec.purpose, result.spec.purpose in STEPS
    exact: dict[str, str] = {}

    def shortened(count: DirectionCounts) -> DirectionCounts:
        if is_step:
            return replace(count, latency=None, latency_raw=None, arrivals=None)
        latency, raw = (each and compact_histogram(each) for each in (count.latency, count.latency_raw))
        return replace(count, latency=latency, latency_raw=raw)

    if is_step:
        ledger = None if ledger is None else replace(ledger, deltas=(), paths=(), beside=(), branches=())
    elif encode is not None and not purpose.startswith(CONFIRMS):
        named = [("", count) for count in result.counts]
        named += [(f" of {each.name}", count) for each in result.classes for count in each.counts]
        for of_class, count in named:
            for name, histogram in (("", count.latency), (" raw", count.latency_raw)):
                if histogram is not None:
                    exact[f"{count.direction}{of_class}{name}"] = encode(histogram)
    cost = None if cost is None else _rounded(cost)
    counts = tuple(map(shortened, result.counts))
    classes = tuple(replace(each, counts=tuple(map(shortened, each.counts))) for each in result.classes)
    short = replace(result, counts=counts, classes=classes)
    data = TrialData(short, round(wall_s, 6), ledger, cost, repeat_of, exact)
    if result.spec.saturating and not is_step:
        return data
    # There are many windows, and a search is judged by their sums: keep those instead.
    judgement, most = result.judgement, LISTED_OF_STEPS if is_step else MOST_LISTED
    return replace(
        data,
        result=replace(data.result, windows=None),
        undisturbed=judgement.undisturbed,
        running=judgement.running,
        disturbances=() if result.windows is None else disturbances(result.windows, result.due_s, result.lost, most),
    )


def _rounded(cost: Cost) -> Cost:
    """To six significant digits: no counter resolves more."""
    values = {each.name: getattr(cost, each.name) for each in dataclasses.fields(cost)}
    rounded: dict[str, Any] = {name: float(f"{it:.6g}") for name, it in values.items() if isinstance(it, float)}
    return replace(cost, **rounded)
