"""The pytest plugin: hooks only, and light to import.

Loaded in every pytest run of the environment, so anything that costs time or touches the
machine waits until a test that measures is collected or run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nfvperf.features import Point
from pytest_nfvperf.model.display import folded
from pytest_nfvperf.model.errors import ConfigError, TestbedError, UnavailableError
from pytest_nfvperf.plugin import run_end
from pytest_nfvperf.plugin.labels import BASE_FIXTURE, MARKERS, TESTBED_PARAMETER, is_measuring
from pytest_nfvperf.plugin.options import INI_KEYS, add_options, read_options, refuse_misspelt_options
from pytest_nfvperf.plugin.output import (
    RESULT_LINES,
    EndParts,
    ResultLines,
    attach,
    explain_missing_fixture,
    make_junit_writable,
    parts_of,
    terminal_of,
)
from pytest_nfvperf.plugin.run_state import (
    ADOPTED_KEY,
    OPTIONS_KEY,
    RUN_DIR_KEY,
    SESSION_KEY,
    STATE_KEY,
    RunState,
    is_worker,
)

if TYPE_CHECKING:
    from pytest_nfvperf.session.run import NfvSession

RUNNERS = Point[Callable[[pytest.Config], int | None]]("runner")
"""By option: a runner of the same command elsewhere. It returns the exit status; None: go on here."""
LIMITED = "nfvperf-time-limit"
NOT_LOADED = (
    "this fixture needs pytest_nfvperf's plugin, which pytest did not load: leave out `-p no:nfvperf`, or, where "
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD is set, add `-p pytest_nfvperf.plugin.hooks`"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)
    for key, text in INI_KEYS.items():
        parser.addini(key, text, type="args")


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from pytest_nfvperf.plugin import hookspecs  # noqa: PLC0415 - only now is the plugin manager there

    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(trylast=True)  # conftests add options, too
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    refuse_misspelt_options(parser, args)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Plan in this process, whatever ``-n`` says. With ``--nfv-virtual-time`` run the same command in a guest."""
    if config.getoption("--nfv-plan") and config.pluginmanager.hasplugin("xdist"):
        config.option.numprocesses, config.option.dist, config.option.tx = 0, "no", []  # as xdist itself does for -n 0
    if not config.getoption("--nfv-virtual-time"):
        return None
    return RUNNERS.part("--nfv-virtual-time")(config)


def pytest_configure(config: pytest.Config) -> None:
    for marker, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {meaning}")
    config.stash[STATE_KEY] = state = RunState()
    config.stash[OPTIONS_KEY], state.mistake = read_options(config)
    config.pluginmanager.register(state, "nfvperf-run-state")
    config.pluginmanager.register(LastLine(state), "nfvperf-last-line")
    if not is_worker(config):
        config.pluginmanager.register(ResultLines(config), RESULT_LINES)
    if config.pluginmanager.hasplugin("xdist") and config.getoption("dist") != "no":
        from pytest_nfvperf.plugin.scheduler import XdistHooks  # noqa: PLC0415 - only with workers

        config.pluginmanager.register(XdistHooks(config), "nfvperf-xdist")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """End the run if an option cannot be used: ``pytest_configure``, which found it, could leave no evidence.

    With xdist the controller does, for all workers.
    """
    config = session.config
    if is_worker(config):
        return
    mistake = config.stash[STATE_KEY].mistake
    if mistake is not None:
        from pytest_nfvperf.plugin.run_result import refuse  # noqa: PLC0415 - only for runs that would measure

        refuse(config, [], mistake)
        raise mistake


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a measuring test once for each label of the given testbeds."""
    labels = metafunc.config.stash[OPTIONS_KEY].labels
    if labels != ("",) and BASE_FIXTURE in metafunc.fixturenames:
        metafunc.fixturenames.append(TESTBED_PARAMETER)
        metafunc.parametrize(TESTBED_PARAMETER, labels)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Select and order the measuring tests, and check the SLAs against them."""
    measuring = [item for item in items if is_measuring(item)]
    if not measuring:
        return (yield)
    from pytest_nfvperf.plugin import selection  # noqa: PLC0415 - only where something is measured

    with _recording_refusal(config, items):
        _prepare(config, items, measuring)
    result = yield
    with _recording_refusal(config, items):
        selection.leave_out(config, items, session_of(config))  # now -k and -m have selected, too
        selection.check_slas(config, measuring, items, session_of(config))
    selection.put_other_sides_first(items, session_of(config))
    return result


@contextmanager
def _recording_refusal(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    try:
        yield
    except (pytest.UsageError, ConfigError, TestbedError) as error:
        from pytest_nfvperf.plugin.run_result import BROKEN_STATUS, refuse  # noqa: PLC0415 - only for a refused run

        broken = isinstance(error, TestbedError)
        mistake = error if broken else pytest.UsageError(str(error))
        refuse(config, [item for item in items if is_measuring(item)], mistake)
        if hasattr(config, "workerinput"):
            items.clear()  # xdist sends their names in spite of that, and fails over one that is not UTF-8
        if broken:
            pytest.exit("the testbed is broken", BROKEN_STATUS)
        raise mistake from error


def _prepare(config: pytest.Config, items: list[pytest.Item], measuring: list[pytest.Item]) -> None:
    from pytest_nfvperf.plugin import selection, worker  # noqa: PLC0415 - only where something is measured

    # Making the session makes the evidence, which a refusal goes to as well.
    selection.check_root(config, session_of(config))
    selection.refuse_other_plugins(config, measuring)
    selection.deselect_by_profile(config, items, config.stash[OPTIONS_KEY])
    selection.sort_suites(config, items)
    if config.stash[OPTIONS_KEY].time_limit_s is not None:
        selection.put_judged_first(items, session_of(config))
    selected = [item for item in items if is_measuring(item)]
    selection.check_before_run(config, selected, session_of(config))
    worker.report_groups(config, items, session_of(config))
    if config.stash[OPTIONS_KEY].resume is not None:
        from pytest_nfvperf.plugin import resume  # noqa: PLC0415 - only for resumed runs

        resume.adopt_tests(config, items, session_of(config))
    config.stash[STATE_KEY].measures = True
    if selection.starts(config, config.stash[OPTIONS_KEY]):
        run_end.watch(config, session_of(config))


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    if not config.stash[STATE_KEY].measures:
        return []
    from pytest_nfvperf.plugin import run_result, selection  # noqa: PLC0415

    options = config.stash[OPTIONS_KEY]
    measures = selection.starts(config, options) and not options.setup_only
    terminal = terminal_of(config)
    return run_result.header(session_of(config), measures=measures, width=terminal.width if terminal else None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> object:
    """Begin the evidence with the selected tests. With --nfv-plan list the trials and run nothing."""
    config, state = session.config, session.config.stash[STATE_KEY]
    if state.misused and not config.option.continue_on_collection_errors:
        with _recording_refusal(config, session.items):
            raise pytest.UsageError("; ".join(state.misused))
    started = not (config.option.collectonly or config.stash[OPTIONS_KEY].setup_only)
    if not started or not any(map(is_measuring, session.items)):
        return None
    if config.stash[OPTIONS_KEY].plan:
        from pytest_nfvperf.plugin import plan  # noqa: PLC0415

        return plan.show_plan(session, session_of(config))
    from pytest_nfvperf.plugin import run_result  # noqa: PLC0415

    with _recording_refusal(config, session.items):
        run_result.begin(session, session_of(config), state.uncollected)
    state.recorded = True
    from pytest_nfvperf.plugin.phases import LoggedReports  # noqa: PLC0415 - only with evidence

    config.pluginmanager.register(LoggedReports(session_of(config)), "nfvperf-logged-reports")
    if session_of(config).time_limit.limit_s is not None:
        from pytest_nfvperf.plugin.selection import LimitedRun  # noqa: PLC0415 - only with a limit

        lines = config.pluginmanager.get_plugin(RESULT_LINES)
        earlier_s = lines.earlier() if isinstance(lines, ResultLines) else {}
        config.pluginmanager.register(LimitedRun(session_of(config), session.items, earlier_s), LIMITED)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if not item.config.stash[STATE_KEY].recorded or ADOPTED_KEY in item.stash:
        return (yield)
    from pytest_nfvperf.plugin import phases, worker  # noqa: PLC0415

    limited = item.config.pluginmanager.get_plugin(LIMITED)
    if limited is not None and not limited.begins(item):
        return (yield)
    session = session_of(item.config)
    worker.wait_for_turn(item, session)
    phases.begin(item, session)
    try:
        result = yield
    except BaseException:
        phases.interrupted(item.config, session)
        raise
    phases.refuse_unrun(item, session)
    if session.interrupted:
        item.session.shouldstop = f"{session.interrupted} during a soak; its verdict is on what there was until then"
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _tolerating(item, "setup"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _tolerating(item, "call"))


def _tolerating(item: pytest.Item, phase: str) -> Generator[None, object, object]:
    if not _is_recorded(item):
        return (yield)
    from pytest_nfvperf.plugin import phases, selection  # noqa: PLC0415

    phases.refuse_unrecorded(item)
    session = session_of(item.config)
    if phase == "setup" and item.config.stash[STATE_KEY].recorded:
        phases.begin_setup(item, session)
        phases.refuse_unrecorded(item)
    with phases.tolerating(item, phase, session):
        selection.refuse_lacking(item)
        return (yield)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show SLA tables and testbed errors without a traceback through our code."""
    if not _is_recorded(item):
        report = yield
        explain_missing_fixture(report, item.config)
        return report
    from pytest_nfvperf.plugin import phases  # noqa: PLC0415

    session = session_of(item.config)
    if call.when == "call":
        with parts_of(item.config).isolated("figures cannot be compared with the last run"):
            session.compare_with_last()
        with parts_of(item.config).isolated("figures of a test are missing in the JUnit file"):
            item.user_properties.extend(session.junit_properties())
    if call.excinfo is not None and isinstance(call.excinfo.value, UnavailableError):
        skipped = pytest.skip.Exception(str(call.excinfo.value)).with_traceback(call.excinfo.tb)
        call.excinfo = pytest.ExceptionInfo.from_exception(skipped)
    report = yield
    explain_missing_fixture(report, item.config)
    phases.explain(item, call, report, session)
    found = phases.finish(item, report, session) if call.when == "teardown" else None
    if is_measuring(item) and not session.options.plan:
        attach(report, found)
    return report


def _is_recorded(item: pytest.Item) -> bool:
    # A plan has no evidence, but explains why its measuring tests fail or skip.
    return is_measuring(item) or item.config.stash[STATE_KEY].recorded


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show INCONCLUSIVE, BROKEN and USAGE in pytest's own lines; its counts stay."""
    if hasattr(report, "nfv_lost"):  # set by scheduler.py: the test is repeated on another worker
        return "lost", "L", "LOST"
    if not hasattr(report, "nfv_word"):  # set by failure_causes.py
        return None
    from pytest_nfvperf.plugin.failure_causes import status_of  # noqa: PLC0415

    return status_of(report)


def pytest_terminal_summary(config: pytest.Config) -> None:
    run_dir, terminal, parts = config.stash.get(RUN_DIR_KEY, None), terminal_of(config), parts_of(config)
    if run_dir is None or terminal is None or is_worker(config):
        return
    with parts.isolated("the summary cannot be shown", f"then: nfvperf show {run_dir}"):
        from pytest_nfvperf.plugin.run_result import summary  # noqa: PLC0415

        session = config.stash.get(SESSION_KEY, None)
        leftovers = session.backend.leftovers() if session is not None else []
        leftovers += run_end.ending(config).problems
        options, state = config.stash[OPTIONS_KEY], config.stash[STATE_KEY]
        if state.evidence is not None and state.conclusion is not None:
            concluded = state.evidence, state.conclusion
            summary(terminal, run_dir, options, leftovers, concluded, parts)
            state.summarized = True
    parts.show(terminal)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Take the testbed down after the fixtures, finish the evidence, and conclude the run."""
    with run_end.ending(session.config).finishing(session):
        with parts_of(session.config).isolated("the JUnit file may be missing"):
            make_junit_writable(session.config)
        try:
            return (yield)
        finally:
            _take_down_and_conclude(session)


class LastLine:
    """Writes the result of the run after all that other plugins write at the end."""

    def __init__(self, state: RunState) -> None:
        self._state = state

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        result = yield
        parts = parts_of(session.config)
        with parts.isolated("the end of the run cannot be shown"):
            signal_name = run_end.ending(session.config).signal_name
            if signal_name and self._state.conclusion is not None:
                from pytest_nfvperf.plugin.run_result import conclude_stopped  # noqa: PLC0415 - only after measuring

                # The signal came while the report was written: the report is written again, and says so.
                if conclude_stopped(session, self._state, signal_name):
                    self._state.summarized = False
            self._write(session.config, parts)
        return result

    def _write(self, config: pytest.Config, parts: EndParts) -> None:
        state, terminal, conclusion = self._state, terminal_of(config), self._state.conclusion
        if conclusion is None or terminal is None or terminal.verbosity < -1:
            parts.show()
            return
        if not state.summarized:
            pytest_terminal_summary(config)  # pytest shows none after an internal error
        parts.show(terminal)
        from pytest_nfvperf.plugin.run_result import last_line_markup  # noqa: PLC0415 - only after measuring

        shown = conclusion.without_reason if state.refused and _one_stream() else conclusion.last_line
        for line in folded(f"nfvperf: {shown}", terminal.width):
            terminal.write_line(line, bold=True, **last_line_markup(conclusion))
        if lost := terminal.lost():
            print(f"nfvperf: standard output takes no more: {lost}. {conclusion.last_line}", file=sys.stderr)


def _one_stream() -> bool:
    """Whether stdout and stderr are the same stream, as on a terminal: then one message suffices."""
    try:
        return os.path.sameopenfile(1, 2)
    except OSError:
        return False


def _take_down_and_conclude(session: pytest.Session) -> None:
    config, parts = session.config, parts_of(session.config)
    nfv = config.stash.get(SESSION_KEY, None)
    if nfv is not None:
        with parts.isolated("the run was not taken down as a whole", "nfvperf clean removes what is left"):
            nfv.close(int(session.exitstatus), config.stash[STATE_KEY].reason(session))
    if RUN_DIR_KEY in config.stash and not is_worker(config):
        from pytest_nfvperf.plugin.run_result import conclude_session  # noqa: PLC0415

        with run_end.ending(config).undisturbed(), parts.isolated("the run cannot be concluded"):
            conclude_session(session, int(session.exitstatus), config.stash[STATE_KEY])


def pytest_unconfigure(config: pytest.Config) -> None:
    parts = parts_of(config)
    if SESSION_KEY in config.stash:
        from pytest_nfvperf.plugin.session_factory import release_testbed  # noqa: PLC0415 - only after measuring

        with parts.isolated("the run was not taken down as a whole", "nfvperf clean removes what is left"):
            config.stash[SESSION_KEY].close(int(pytest.ExitCode.INTERRUPTED))
        with parts.isolated("the testbed was not given back"):
            release_testbed(config)
    run_end.unwatch(config)
    parts.show()


def session_of(config: pytest.Config) -> NfvSession:
    """The session of this process, made on first use.

    Raises:
        pytest.UsageError: the plugin is not loaded, or the testbed file cannot be used.
    """
    if OPTIONS_KEY not in config.stash:
        raise pytest.UsageError(NOT_LOADED)
    if SESSION_KEY not in config.stash:
        from pytest_nfvperf.plugin.session_factory import make_session  # noqa: PLC0415

        config.stash[SESSION_KEY] = make_session(config, config.stash[OPTIONS_KEY])
    return config.stash[SESSION_KEY]
