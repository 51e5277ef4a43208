"""What the plugin does with collected tests, and with the reports of those that ran."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.report.junit import ATTEMPT, REASON, RESULT, fate_properties
from pytest_nfvperf.adapters.report.texts import TestFindings, figures_text
from pytest_nfvperf.config.sla_file import unknown_labels
from pytest_nfvperf.config.vocabulary import TESTBED_LABELS
from pytest_nfvperf.model.display import how_many
from pytest_nfvperf.model.errors import ConfigError, DutFailure, InconclusiveError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import TestConclusion, TestFacts, conclude_test, one_line
from pytest_nfvperf.model.evidence.records import Cause, TestData
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.measure.profile import QUICK, SMOKE
from pytest_nfvperf.model.sla.rules import Rule, Sla, unmatched_rules
from pytest_nfvperf.model.text import visible
from pytest_nfvperf.plugin.attempts import ATTEMPT_KEY, Attempt, forget_properties
from pytest_nfvperf.plugin.author_mistakes import as_usage_error, place_in_test, refuse_two_topologies
from pytest_nfvperf.plugin.end_parts import parts_of
from pytest_nfvperf.plugin.ending import Ending, cause_of, ending_of, left_in_the_middle, mark
from pytest_nfvperf.plugin.judged_anew import sla_name
from pytest_nfvperf.plugin.labels import is_measuring, item_labels, subject_labels
from pytest_nfvperf.plugin.other_results import other_results
from pytest_nfvperf.plugin.parametrizing import NOT_QUICK, QUICK_ONLY, SMOKE_ONLY, VIRTUAL_TIME
from pytest_nfvperf.plugin.parametrizing import SMOKE as SMOKE_TEST
from pytest_nfvperf.plugin.result_lines import attach
from pytest_nfvperf.plugin.telling import say
from pytest_nfvperf.plugin.unjudgeable import refuse_unjudgeable
from pytest_nfvperf.runs.compare_sides import SideLostError
from pytest_nfvperf.session.comparing import SidesBrokenError
from pytest_nfvperf.session.deployed_topologies import sections
from pytest_nfvperf.session.options import Options
from pytest_nfvperf.session.packs import refuse_empty
from pytest_nfvperf.session.run import NfvSession
from pytest_nfvperf.session.running_test import conclude_interrupted
from pytest_nfvperf.session.sla_check import InconclusiveWarning, SlaFailure
from pytest_nfvperf.session.slas import SUITE_SLA

UNRECORDED_KEY = pytest.StashKey[TestbedError]()
DUT_FAILED, INCONCLUSIVE, USAGE = "FAIL", "INCONCLUSIVE", "usage error"
"""What the message begins with of a test that has no figure for an SLA."""

NOT_ROOT = (
    "nfvperf needs root for namespaces, hugepages and its own Open vSwitch: run this with sudo, "
    "or use --nfv-plan to see what would be measured"
)


_LEFT_OUT = {QUICK.name: (NOT_QUICK, SMOKE_ONLY), SMOKE.name: (NOT_QUICK,)}
"""Markers of what a profile leaves out; of the others it is what only these two have."""


def deselect_by_profile(config: pytest.Config, items: list[pytest.Item], options: Options) -> None:
    """Drop what the profile and the kind of time leave out, and say so as pytest says it of -k."""
    left_out = _LEFT_OUT.get(options.profile, (QUICK_ONLY, SMOKE_ONLY))
    kept = of_this_time([item for item in items if not any(map(item.get_closest_marker, left_out))], options)
    if options.profile == SMOKE.name:
        kept = one_of_each_suite(kept)
    dropped = [item for item in items if item not in set(kept)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def of_this_time(items: Sequence[pytest.Item], options: Options) -> list[pytest.Item]:
    """Without tests that count instructions in a run by the clock, and the other way round; all that do not measure.

    Where only such tests are selected they stay, and say why they are skipped. A comparison in virtual time counts the
    instructions of any test.
    """
    if options.virtual_time and options.compare is not None:
        return list(items)
    kept = [
        item
        for item in items
        if not is_measuring(item) or bool(item.get_closest_marker(VIRTUAL_TIME)) is options.virtual_time
    ]
    return kept if any(map(is_measuring, kept)) else list(items)


def one_of_each_suite(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Of each folder one measuring test: the one that is marked for it, else the first; and all that do not measure."""
    chosen: dict[Path, pytest.Item] = {}
    for item in filter(is_measuring, items):
        first = chosen.setdefault(item.path.parent, item)
        if item.get_closest_marker(SMOKE_TEST) and not first.get_closest_marker(SMOKE_TEST):
            chosen[item.path.parent] = item
    return [item for item in items if not is_measuring(item) or chosen[item.path.parent] is item]


def check_root(config: pytest.Config, options: Options) -> None:
    """Raise pytest.UsageError when this run would start something and is not root."""
    if starts(config, options) and os.geteuid() != 0:
        raise pytest.UsageError(NOT_ROOT)


def starts(config: pytest.Config, options: Options) -> bool:
    """True for a run that starts something on the machine."""
    return not (options.plan or config.option.collectonly)


def check_before_run(
    config: pytest.Config, items: Sequence[pytest.Item], selected: Sequence[pytest.Item], session: NfvSession
) -> None:
    """Find a user's mistakes, and what the machine lacks, before anything is started.

    ``items``: all that measure; ``selected``: those that the profile leaves. A worker of pytest-xdist looks at the SLAs
    only: what its machine lacks its tests say, and others may have it.

    Raises:
        pytest.UsageError: a file that cannot be used, an SLA rule that matches no test, no OVS, no generator.
    """
    refuse_two_topologies(selected)
    is_worker = hasattr(config, "workerinput")
    if is_worker and len(session.options.labels) > 1:
        return  # a rule may be about the testbed of another worker
    try:
        check_slas(config, items, session)
        if is_worker:
            return
        refuse_unjudgeable(selected, session, whole=not narrowed_by(config))
        if not session.options.plan:
            _ = session.baseline  # one that cannot be read is told before anything is measured
        if starts(config, session.options):
            session.backend.check()
    except (ConfigError, TestbedError) as error:
        raise pytest.UsageError(str(error)) from error


def check_slas(config: pytest.Config, items: Sequence[pytest.Item], session: NfvSession) -> None:
    """Every rule must match a test: a rule that judges nothing would look like a pass.

    When the user picked some of the tests, by whichever means, rules about others are no mistake and are counted in a
    line. A file of which no rule matches anything still is one.
    """
    own = session.backend.labels()
    folders = list(dict.fromkeys(item.path.parent for item in items))
    known = [own | labels for item in items for labels in subject_labels(item, session.profile.name)]
    names = {name for labels in known for name in labels}
    for pack in session.options.packs:
        refuse_empty(pack, session.slas.published(folders))
    narrowed = narrowed_by(config)
    for sla in session.slas.given:
        if not narrowed:
            _refuse_unknown(sla, names)
        unmatched = unmatched_rules(sla, known)
        of_this_testbed = [rule for rule in unmatched if not _of_another_testbed(rule, known)]
        if len(unmatched) == len(sla.rules):
            _refuse(unmatched, own)
        elif not narrowed:
            _refuse(of_this_testbed, own)
        elif of_this_testbed and not hasattr(config, "workerinput"):
            _tell_unmatched(config, of_this_testbed, len(sla.rules), narrowed)
    if session.options.slas or session.options.packs:
        return
    for folder in folders:
        beside = session.slas.beside(folder)
        if beside is not None and not narrowed:
            _refuse_unknown(beside, names)


def _refuse_unknown(sla: Sla, names: Collection[str]) -> None:
    error = unknown_labels(sla, names)
    if error is not None:
        raise error


def _of_another_testbed(rule: Rule, known: Sequence[Mapping[str, str]]) -> bool:
    """A vendor's file is about all its NICs, firmwares and datapaths; this testbed has one of each."""
    others = [
        selector
        for selector in rule.where
        if selector[0] in TESTBED_LABELS and not any(replace(rule, where=(selector,)).matches(each) for each in known)
    ]
    return bool(others)


def _refuse(unmatched: Sequence[Rule], own: Mapping[str, str]) -> None:
    if unmatched:
        rule = unmatched[0]
        testbed = ", ".join(f"{name}: {value}" for name, value in own.items())
        where = ", ".join(f"{name}: {' | '.join(values)}" for name, values in rule.where)
        raise ConfigError(
            f"{rule.source}: no test matches {{{where}}}, so this rule judges nothing; correct the "
            f"selector (pytest --collect-only lists the tests; the testbed is {testbed}) or remove the rule"
        )


def _tell_unmatched(config: pytest.Config, unmatched: Sequence[Rule], rules: int, narrowed: str) -> None:
    which = f"{how_many(len(unmatched), 'rule')} of {rules} of this SLA match no test of this run"
    say(config, f"{which}, which {narrowed} narrows, the first at {unmatched[0].source}: they judge nothing here")


_NARROWING = {
    "keyword": "-k",
    "markexpr": "-m",
    "lf": "--last-failed",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
    "deselect": "--deselect",
}
"""Options of pytest by which a user picks some of the tests."""


def narrowed_by(config: pytest.Config) -> str:
    """By which argument the user picked some of the tests; "" where all are asked for."""
    for option, shown in _NARROWING.items():
        if config.getoption(option, None):
            return shown
    base = config.invocation_params.dir
    asked = {(base / arg.split("::")[0]).resolve(): arg for arg in config.args}
    for path, arg in asked.items():
        if "::" in arg or not path.is_dir() or _suites_beside(path, asked):
            return repr(arg)
    return ""


def _suites_beside(folder: Path, asked: Collection[Path]) -> bool:
    """True where a folder is one suite of several, and the others were not asked for."""
    if not (folder / SUITE_SLA).is_file():
        return False
    return any(other.parent not in asked for other in folder.parent.glob(f"*/{SUITE_SLA}"))


def begin(item: pytest.Item, session: NfvSession) -> None:
    """Write the beginning of a test into the evidence; ``finish`` writes its end."""
    _begin_attempt(item, session, 1)


def _begin_attempt(item: pytest.Item, session: NfvSession, number: int) -> None:
    callspec = getattr(item, "callspec", None)
    parameters = {name: _text(value) for name, value in (callspec.params if callspec else {}).items()}
    labels = tuple(sorted(item_labels(item, session.profile.name).items()))
    doc = getattr(getattr(item, "function", None), "__doc__", None) or ""
    session.test_file = item.path
    item.stash[ATTEMPT_KEY] = Attempt(number)
    data = TestData(labels, parameters, doc.strip(), sla_name(session, item.path), attempt=number)
    try:
        session.begin_test(item.nodeid, data)
    except TestbedError as error:
        item.stash[UNRECORDED_KEY] = error


def set_up(item: pytest.Item, session: NfvSession) -> None:
    """The set-up of a test begins: the second and each later one is of another attempt, which another plugin makes."""
    if ATTEMPT_KEY not in item.stash:  # another plugin runs its phases without pytest_runtest_protocol
        _begin_attempt(item, session, 1)
    attempt = item.stash[ATTEMPT_KEY]
    if attempt.set_up:
        if attempt.ended is None:  # pytest-retry goes on without pytest's report of the teardown
            attempt.ended = attempt.end_data()
            session.end_test(attempt.ended)
        forget_properties(item)
        _begin_attempt(item, session, attempt.number + 1)
    item.stash[ATTEMPT_KEY].set_up = True
    session.start_anew()


def refuse_unrecorded(item: pytest.Item) -> None:
    """Raise the TestbedError of a test that the evidence cannot take, such as on a full disk: it must not run."""
    if UNRECORDED_KEY in item.stash:
        raise item.stash[UNRECORDED_KEY]


def _text(value: object) -> str:
    """Of a parameter that is several values, such as the datapaths that a test compares, each."""
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def interrupted(config: pytest.Config, session: NfvSession) -> None:
    """The running test does not end, because the run does."""
    for results in other_results(config):
        results.interrupted(conclude_interrupted(session.recorder))


@contextmanager
def tolerating(item: pytest.Item, phase: str, session: NfvSession) -> Iterator[None]:
    """Around a phase of a test: with ``--nfv-inconclusive warn`` what could not be measured is a warning.

    The test passes then, as it does where a verdict is INCONCLUSIVE. One whose fixtures could not measure is skipped,
    because it cannot run without them.

    Args:
        item: the test.
        phase: "setup" or "call".
        session: has the option.
    """
    attempt = item.stash[ATTEMPT_KEY] if ATTEMPT_KEY in item.stash else Attempt()  # a plan begins none
    try:
        yield
    except InconclusiveError as error:
        attempt.raised[phase] = error
        if session.options.inconclusive != "warn":
            raise
        text, skipped = str(error), phase == "setup"
        warnings.warn(InconclusiveWarning(text), stacklevel=2)
        status = "skipped" if skipped else "passed"
        attempt.endings["tolerated"] = Ending(status, Cause.INCONCLUSIVE, one_line(text), text)
        if skipped:
            raise pytest.skip.Exception(f"INCONCLUSIVE: {text}") from error
    except BaseException as error:
        attempt.raised[phase] = error
        raise


def explain(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport, session: NfvSession) -> None:
    """Show the message instead of a traceback, and remember a broken testbed and how the phase ended."""
    error = as_usage_error(None if call.excinfo is None else call.excinfo.value)
    if isinstance(error, TestbedError) and not report.passed:
        error = session.broken(error)
    elif error is not None and left_in_the_middle(error):
        session.broken_off = True
    if report.failed and error is not None:
        if session.deployed:
            report.sections.extend(sections(session.failed_on(error)))
        _show(report, error, item.config.rootpath)
    _show_all_characters(report.longrepr)
    ending = ending_of(report, error)
    mark(report, ending)
    if ATTEMPT_KEY in item.stash:
        attempt, phase = item.stash[ATTEMPT_KEY], report.when or "call"
        attempt.endings[phase], attempt.reports[phase] = ending, report


def _show(report: pytest.TestReport, error: BaseException, root: Path) -> None:
    if isinstance(error, SlaFailure):
        report.longrepr = visible(str(error))
    elif isinstance(error, (TestbedError, SideLostError, SidesBrokenError)):
        report.longrepr = visible(f"testbed error: {error}")
    elif isinstance(error, DutFailure):
        report.longrepr = visible(f"{DUT_FAILED}: {error}")
    elif isinstance(error, InconclusiveError):
        report.longrepr = visible(f"{INCONCLUSIVE}: {error}")
    elif isinstance(error, (ConfigError, pytest.UsageError)):
        place = "" if getattr(error, "file", None) else place_in_test(error, root)
        report.longrepr = visible(f"{USAGE}: {error}") + (f"\n  in {place}" if place else "")
    elif cause_of(error, report.when or "call") is Cause.INTERNAL:
        report.longrepr = visible(
            f"internal error of nfvperf, which says nothing about the DUT\n\n{report.longreprtext}"
        )


def _show_all_characters(shown: object) -> None:
    """Pytest's text of a failure as the terminal takes it: a message may quote whatever a test has read."""
    for traceback, crash, _ in getattr(shown, "chain", ()):
        for entry in traceback.reprentries:
            entry.lines = [visible(line) for line in entry.lines]
        if crash is not None:
            crash.message = visible(crash.message)


def finish(item: pytest.Item, report: pytest.TestReport, session: NfvSession) -> TestFindings | None:
    """Write the end of an attempt, and what became of it, while its reports are still open; a plan began none.

    Returns:
        What is to be told of it in a line; None in a plan.
    """
    if ATTEMPT_KEY not in item.stash:
        return None
    attempt = item.stash[ATTEMPT_KEY]
    attempt.ended = attempt.end_data()
    try:
        became = session.end_test(attempt.ended)
    except TestbedError as error:  # without evidence no result counts
        report.outcome = "failed"
        _show(report, error, item.config.rootpath)
        ending = ending_of(report, error)
        mark(report, ending)
        became = conclude_test(TestFacts(item.nodeid, status=ending.status, cause=ending.cause, reason=ending.reason))
    return _publish(item, report, became, session)


class LoggedReports:
    """Takes over what pytest logs of a test, where another plugin made something else of it since we read it."""

    def __init__(self, session: NfvSession) -> None:
        self._session = session
        self._item: pytest.Item | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Know whose reports they are."""
        self._item = item
        try:
            return (yield)
        finally:
            self._item = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Before JUnit, which writes a test when its last report comes."""
        item = self._item
        if item is None or report.nodeid != item.nodeid or ATTEMPT_KEY not in item.stash:
            return
        attempt = item.stash[ATTEMPT_KEY]
        if not attempt.logged(report):
            return
        raised = attempt.raised.get(report.when or "call")
        if report.failed and raised is not None:
            _show(report, raised, item.config.rootpath)
            mark(report, ending_of(report, raised))
        if attempt.ended is None:
            return
        attempt.ended = attempt.end_data()
        became = self._session.correct_end(item.nodeid, attempt.ended)
        last = attempt.reports["teardown"]
        last.user_properties[:] = [pair for pair in last.user_properties if pair[0] not in {RESULT, REASON, ATTEMPT}]
        found = _publish(item, last, became, self._session)
        if is_measuring(item):
            attach(last, found)


def _publish(item: pytest.Item, report: pytest.TestReport, became: TestConclusion, session: NfvSession) -> TestFindings:
    """Tell JUnit, by the last report of the test, and the terminal's line."""
    attempt = item.stash[ATTEMPT_KEY]
    report.user_properties.extend(fate_properties(became))
    if attempt.number > 1:
        report.user_properties.append((ATTEMPT, str(attempt.number)))
    outcomes = [finding for finding in session.recorder.findings if isinstance(finding, Outcome)]
    figures = ""
    with parts_of(item.config).alone("figures of a test cannot be shown", "they are in the evidence"):
        figures = figures_text(outcomes)
    return TestFindings(figures, became.badge, became.reason)
