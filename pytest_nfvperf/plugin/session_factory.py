"""Makes the session of a pytest process from its options."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_nfvperf.adapters.evidence.writer import evidence_file
from pytest_nfvperf.adapters.host.cpus import discover_testbed, planned
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import NAMED_VERSIONS
from pytest_nfvperf.adapters.process.lock import Turn
from pytest_nfvperf.adapters.report.terminal_progress import SilentProgress, TerminalProgress, progress_for
from pytest_nfvperf.backends.base import Backend
from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.config.testbed_file import load_testbed
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.plugin.collection import starts
from pytest_nfvperf.plugin.far_files import ALLURE, RUN, SendFiles
from pytest_nfvperf.plugin.leasing import Taken, take_testbed
from pytest_nfvperf.plugin.link import link_of
from pytest_nfvperf.plugin.other_results import other_results
from pytest_nfvperf.plugin.resuming import resumed_name
from pytest_nfvperf.plugin.rundir import run_directory
from pytest_nfvperf.plugin.telling import say, terminal_of
from pytest_nfvperf.plugin.worker import run_dir_of_worker, share
from pytest_nfvperf.ports.evidence import Sink
from pytest_nfvperf.session.options import GivenTestbed, Options
from pytest_nfvperf.session.run import NfvSession

if TYPE_CHECKING:
    from pytest_nfvperf.backends.generator_side import GeneratorSide

OWN_TESTBEDS = Point[Testbed]("testbed")
"""Those that come with an option, by the option."""


def make_session(config: pytest.Config, options: Options) -> NfvSession:
    """The session; reads the testbed file, starts nothing.

    Raises:
        pytest.UsageError: the testbed file cannot be used.
    """
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    worker = "-".join(filter(None, (resumed_name(config), worker)))
    run_dir = run_directory(config, options)
    try:
        taken = _take(config, options, run_dir)
        testbed = _testbed(config, options, taken.given)
        backend = _backend(config, testbed, options)
    except (ConfigError, TestbedError) as error:
        raise pytest.UsageError(str(error)) from error
    sinks = [*(results.sink(run_dir) for results in other_results(config)), *_far_sink(config, run_dir, worker)]
    session = NfvSession(options, backend, run_dir, worker, _progress(config), sinks)
    if options.compare is not None:
        from pytest_nfvperf.session.comparing import Comparison  # noqa: PLC0415 - only for who compares

        session.comparison = Comparison(session, options.compare)
    _join_run(config, session, taken)
    return session


def _join_run(config: pytest.Config, session: NfvSession, taken: Taken) -> None:
    """A worker of a run tells its controller which testbed it holds, and shares what it measures."""
    link = link_of(config)
    if link is None:
        return
    share(session, link)
    if taken.held:
        link.tell_testbed(session.backend.testbed.name, taken.given.label if taken.given else "")
    elif taken.given is None and session.machine.can_share:
        link.tell_room(max(1, session.machine.room()))  # what a lost worker left takes room until it is reaped


def _take(config: pytest.Config, options: Options, run_dir: Path) -> Taken:
    """The testbed to measure on; who starts nothing takes none, and looks at the first."""
    if not starts(config, options):
        first = next((given for given in options.testbeds if not given.tags), None)
        return Taken(first, held=False)  # which place labgrid will lease is not known: a plan is for any
    if len(options.labels) > 1 and not hasattr(config, "workerinput"):
        raise ConfigError(
            f"testbeds of {len(options.labels)} labels ({', '.join(options.labels)}) need a worker each: "
            f"add -n {len(options.labels)} (pytest-xdist)"
        )
    link = link_of(config)
    siblings_in = run_dir_of_worker(config, run_dir)
    return take_testbed(config, options, link.wanted if link else "", siblings_in, partial(say, config))


def _warn(config: pytest.Config, text: str) -> None:
    """Warn of what is doubtful; where warnings are errors, it is a usage error."""
    try:
        config.issue_config_time_warning(UserWarning(text), stacklevel=2)
    except UserWarning as warning:
        raise pytest.UsageError(f"{text} (a warning, but `filterwarnings` or -W makes it an error)") from warning


def _testbed(config: pytest.Config, options: Options, taken: GivenTestbed | None) -> Testbed:
    if options.virtual_time:
        testbed = OWN_TESTBEDS.part("--nfv-virtual-time")
    elif taken is not None:
        given, warnings = load_testbed(taken.path)
        for warning in warnings:
            _warn(config, warning)
        testbed = given if options.plan else planned(given)
    else:
        testbed = discover_testbed()
    if options.plan:
        return testbed
    sides = None if options.compare is None else options.compare.sides
    return replace(testbed, ovs=NAMED_VERSIONS.part("--nfv-ovs")(testbed.ovs, options.ovs, sides))


def _backend(config: pytest.Config, testbed: Testbed, options: Options) -> Backend:
    if options.plan:
        return SimulatedBackend(testbed)
    made: Backend | None = config.hook.pytest_nfvperf_make_backend(config=config, testbed=testbed)
    if made is not None:
        return made
    if testbed.generator.engine == "replay":
        from pytest_nfvperf.backends.replay import ReplayBackend  # noqa: PLC0415 - as below

        return ReplayBackend(testbed)
    from pytest_nfvperf.adapters.ovs.topology.nic_makers import with_makers  # noqa: PLC0415 - as below
    from pytest_nfvperf.backends.foreign_datapaths import all_makers  # noqa: PLC0415 - as below
    from pytest_nfvperf.backends.local import LocalBackend  # noqa: PLC0415 - a plan needs none of its adapters

    return LocalBackend(
        testbed,
        _generator_side(testbed),
        keep=options.keep,
        record=options.record,
        turn=Turn(options.wait_s, partial(say, config)),
        nic_makers=with_makers(config.hook.pytest_nfvperf_nic_makers(config=config)),
        datapaths=all_makers(config.hook.pytest_nfvperf_datapaths(config=config)),
    )


def _generator_side(testbed: Testbed) -> GeneratorSide:
    if testbed.generator.engine != "embedded":
        from pytest_nfvperf.backends.generator_side import FEATURE_ENGINES  # noqa: PLC0415 - as below

        return FEATURE_ENGINES.part(testbed.generator.engine).side(testbed)
    from pytest_nfvperf.backends.embedded_side import EmbeddedSide  # noqa: PLC0415 - a plan needs none of its adapters

    return EmbeddedSide(testbed)


def _progress(config: pytest.Config) -> SilentProgress | TerminalProgress:
    terminal = terminal_of(config)
    capture = config.pluginmanager.get_plugin("capturemanager")
    if terminal is None or capture is None or config.getoption("verbose") < 0:
        return SilentProgress()
    terminal.outlive_output()  # the live line has characters that a terminal may lack
    return progress_for(
        terminal.file,
        column=lambda: terminal.column,
        uncaptured=capture.global_and_fixture_disabled,
    )


def _far_sink(config: pytest.Config, run_dir: Path, worker: str) -> list[Sink]:
    """Sends the files of a worker on another machine to its controller."""
    link = link_of(config)
    if link is None or not config.workerinput["nfv_far"]:  # type: ignore[attr-defined]
        return []
    allure = config.getoption("--alluredir", None)
    folders = {RUN: run_dir} | ({ALLURE: Path(allure)} if allure else {})
    return [SendFiles(link, evidence_file(run_dir, worker), folders)]
