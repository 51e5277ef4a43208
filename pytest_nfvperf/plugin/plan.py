"""``--nfv-plan``: the same tests, run against a simulated DUT in virtual time.

So the plan cannot drift from a run. It counts every trial that the tests would send, with its duration and the rig's
overheads; it starts nothing and sends nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from pytest_nfvperf.adapters.report.texts import topology_drawing, traffic_drawings
from pytest_nfvperf.backends.simulated import ASSUMED_FPS, EndSpec, SimulatedBackend
from pytest_nfvperf.model.display import format_fps, format_seconds, how_many
from pytest_nfvperf.model.evidence.conclusion import one_line
from pytest_nfvperf.model.evidence.records import TopologyData
from pytest_nfvperf.model.measure.streams import ConnectSpec, RequestSpec
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.plugin.labels import is_measuring
from pytest_nfvperf.plugin.output import terminal_of
from pytest_nfvperf.plugin.phases import DUT_FAILED, INCONCLUSIVE, USAGE
from pytest_nfvperf.session.run import NfvSession


@dataclass(frozen=True, slots=True)
class PlannedTest:
    """``seconds``: trials, overheads and set-up. ``skipped``: the reason, if any."""

    node_id: str
    specs: tuple[TrialSpec, ...]
    seconds: float
    failure: str
    topologies: tuple[TopologyData, ...] = ()
    streams: tuple[EndSpec, ...] = ()
    skipped: str = ""


def show_plan(session: pytest.Session, nfv: NfvSession) -> bool:
    reporter = terminal_of(session.config)
    backend = nfv.backend
    if not isinstance(backend, SimulatedBackend) or reporter is None:
        return False
    planned = [_plan(item, backend, nfv) for item in session.items if is_measuring(item)]
    reporter.section("plan: nothing is sent", sep="=")
    for line in nfv.traffic.lines() if nfv.traffic else ():
        reporter.write_line(line)
    for test in planned:
        reporter.write_line(_line(test))
        if reporter.verbosity > 0:
            drawings = [*map(topology_drawing, test.topologies), *traffic_drawings(test.specs)]
            for line in (line for drawing in drawings for line in drawing.splitlines()):
                reporter.write_line(f"    {line}")
            for spec in test.specs:
                reporter.write_line(
                    f"    {format_seconds(spec.duration_s):>8} at {format_fps(spec.load_fps):>10}  {spec.purpose}"
                )
    run = [test for test in planned if not test.skipped]
    skipped = f" ({len(planned) - len(run)} more are skipped)" if len(run) < len(planned) else ""
    total = sum(test.seconds for test in run)
    count = sum(len(test.specs) + len(test.streams) for test in run)
    what = f"{how_many(len(run), 'test')}{skipped}, {how_many(count, 'trial')}"
    reporter.write_line(
        f"{what}, about {format_seconds(total)} for a DUT of about {format_fps(ASSUMED_FPS)} per direction "
        "at 64 bytes; invalid trials are repeated and add to it"
    )
    if (limit_s := nfv.profile.time_limit_s) is not None and total > limit_s:
        reporter.write_line(f"the time limit of {format_seconds(limit_s)} is less: the last tests will not begin")
    session.testsfailed = sum(bool(test.failure) for test in planned)
    if wrong := sum(test.failure.startswith(USAGE) for test in planned):
        raise pytest.UsageError(f"{how_many(wrong, 'test')} of {len(planned)} cannot be run as written, see above")
    return True


def _plan(item: pytest.Item, backend: SimulatedBackend, nfv: NfvSession) -> PlannedTest:
    nfv.deployed.clear()
    nfv.test_file = item.path
    started, before, ran = backend.clock.monotonic(), len(backend.specs), [len(sort) for sort in backend.end_specs]
    reports = runtestprotocol(item, log=False, nextitem=None)
    # The simulated DUT copies nothing, so a test that checks counts of copies fails there. By then all that it sends is
    # known. A plan has no measured values, so ignore messages about them.
    about_values: tuple[str, ...] = (f"{DUT_FAILED}: ", f"{INCONCLUSIVE}: ")
    if backend.clock.monotonic() > started:
        about_values += "AssertionError", "assert ", "Failed: "
    messages = [_message(report) for report in reports if report.failed]
    failures = [message for message in messages if not message.startswith(about_values)]
    skips = [
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in reports
        if report.skipped and isinstance(report.longrepr, tuple)  # not so for an expected failure
    ]
    specs = tuple(backend.specs[before:])
    streams = tuple(spec for sort, count in zip(backend.end_specs, ran, strict=True) for spec in sort[count:])
    return PlannedTest(
        item.nodeid,
        specs,
        backend.clock.monotonic() - started,
        failures[0] if failures else "",
        tuple(nfv.deployed.values()),
        streams,
        # A test that skips after it has sent something does so because of a result, which a plan cannot know.
        skips[0] if skips and not (specs or streams) else "",
    )


def _message(report: pytest.TestReport) -> str:
    """What a phase raised, in a line; with the location, for the test's own code."""
    text, crash = str(report.longrepr).strip(), getattr(report.longrepr, "reprcrash", None)
    if text.startswith(USAGE):
        return text.splitlines()[0]
    if crash is not None:
        return f"{one_line(crash.message)} ({Path(crash.path).name}:{crash.lineno})"
    raised = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]  # as pytest marks it
    return ": ".join(dict.fromkeys([one_line(getattr(report.longrepr, "errorstring", text)), *raised[:1]]))


def _line(test: PlannedTest) -> str:
    if test.failure:
        return f"{test.node_id}: cannot be planned: {test.failure}"
    if test.skipped:
        return f"{test.node_id}: skipped: {test.skipped}"
    streams = ", ".join(f"{count} x {words}" for words, count in Counter(map(_run_words, test.streams)).items())
    return f"{test.node_id}: about {format_seconds(test.seconds)}: {_grouped(test.specs) or streams}"


def _run_words(spec: EndSpec) -> str:
    match spec:
        case RequestSpec():
            return f"requests of {spec.message_bytes} bytes {format_seconds(spec.duration_s)}"
        case ConnectSpec():
            return f"{spec.connects:,} connects"
    return f"{how_many(spec.streams, f'{spec.protocol.upper()} stream')} {format_seconds(spec.run_s)}"


def _grouped(specs: Sequence[TrialSpec]) -> str:
    groups = Counter((spec.purpose.split(" at ")[0], spec.duration_s) for spec in specs)
    if len(groups) > 8:
        groups = Counter((purpose, 0.0) for purpose, _ in groups.elements())
    return ", ".join(
        f"{count} x {purpose}" + (f" {format_seconds(duration)}" if duration else "")
        for (purpose, duration), count in groups.items()
    )
