"""``--nfv-resume RUN``: a run that was killed or interrupted goes on in its own directory.

Tests that ended there on a rig of the same fingerprint are taken over: they are not measured again, and pytest reports
them as they ended. All others run, and what they measure replaces what was left of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nfvperf.model.evidence.conclusion import Fate
from pytest_nfvperf.plugin.telling import say

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.evidence.reader import RunEvidence, TestEvidence
    from pytest_nfvperf.model.evidence.conclusion import TestConclusion
    from pytest_nfvperf.session.run import NfvSession

EARLIER_KEY = pytest.StashKey["RunEvidence"]()
TAKEN_KEY = pytest.StashKey["tuple[TestEvidence, TestConclusion]"]()
"""Of a test that is not measured again: what the earlier process left of it, and what became of it."""

_SETTLED = frozenset({Fate.PASSED, Fate.FAILED, Fate.INCONCLUSIVE, Fate.SKIPPED, Fate.XFAIL})
NAME = "resumed"


def earlier_run(config: pytest.Config, given: Path, profile: str) -> RunEvidence:
    """The run to go on with.

    Raises:
        pytest.UsageError: there is none, it had another profile, it compares, or workers were asked for.
    """
    from pytest_nfvperf.adapters.evidence.reader import read_run  # noqa: PLC0415 - only for who resumes
    from pytest_nfvperf.model.errors import ConfigError  # noqa: PLC0415

    if config.getoption("numprocesses", None) or config.getoption("tx", None):
        raise pytest.UsageError("--nfv-resume goes on in one process: leave out -n and --tx")
    if not given.is_dir():
        raise pytest.UsageError(f"--nfv-resume: {given} is no directory of a run, such as reports/latest")
    try:
        run = read_run(given)
    except ConfigError as error:
        raise pytest.UsageError(f"--nfv-resume: {error}") from error
    if run.run is None:
        raise pytest.UsageError(f"--nfv-resume: {given} has no run record: it measured nothing, so start anew")
    if run.run.compare is not None:
        raise pytest.UsageError(f"--nfv-resume: {given} compares sides, which needs all in one run: start it anew")
    if run.run.profile != profile:
        raise pytest.UsageError(
            f"--nfv-resume: {given} has profile {run.run.profile}: give --nfv-profile {run.run.profile}"
        )
    return run


def next_name(run: RunEvidence) -> str:
    """Of the evidence of the process that goes on: ``resumed-1``, and so on each time."""
    return f"{NAME}-{1 + sum(file.startswith(f'evidence-{NAME}-') for file in run.runs)}"


def take_over(config: pytest.Config, items: list[pytest.Item], session: NfvSession) -> None:
    """Mark the tests that need not be measured again, and put them first: no fixture is in use then."""
    from pytest_nfvperf.adapters.evidence.conclusions import conclude  # noqa: PLC0415 - only for who resumes
    from pytest_nfvperf.model.measure.observe import observations  # noqa: PLC0415

    run = config.stash[EARLIER_KEY]
    unlike = _unlike(run, session.backend.fingerprint())
    for file, why in unlike.items():
        say(config, f"what {file} has is measured again, since the rig is not the same: {why}")
    became = {test.node_id: test for test in conclude(run).tests}
    for item in items:
        test = run.tests.get(item.nodeid)
        if test is not None and test.file not in unlike and test.end and became[item.nodeid].fate in _SETTLED:
            item.stash[TAKEN_KEY] = test, became[item.nodeid]
            for outcome in test.outcomes.values():
                session.measured.add(outcome.label, observations(outcome))
    taken = [item for item in items if TAKEN_KEY in item.stash]
    items[:] = taken + [item for item in items if TAKEN_KEY not in item.stash]
    session.resumes = tuple(sorted({*run.runs, *run.ends}))
    say(config, f"{len(taken)} of {len(items)} tests are taken over from {session.run_dir}")
    config.pluginmanager.register(TakesOver(), "nfvperf-takes-over")


def _unlike(run: RunEvidence, now: Mapping[str, Any]) -> dict[str, str]:
    """In what the rig of each evidence file differs from this one, for those that do."""
    from pytest_nfvperf.session.run_record import CPU_BANDS  # noqa: PLC0415 - only for who resumes

    found = {}
    for file, data in run.runs.items():
        then = {name: value for name, value in data.fingerprint.items() if name != CPU_BANDS}
        names = sorted({*then, *now})
        differ = [name for name in names if _plain(then.get(name)) != _plain(now.get(name))]
        if differ:
            found[file] = ", ".join(f"{name} {then.get(name)} then, {now.get(name)} now" for name in differ)
    return found


def _plain(value: object) -> str:
    """As evidence has it: JSON knows no tuples, and only text for keys."""
    return json.dumps(value, sort_keys=True)


class TakesOver:
    """Reports tests that were taken over as they ended."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """In place of running it."""
        if TAKEN_KEY not in item.stash:
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in _reports(item, *item.stash[TAKEN_KEY]):
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def _reports(item: pytest.Item, test: TestEvidence, became: TestConclusion) -> Iterator[pytest.TestReport]:
    """Of its three phases, the last with the line that the terminal shows."""
    from pytest_nfvperf.adapters.report.result_text import Found, figures_text  # noqa: PLC0415 - only for who resumes
    from pytest_nfvperf.plugin.labels import is_measuring  # noqa: PLC0415
    from pytest_nfvperf.plugin.result_lines import attach  # noqa: PLC0415

    found = Found(figures_text(list(test.outcomes.values())), became.badge, became.reason or "taken over")
    for when in ("setup", "call", "teardown"):
        report = _report(item, test, when)
        if is_measuring(item):
            attach(report, found if when == "teardown" else None)
        yield report


def _report(item: pytest.Item, test: TestEvidence, when: Any) -> pytest.TestReport:
    end = test.end
    status = end.status if end is not None and when == "call" else "passed"
    text: Any = None
    outcome: Any = {"error": "failed"}.get(status, status)
    if end is not None and outcome == "failed":
        text = end.text or end.reason
    elif end is not None and outcome == "skipped":
        text = (str(item.path), 0, f"Skipped: {end.reason}")
    return pytest.TestReport(item.nodeid, item.location, {}, outcome, text, when)
