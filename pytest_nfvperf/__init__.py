"""Datapath acceptance for pytest: measure OVS and NICs, judge them against an SLA.

``import pytest_nfvperf as nfv``: what is in ``__all__`` here and in ``nfv.parts``, ``nfv.routing`` and ``nfv.testing``
is public (docs/api.md); everything else is private. A name is imported when first used.
"""

from typing import TYPE_CHECKING

from pytest_nfvperf.model.lazy import lazily

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.evidence.hdr import exact_latency
    from pytest_nfvperf.adapters.evidence.reader import RunEvidence, read_run
    from pytest_nfvperf.adapters.evidence.writer import read_samples
    from pytest_nfvperf.adapters.generators.copied_frames import check_frames
    from pytest_nfvperf.adapters.generators.iperf3.engine import Iperf3Engine
    from pytest_nfvperf.backends.base import Backend, RunsBgp, RunsOvn
    from pytest_nfvperf.config.sla_file import load_sla
    from pytest_nfvperf.config.testbed_file import load_testbed, testbed_to_yaml
    from pytest_nfvperf.model.display import format_fps, format_ratio
    from pytest_nfvperf.model.errors import (
        ConfigError,
        DeadlineError,
        DutFailure,
        GeneratorError,
        InconclusiveError,
        NfvperfError,
        TestbedError,
        UnavailableError,
    )
    from pytest_nfvperf.model.ledger.ledger import (
        CounterDelta,
        CounterSnapshot,
        FramePath,
        Hop,
        HopKind,
        Ledger,
        LedgerLine,
        Loss,
        ledger_of,
    )
    from pytest_nfvperf.model.ledger.ledger_text import ledger_text
    from pytest_nfvperf.model.measure.cpu_account import CpuAccount
    from pytest_nfvperf.model.measure.observe import observations, unmeasured
    from pytest_nfvperf.model.measure.outcome import Cost, LossPoint, Outcome
    from pytest_nfvperf.model.measure.profile import Profile
    from pytest_nfvperf.model.measure.reading import Reading
    from pytest_nfvperf.model.measure.soak_table import SoakTable
    from pytest_nfvperf.model.measure.stream_measurement import (
        SideCpu,
        StreamCounts,
        StreamEvidence,
        StreamResult,
        StreamSpec,
        WayCounts,
    )
    from pytest_nfvperf.model.scenarios.mirror_outputs import mirror_output
    from pytest_nfvperf.model.scenarios.overlay_path import OVERLAYS, vm_to_vm
    from pytest_nfvperf.model.scenarios.vm_chain import vm_chain, vm_receiving
    from pytest_nfvperf.model.sla.failure_table import failure_table
    from pytest_nfvperf.model.sla.judge import judge, worst
    from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
    from pytest_nfvperf.model.testbed.equipment import DatapathInfo, GeneratorInfo
    from pytest_nfvperf.model.testbed.testbed import TESTBEDS_OWN, Dut, Testbed
    from pytest_nfvperf.model.testbed.topology_text import topology_text
    from pytest_nfvperf.model.testbed.tuning import OVS_DEFAULT, Tuning
    from pytest_nfvperf.model.topology.catalogue import bridge_chain, phy2phy, pvp, pvvp
    from pytest_nfvperf.model.topology.compose import Composition, Part, compose
    from pytest_nfvperf.model.topology.topology import Topology
    from pytest_nfvperf.model.traffic.headers import Vxlan
    from pytest_nfvperf.model.traffic.histogram import Histogram
    from pytest_nfvperf.model.traffic.interval_counts import IntervalCounts, IntervalLatency, SoFar
    from pytest_nfvperf.model.traffic.traffic import IMIXES, RFC2544_FRAME_SIZES, S1_FRAME_SIZES, Imix, Traffic
    from pytest_nfvperf.model.traffic.trial import (
        Arrivals,
        DirectionCounts,
        InvalidReason,
        Reason,
        RigHealth,
        TrialResult,
        TrialSpec,
        VnfCounts,
    )
    from pytest_nfvperf.plugin.hooks import session_of
    from pytest_nfvperf.plugin.labels import item_labels
    from pytest_nfvperf.plugin.parametrizing import NOT_QUICK, chosen, compares, sweep
    from pytest_nfvperf.ports.capture import Capture, Captured
    from pytest_nfvperf.ports.ceilings import Ceilings
    from pytest_nfvperf.ports.clock import Clock
    from pytest_nfvperf.ports.collector import Collector
    from pytest_nfvperf.ports.datapath import Attachment, BuiltTopology, Datapath
    from pytest_nfvperf.ports.generator import Generator, GeneratorPort
    from pytest_nfvperf.ports.running_trial import RunningTrial, TellsIntervals
    from pytest_nfvperf.ports.stream_engine import StreamEnd, StreamEngine
    from pytest_nfvperf.ports.vnf import Vnf, VnfMaker, VnfPort, VnfSpec
    from pytest_nfvperf.runs.figures import Figure, SendingFigure, ShortFigure, Subject
    from pytest_nfvperf.runs.load_cost import LoadCost
    from pytest_nfvperf.runs.load_series import loss_point
    from pytest_nfvperf.runs.mirroring import CopyTrials, MirrorLoad
    from pytest_nfvperf.runs.rig import LiveTopology
    from pytest_nfvperf.runs.rig_parts import RigParts
    from pytest_nfvperf.runs.search import Search
    from pytest_nfvperf.runs.soaker import Soaker
    from pytest_nfvperf.runs.stream_runner import StreamRun, StreamRunner
    from pytest_nfvperf.runs.study import Study
    from pytest_nfvperf.runs.trials import Trial
    from pytest_nfvperf.session.capturing import Captures
    from pytest_nfvperf.session.deploying import Deployer, FreshDeployer
    from pytest_nfvperf.session.run import NfvSession
    from pytest_nfvperf.session.sla_check import SlaCheck, SlaFailure

__version__ = "0.1.0"

__all__ = [
    "IMIXES",
    "NOT_QUICK",
    "OVERLAYS",
    "OVS_DEFAULT",
    "RFC2544_FRAME_SIZES",
    "S1_FRAME_SIZES",
    "TESTBEDS_OWN",
    "Arrivals",
    "Attachment",
    "Backend",
    "BuiltTopology",
    "Capture",
    "Captured",
    "Captures",
    "Ceilings",
    "Clock",
    "Collector",
    "Composition",
    "ConfigError",
    "CopyTrials",
    "Cost",
    "CounterDelta",
    "CounterSnapshot",
    "CpuAccount",
    "Datapath",
    "DatapathInfo",
    "DeadlineError",
    "Deployer",
    "DirectionCounts",
    "Dut",
    "DutFailure",
    "Figure",
    "FramePath",
    "FreshDeployer",
    "Generator",
    "GeneratorError",
    "GeneratorInfo",
    "GeneratorPort",
    "Histogram",
    "Hop",
    "HopKind",
    "Imix",
    "InconclusiveError",
    "IntervalCounts",
    "IntervalLatency",
    "InvalidReason",
    "Iperf3Engine",
    "Judgement",
    "Ledger",
    "LedgerLine",
    "LiveTopology",
    "LoadCost",
    "Loss",
    "LossPoint",
    "MirrorLoad",
    "NfvSession",
    "NfvperfError",
    "Outcome",
    "Part",
    "Profile",
    "Reading",
    "Reason",
    "RigHealth",
    "RigParts",
    "RunEvidence",
    "RunningTrial",
    "RunsBgp",
    "RunsOvn",
    "Search",
    "SendingFigure",
    "ShortFigure",
    "SideCpu",
    "SlaCheck",
    "SlaFailure",
    "SoFar",
    "SoakTable",
    "Soaker",
    "StreamCounts",
    "StreamEnd",
    "StreamEngine",
    "StreamEvidence",
    "StreamResult",
    "StreamRun",
    "StreamRunner",
    "StreamSpec",
    "Study",
    "Subject",
    "TellsIntervals",
    "Testbed",
    "TestbedError",
    "Topology",
    "Traffic",
    "Trial",
    "TrialResult",
    "TrialSpec",
    "Tuning",
    "UnavailableError",
    "Verdict",
    "Vnf",
    "VnfCounts",
    "VnfMaker",
    "VnfPort",
    "VnfSpec",
    "Vxlan",
    "WayCounts",
    "__version__",
    "bridge_chain",
    "check_frames",
    "chosen",
    "compares",
    "compose",
    "exact_latency",
    "failure_table",
    "format_fps",
    "format_ratio",
    "item_labels",
    "judge",
    "ledger_of",
    "ledger_text",
    "load_sla",
    "load_testbed",
    "loss_point",
    "mirror_output",
    "observations",
    "phy2phy",
    "pvp",
    "pvvp",
    "read_run",
    "read_samples",
    "session_of",
    "sweep",
    "testbed_to_yaml",
    "topology_text",
    "unmeasured",
    "vm_chain",
    "vm_receiving",
    "vm_to_vm",
    "worst",
]

_PLACES = {
    "Arrivals": "model.traffic.trial",
    "Attachment": "ports.datapath",
    "Backend": "backends.base",
    "BuiltTopology": "ports.datapath",
    "Capture": "ports.capture",
    "Captured": "ports.capture",
    "Captures": "session.capturing",
    "Ceilings": "ports.ceilings",
    "Clock": "ports.clock",
    "Collector": "ports.collector",
    "Composition": "model.topology.compose",
    "ConfigError": "model.errors",
    "CopyTrials": "runs.mirroring",
    "Cost": "model.measure.outcome",
    "CpuAccount": "model.measure.cpu_account",
    "CounterDelta": "model.ledger.ledger",
    "CounterSnapshot": "model.ledger.ledger",
    "Datapath": "ports.datapath",
    "DatapathInfo": "model.testbed.equipment",
    "DeadlineError": "model.errors",
    "Deployer": "session.deploying",
    "DirectionCounts": "model.traffic.trial",
    "Dut": "model.testbed.testbed",
    "DutFailure": "model.errors",
    "Figure": "runs.figures",
    "FramePath": "model.ledger.ledger",
    "FreshDeployer": "session.deploying",
    "Generator": "ports.generator",
    "GeneratorError": "model.errors",
    "GeneratorInfo": "model.testbed.equipment",
    "GeneratorPort": "ports.generator",
    "Histogram": "model.traffic.histogram",
    "Hop": "model.ledger.ledger",
    "HopKind": "model.ledger.ledger",
    "IMIXES": "model.traffic.traffic",
    "Imix": "model.traffic.traffic",
    "InconclusiveError": "model.errors",
    "IntervalCounts": "model.traffic.interval_counts",
    "IntervalLatency": "model.traffic.interval_counts",
    "InvalidReason": "model.traffic.trial",
    "Iperf3Engine": "adapters.generators.iperf3.engine",
    "Judgement": "model.sla.verdict",
    "Ledger": "model.ledger.ledger",
    "LedgerLine": "model.ledger.ledger",
    "LiveTopology": "runs.rig",
    "LoadCost": "runs.load_cost",
    "Loss": "model.ledger.ledger",
    "LossPoint": "model.measure.outcome",
    "MirrorLoad": "runs.mirroring",
    "NOT_QUICK": "plugin.parametrizing",
    "NfvSession": "session.run",
    "NfvperfError": "model.errors",
    "OVERLAYS": "model.scenarios.overlay_path",
    "OVS_DEFAULT": "model.testbed.tuning",
    "Outcome": "model.measure.outcome",
    "Part": "model.topology.compose",
    "Profile": "model.measure.profile",
    "RFC2544_FRAME_SIZES": "model.traffic.traffic",
    "Reading": "model.measure.reading",
    "Reason": "model.traffic.trial",
    "RigHealth": "model.traffic.trial",
    "RigParts": "runs.rig_parts",
    "RunEvidence": "adapters.evidence.reader",
    "RunningTrial": "ports.running_trial",
    "RunsBgp": "backends.base",
    "RunsOvn": "backends.base",
    "S1_FRAME_SIZES": "model.traffic.traffic",
    "Search": "runs.search",
    "SendingFigure": "runs.figures",
    "ShortFigure": "runs.figures",
    "SideCpu": "model.measure.stream_measurement",
    "SlaCheck": "session.sla_check",
    "SlaFailure": "session.sla_check",
    "SoFar": "model.traffic.interval_counts",
    "SoakTable": "model.measure.soak_table",
    "Soaker": "runs.soaker",
    "StreamCounts": "model.measure.stream_measurement",
    "StreamEnd": "ports.stream_engine",
    "StreamEngine": "ports.stream_engine",
    "StreamEvidence": "model.measure.stream_measurement",
    "StreamResult": "model.measure.stream_measurement",
    "StreamRun": "runs.stream_runner",
    "StreamRunner": "runs.stream_runner",
    "StreamSpec": "model.measure.stream_measurement",
    "Study": "runs.study",
    "Subject": "runs.figures",
    "TESTBEDS_OWN": "model.testbed.testbed",
    "TellsIntervals": "ports.running_trial",
    "Testbed": "model.testbed.testbed",
    "TestbedError": "model.errors",
    "Topology": "model.topology.topology",
    "Traffic": "model.traffic.traffic",
    "Trial": "runs.trials",
    "TrialResult": "model.traffic.trial",
    "TrialSpec": "model.traffic.trial",
    "Tuning": "model.testbed.tuning",
    "UnavailableError": "model.errors",
    "Verdict": "model.sla.verdict",
    "Vnf": "ports.vnf",
    "VnfCounts": "model.traffic.trial",
    "VnfMaker": "ports.vnf",
    "VnfPort": "ports.vnf",
    "VnfSpec": "ports.vnf",
    "Vxlan": "model.traffic.headers",
    "WayCounts": "model.measure.stream_measurement",
    "bridge_chain": "model.topology.catalogue",
    "check_frames": "adapters.generators.copied_frames",
    "chosen": "plugin.parametrizing",
    "compares": "plugin.parametrizing",
    "compose": "model.topology.compose",
    "exact_latency": "adapters.evidence.hdr",
    "failure_table": "model.sla.failure_table",
    "format_fps": "model.display",
    "format_ratio": "model.display",
    "item_labels": "plugin.labels",
    "judge": "model.sla.judge",
    "ledger_of": "model.ledger.ledger",
    "ledger_text": "model.ledger.ledger_text",
    "load_sla": "config.sla_file",
    "load_testbed": "config.testbed_file",
    "loss_point": "runs.load_series",
    "mirror_output": "model.scenarios.mirror_outputs",
    "observations": "model.measure.observe",
    "phy2phy": "model.topology.catalogue",
    "pvp": "model.topology.catalogue",
    "pvvp": "model.topology.catalogue",
    "read_run": "adapters.evidence.reader",
    "read_samples": "adapters.evidence.writer",
    "session_of": "plugin.hooks",
    "sweep": "plugin.parametrizing",
    "testbed_to_yaml": "config.testbed_file",
    "topology_text": "model.testbed.topology_text",
    "unmeasured": "model.measure.observe",
    "vm_chain": "model.scenarios.vm_chain",
    "vm_receiving": "model.scenarios.vm_chain",
    "vm_to_vm": "model.scenarios.overlay_path",
    "worst": "model.sla.judge",
}

if not TYPE_CHECKING:  # a type checker must see wrong names
    __getattr__ = lazily(__name__, __name__, _PLACES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
