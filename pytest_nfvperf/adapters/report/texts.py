"""Trials, ledgers and topologies as CSV and plain text, for attachments and messages."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from pathlib import Path

from pytest_nfvperf.adapters.report.dut_facts import versions_text
from pytest_nfvperf.model.display import format_bps, format_count, format_load, format_ratio, format_seconds
from pytest_nfvperf.model.evidence.records import StreamData, TopologyData, TrialData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.testbed.topology_text import topology_text
from pytest_nfvperf.model.testbed.tuning import OVS_DEFAULT

_COLUMNS = (
    "trial",
    "purpose",
    "load_fps",
    "duration_s",
    "intended",
    "offered",
    "sent",
    "received",
    "lost",
    "loss_ratio",
    "p50_ns",
    "p99_ns",
    "valid",
    "reasons",
)


def command_line(argv: Sequence[str]) -> str:
    """As it was typed: where the program is installed says nothing, and ``python -m pytest`` runs a file of its own."""
    if not argv:
        return ""
    program = Path(argv[0])
    name = f"python -m {program.parent.name}" if program.name == "__main__.py" else program.name
    return f"{name} {shlex.join(argv[1:])}".strip()


def drawn(deployed: TopologyData) -> str:
    """A topology as it was deployed, in text."""
    return topology_text(deployed.topology, datapath=f"{deployed.datapath} datapath", kinds=deployed.port_kinds)


def deployed_title(deployed: TopologyData) -> str:
    """``vm-chain-2 · dpdk datapath``: what tells it from the other topologies of a run."""
    title = f"{deployed.topology.name} · {deployed.datapath} datapath"
    title += (
        f" · {deployed.dut.version}: {versions_text(deployed.info)}" if deployed.dut.version and deployed.info else ""
    )
    title += " · userspace TSO" if deployed.dut.userspace_tso else ""
    title += f" · {deployed.dut.tuning}" if deployed.dut.tuning != OVS_DEFAULT else ""
    return title


def trials_csv(trials: Sequence[tuple[str, TrialData]]) -> str:
    """A line a trial; loads in frames/s per direction, counts over all directions, empty where not measured."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_COLUMNS)
    for trial_id, trial in trials:
        result = trial.result
        latency = result.latency
        writer.writerow(
            [
                trial_id,
                result.spec.purpose,
                result.spec.load_fps,
                result.due_s,
                result.intended,
                result.offered,
                result.sent,
                result.received,
                result.lost,
                result.loss_ratio,
                latency.percentile_ns(50) if latency else None,
                latency.percentile_ns(99) if latency else None,
                result.valid,
                "; ".join(map(str, result.invalid)),
            ]
        )
    return out.getvalue()


def trial_line(trial: TrialData) -> str:
    """One trial in one line: ``search ndr: 7.23 Mpps for 1.00 s, 0 of 14,460,000 lost (0 %)``."""
    result = trial.result
    load = f"{format_load(result.spec.load_fps, trial.offered_load_fps)} for {format_seconds(result.due_s)}"
    if not result.valid:
        return f"{result.spec.purpose}: {load}, invalid: {'; '.join(map(str, result.invalid))}"
    lost = f"{format_count(trial.own_lost, '')} of {format_count(trial.own_offered, '')} lost"
    return f"{result.spec.purpose}: {load}, {lost} ({format_ratio(trial.own_loss_ratio)}){disturbed_words(trial)}"


def disturbed_words(trial: TrialData) -> str:
    """`` in the undisturbed 62 % of it; 702,113 more in the rest``; nothing where all of it counts."""
    if trial.dated is None:
        return ""
    share, more = trial.dated.windows / trial.dated.of, trial.result.lost - trial.own_lost
    which = (
        f"undisturbed {share:.0%} of it"
        if trial.dated is trial.undisturbed
        else f"{share:.0%} of it in which all CPUs ran"
    )
    return f" in the {which}; {format_count(more, '')} more in the rest"


def stream_line(run: StreamData) -> str:
    """One run of streams in one line: ``4 TCP streams for 700 ms, 2.14 Gbps, 1.00 + 0.83 cores``."""
    result = run.result
    spec = result.spec
    what = f"{spec.streams} {spec.protocol.upper()} stream{'s' if spec.streams > 1 else ''}"
    what += f" for {format_seconds(spec.duration_s)}"
    if not result.valid:
        return f"{what}, invalid: {'; '.join(map(str, result.invalid))}"
    used = [cpu.cores for cpu in (result.client_cpu, result.server_cpu) if cpu is not None and cpu.cores is not None]
    cores = f", {' + '.join(f'{each:.2f}' for each in used)} cores" if used else ""
    open_part = f"; CPU time: {run.cpu.missing}" if run.cpu is not None and run.cpu.missing else ""
    return f"{what}, {format_bps(result.goodput_bps)}{cores}{open_part}"


def samples_csv(outcome: Outcome) -> str:
    """A line a reading of an outcome's samples, in base units."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["metric", "unit", "reading", "value", "evidence"])
    for samples in outcome.samples:
        ids = samples.evidence or ("",) * len(samples.values)
        for number, (value, evidence) in enumerate(zip(samples.values, ids, strict=True), 1):
            writer.writerow([samples.metric, samples.unit, number, value, evidence])
    return out.getvalue()
