"""The conclusion of the running test, from what it found so far.

A failure names the topologies that it is about. The ledger of a lossy trial explains what bounds a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_nfvperf.adapters.report.texts import deployed_title, topology_drawing
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import DeployedOn, InvalidTrialsError, Recorder, RunLocations, Trial
from pytest_nfvperf.model.display import format_fps
from pytest_nfvperf.model.evidence.conclusion import WHEN_THE_RUN_ENDED, TestConclusion, TestFacts, conclude_test
from pytest_nfvperf.model.evidence.records import STEPS, LedgerData, TestEndData, TopologyData
from pytest_nfvperf.model.measure.ledger import ledger_text, loss_sort_key
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.model.testbed.topology_text import port_kinds
from pytest_nfvperf.session.slas import SlaFailure

MOST_DRAWN = 2
"""Further topologies are only named: the report draws them all."""


def conclude_running(recorder: Recorder, end: TestEndData) -> TestConclusion:
    return conclude_test(
        TestFacts(
            recorder.test,
            status=end.status,
            cause=end.cause,
            reason=end.reason,
            verdicts=tuple(recorder.verdicts),
            errors=_errors(recorder),
            measured=bool(recorder.outcomes),
        )
    )


def conclude_interrupted(recorder: Recorder) -> TestConclusion:
    """Conclude a test that cannot end because the run ends."""
    return conclude_test(TestFacts(recorder.test, reason=WHEN_THE_RUN_ENDED, errors=_errors(recorder)))


def _errors(recorder: Recorder) -> tuple[str, ...]:
    return tuple(error.message for error in recorder.errors)


def bounding(outcomes: Sequence[Outcome], trials: Mapping[str, Trial]) -> Trial | None:
    """The lossy valid trial of the lowest load that has a ledger; None where there is none."""
    own = [trials[key] for outcome in outcomes for key in outcome.trials if key in trials]
    lossy = [trial for trial in own if trial.result.valid and trial.result.judgement.counted.lost > 0 and trial.ledger]
    return min(lossy, key=lambda trial: loss_sort_key(trial.result.spec), default=None)


def bounding_text(outcomes: Sequence[Outcome], trials: Mapping[str, Trial]) -> str | None:
    worst = bounding(outcomes, trials)
    if worst is None or worst.ledger is None:
        return None
    return f"{worst.id}, {format_fps(worst.result.spec.load_fps)} per direction\n{ledger_text(worst.ledger)}"


def complete_ledgers(outcomes: Sequence[Outcome], trials: Mapping[str, Trial]) -> Iterator[LedgerData]:
    """Complete ledgers of trials that bound a result, where the trial's own record has only a short one."""
    found = {trial.id: trial for outcome in outcomes if (trial := bounding([outcome], trials)) is not None}
    for trial in found.values():
        if trial.result.spec.purpose in STEPS and trial.ledger is not None:
            yield LedgerData(trial.id, trial.ledger)


def topology_data(live: LiveTopology, testbed: Testbed) -> TopologyData:
    kinds = port_kinds(live.topology, live.datapath_kind, testbed)
    return TopologyData(live.as_deployed, live.datapath_kind, live.dut, kinds, live.datapath_info, dict(live.sending))


def failed_on(
    error: BaseException, deployed: Mapping[DeployedOn, TopologyData], places: RunLocations
) -> list[TopologyData]:
    """The topologies on which the failed trials and runs were measured; else the one deployed, or used, last.

    ``deployed`` has all topologies of the test, in order, and at least one.
    """
    failed_runs: Sequence[str] = ()
    if isinstance(error, SlaFailure):
        failed_runs = error.runs
    elif isinstance(error, InvalidTrialsError):
        failed_runs = [trial.id for trial in error.trials]
    topologies = [deployed[place] for place in places.of(failed_runs) if place in deployed]
    if topologies:
        return [topology for number, topology in enumerate(topologies) if topology not in topologies[:number]]
    if places.last is not None and places.last in deployed:
        return [deployed[places.last]]
    return [list(deployed.values())[-1]]


def sections(topologies: Sequence[TopologyData]) -> Iterator[tuple[str, str]]:
    """Titles and texts for the message of a failure."""
    for topology in topologies[:MOST_DRAWN]:
        yield f"topology {deployed_title(topology)}", topology_drawing(topology)
    others = [deployed_title(topology) for topology in topologies[MOST_DRAWN:]]
    if others:
        yield "topologies", f"It failed on these, too, which the report draws: {'; '.join(others)}"
