"""What each kind of evidence record carries, as frozen data.

A record's ``data`` is one of these objects through :func:`pytest_nfvperf.model.evidence.record.plain`. The
published schema (reports/schema/evidence.schema.json) is made from this file, and the reader
gets the same objects back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_nfvperf.model.compare.record import ComparisonData
from pytest_nfvperf.model.compare.sides import Comparing
from pytest_nfvperf.model.evidence.conclusion import Cause
from pytest_nfvperf.model.evidence.connect_record import ConnectData
from pytest_nfvperf.model.evidence.record import Record, RecordKind, plain, without_defaults
from pytest_nfvperf.model.evidence.request_record import RequestData
from pytest_nfvperf.model.ledger.ledger import Ledger
from pytest_nfvperf.model.measure.cpu_account import CpuAccount
from pytest_nfvperf.model.measure.outcome import Cost, Outcome
from pytest_nfvperf.model.measure.reconnection import Reconnection
from pytest_nfvperf.model.measure.soak import Soak
from pytest_nfvperf.model.measure.soak_series import Series
from pytest_nfvperf.model.measure.stream_measurement import StreamResult
from pytest_nfvperf.model.sla.verdict import Verdict
from pytest_nfvperf.model.testbed.equipment import DatapathInfo, GeneratorInfo
from pytest_nfvperf.model.testbed.testbed import TESTBEDS_OWN, Dut, Testbed
from pytest_nfvperf.model.text import storable
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.trial import TrialResult
from pytest_nfvperf.model.traffic.undisturbed import (
    Disturbance,
    Undisturbed,
)


@dataclass(frozen=True, slots=True)
class RunData:
    """What was run, with what, on what. May be written again when more is known; the last one counts.

    Attributes:
        tool_version, python: versions of this project and of the interpreter.
        argv: the command line.
        profile: quick, gate, full or soak.
        testbed: the testbed that was used, given or discovered.
        testbed_yaml: the same as a testbed file.
        fingerprint: what must be equal for two runs to be compared (docs/measuring-method.md, rule 9), by name.
        dut, generator: None before they are started.
        sla: the SLA files in use.
        selected: node ids of all tests that the run is about, in order; None: written before this was known.
        compare: the sides of a run that compares; None of one that does not.
        resumes: evidence files of earlier processes, which this one goes on with: how they ended counts no more.
    """

    tool_version: str
    python: str
    argv: tuple[str, ...]
    profile: str
    testbed: Testbed
    testbed_yaml: str
    fingerprint: dict[str, Any] = field(default_factory=dict)
    dut: DatapathInfo | None = None
    generator: GeneratorInfo | None = None
    sla: tuple[str, ...] = ()
    selected: tuple[str, ...] | None = None
    compare: Comparing | None = None
    resumes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TestData:
    """A test began.

    Attributes:
        labels: suite, topology, frame_size, ...: as an Outcome's.
        parameters: pytest's parameters as text.
        description: the test's docstring (Steps, Verify).
        sla: name of the rules in force, the same for rules that ask the same (``rules_name``); "": not recorded.
        measured_in: evidence file of an earlier process that measured it: this one only judged that by its own SLA. ""
            for a test that ran.
        attempt: which one it is, of a test that another plugin repeats (pytest-rerunfailures): the last one decides.
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
    """One finished trial, valid or not. Made by ``trial_records.trial_data``.

    Attributes:
        result: counts, validity and health. Histograms keep the percentiles that people look at, or, of the steps of
            a search, are left out.
        wall_s: seconds the trial took with settling and reading counters.
        ledger: where frames went, None when no counters were read; of the steps of a search without hops and counters.
        cost: what it cost, None when not measured.
        repeat_of: id of the invalid trial that this one repeats.
        hdr: exact histograms, HdrHistogram V2 base64, by "tx->rx" and "tx->rx raw" (from the actual send time); none
            of the steps of a search and of its confirmations.
        undisturbed: what was offered and lost while the machine disturbed nothing; None where nobody could tell.
        running: the same while no CPU was taken away, where that is what speaks for the DUT; else None.
        disturbances: what the machine did meanwhile, and when. Windows themselves are kept of saturating trials only.
    """

    result: TrialResult
    wall_s: float
    ledger: Ledger | None = None
    cost: Cost | None = None
    repeat_of: str | None = None
    hdr: dict[str, str] = field(default_factory=dict)
    undisturbed: Undisturbed | None = None
    disturbances: tuple[Disturbance, ...] = ()
    running: Undisturbed | None = None

    @property
    def dated(self) -> Undisturbed | None:
        """What was offered and lost in the windows that speak for the DUT; None where all of the trial does."""
        return self.undisturbed if self.undisturbed is not None and self.undisturbed.enough else self.running

    @property
    def own_lost(self) -> int:
        """Frames that the DUT itself lost: in undisturbed windows, or in the whole trial."""
        return self.result.lost if self.dated is None else self.dated.lost

    @property
    def own_offered(self) -> int:
        """Of how many."""
        return self.result.offered if self.dated is None else self.dated.offered

    @property
    def offered_load_fps(self) -> float:
        """The load that the DUT was asked to take in them, frames/s per direction."""
        load_fps = self.result.spec.load_fps
        if self.dated is not None:
            return load_fps * (1 - self.dated.skipped_ratio)
        return load_fps * self.result.offered / self.result.intended if self.result.intended else 0.0

    @property
    def own_loss_ratio(self) -> float | None:
        """The DUT's own loss ratio, which searches are judged by; None when nothing was offered."""
        return self.result.loss_ratio if self.dated is None else self.dated.loss_ratio


@dataclass(frozen=True, slots=True)
class LedgerData:
    """The whole ledger of a step of a search: of the one that bounds a result, at the end of its test.

    Attributes:
        trial: id of its trial, whose own record has the losses only.
        ledger: hop by hop, with the counters that moved.
    """

    trial: str
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class TopologyData:
    """The test deployed a topology.

    Attributes:
        topology: as data: bridges, ports, links, namespaces, flows.
        datapath: the kind that it was really built on: dpdk, netdev, system, linux-bridge.
        dut: which datapath the test asked for.
        port_kinds: what its ports for generator and VNFs were, by name: vhost-user, veth, physical, ...
        info: what the DUT is that it was built on: versions, installation, how that was built; None in evidence of
            versions of this project that did not write it.
    """

    topology: Topology
    datapath: str
    dut: Dut = TESTBEDS_OWN
    port_kinds: dict[str, str] = field(default_factory=dict)
    info: DatapathInfo | None = None


@dataclass(frozen=True, slots=True)
class StreamData:
    """A run of streams.

    Attributes:
        result: counts, CPU of both ends, counters around it, validity.
        wall_s: from call to counts, s.
        datapath_cores, cpu: CPUs that the datapath used, and all the machine's; None where nobody accounts for them.
        repeat_of: id of the invalid run that this one repeats, or None.
    """

    result: StreamResult
    wall_s: float
    datapath_cores: float | None = None
    repeat_of: str | None = None
    cpu: CpuAccount | None = None


@dataclass(frozen=True, slots=True)
class SoakData:
    """A soak, however it ended.

    Attributes:
        trial: id of its trial; empty when the testbed broke before there were counts.
        samples: file of all samples, relative to the directory of the evidence.
        rows: how many it holds.
        soak: the summary, as in the outcome.
        series: curves over time, thinned.
    """

    trial: str
    samples: str
    rows: int
    soak: Soak
    series: tuple[Series, ...] = ()


@dataclass(frozen=True, slots=True)
class AttachmentData:
    """A named text, or a file beside the evidence.

    Attributes:
        name: such as "OVS configuration".
        media_type: such as "text/plain".
        text: the content; None when it is a file.
        path: the file, relative to the directory of the evidence; None when it is a text.
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
        message: what was observed and what to do.
        evidence: named texts that show it.
        first_cause: id of the earlier error record that this one follows from, or None.
    """

    error: str
    message: str
    evidence: dict[str, str] = field(default_factory=dict)
    first_cause: str | None = None


@dataclass(frozen=True, slots=True)
class TestEndData:
    """A test ended.

    Attributes:
        status: pytest's word: passed, failed, error or skipped.
        reason: a skip's, or a failure's first line.
        cause: what ended it, where that was no pass; see Cause.
        text: what pytest shows of the failure: the SLA's table, the assertion, the testbed error.
    """

    __test__ = False

    status: str
    seconds: float
    reason: str = ""
    cause: Cause = Cause.UNKNOWN
    text: str = ""


@dataclass(frozen=True, slots=True)
class RunEndData:
    """The run ended by itself.

    Attributes:
        exit_status: pytest's own; what the command ends with follows from all of the evidence (docs/exit-status.md).
        counts: tests by status.
        reason: what ended it before its time, such as "1 error during collection"; "" for nothing.
    """

    exit_status: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    reason: str = ""


Payload = (
    RunData
    | TestData
    | TrialData
    | LedgerData
    | StreamData
    | RequestData
    | ConnectData
    | Reconnection
    | SoakData
    | Outcome
    | Verdict
    | ComparisonData
    | TopologyData
    | AttachmentData
    | ErrorData
    | TestEndData
    | RunEndData
)

KINDS: dict[type[Payload], RecordKind] = {
    RunData: RecordKind.RUN,
    TestData: RecordKind.TEST,
    TrialData: RecordKind.TRIAL,
    LedgerData: RecordKind.LEDGER,
    StreamData: RecordKind.STREAM,
    RequestData: RecordKind.REQUESTS,
    ConnectData: RecordKind.CONNECTS,
    Reconnection: RecordKind.RECONNECTION,
    SoakData: RecordKind.SOAK,
    Outcome: RecordKind.OUTCOME,
    Verdict: RecordKind.VERDICT,
    ComparisonData: RecordKind.COMPARISON,
    TopologyData: RecordKind.TOPOLOGY,
    AttachmentData: RecordKind.ATTACHMENT,
    ErrorData: RecordKind.ERROR,
    TestEndData: RecordKind.TEST_END,
    RunEndData: RecordKind.RUN_END,
}


def make_record(payload: Payload, *, id: str, run: str, test: str, time_ns: int) -> Record:  # noqa: A002
    """The record that carries ``payload``; the kind follows from its type. Arguments as in Record."""
    kind = KINDS[type(payload)]
    data = without_defaults(payload, _KEPT, _WHOLE) if kind is RecordKind.TRIAL else plain(payload)
    return Record(kind, id, storable(run), storable(test), time_ns, data)


_KEPT = frozenset({"invalid", "ledger", "repeat_of", "hdr"})
"""Of a trial: what scripts look at is there even where it is empty."""
_WHOLE = frozenset({"windows"})


class RecordIds:
    """Readable ids, unique in a run: ``trial-0012``, or ``gw0-trial-0012`` in an xdist worker."""

    def __init__(self, worker: str = "") -> None:
        self._prefix = f"{worker}-" if worker else ""
        self._last: dict[RecordKind, int] = {}

    def next(self, kind: RecordKind) -> str:
        """The next id of this kind."""
        number = self._last.get(kind, 0) + 1
        self._last[kind] = number
        return f"{self._prefix}{kind}-{number:04}"
