"""Makes the session of a pytest process from its options, on one of the given testbeds that is free.

A lock (lease) holds the testbed. Workers of one run compete for the locks, so that one that replaces a killed worker
finds its testbed free. A worker of a run whose other workers hold all testbeds holds none, and runs tests that need
none. A process waits if other runs hold all testbeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_nfvperf.adapters.host.cpus import complete_testbed, discover_testbed
from pytest_nfvperf.adapters.ovs.installation import named_versions
from pytest_nfvperf.adapters.process.lock import Lease, holder_text, try_lease
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.adapters.report.terminal import progress_for
from pytest_nfvperf.backends.base import Backend
from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.config.testbed_file import load_testbed
from pytest_nfvperf.config.traffic_file import load_traffic
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from pytest_nfvperf.model.evidence.records import Cause
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.plugin.failure_causes import cause_of, location_in_test
from pytest_nfvperf.plugin.output import RESULT_LINES, other_results, say, terminal_of
from pytest_nfvperf.plugin.resume import evidence_id, resumed_name
from pytest_nfvperf.plugin.run_state import REMOTE_WORKER, run_directory
from pytest_nfvperf.plugin.selection import starts
from pytest_nfvperf.plugin.worker import OBSERVED, ROOM, TESTBED, channel_of
from pytest_nfvperf.ports.machine import Progress, Sink
from pytest_nfvperf.session.options import GivenTestbed, Options
from pytest_nfvperf.session.run import NfvSession
from pytest_nfvperf.session.slas import shown_location

if TYPE_CHECKING:
    from pytest_nfvperf.backends.foreign_datapaths import Makers

Say = Callable[[str], None]
LEASES_KEY = pytest.StashKey[list[Lease]]()
OWN_TESTBEDS = Point[Testbed]("testbed")
"""The testbed that an option implies, by the option."""
_INTERVAL_S, _LOCK_RUN_DIR_S = 0.2, 10.0


def make_session(config: pytest.Config, options: Options) -> NfvSession:
    """Read the testbed file and make the session; start nothing.

    Raises:
        pytest.UsageError: the testbed file cannot be used.
    """
    workerinput = getattr(config, "workerinput", {})
    if workerinput.get(REMOTE_WORKER):
        raise pytest.UsageError(
            "a worker on another machine, or with chdir=, would keep its results there: start a run on each machine, "
            "and bring the results together (nfvperf site)"
        )
    worker = "-".join(filter(None, (resumed_name(config), workerinput.get("workerid", ""))))
    run_dir = run_directory(config, options)
    try:
        file = options.traffic
        traffic = None if file is None else load_traffic(file, shown_location(str(file), options.root))
        given, is_held = _lease(config, options, run_dir)
        testbed = _testbed(config, options, given)
        backend = _backend(config, testbed, options)
    except (ConfigError, TestbedError) as error:
        raise pytest.UsageError(str(error)) from error
    except Exception as error:
        location = location_in_test(error, config.rootpath)  # in a hook of the project's conftest.py
        if not location or cause_of(error, "call") is Cause.INTERNAL:
            raise
        raise pytest.UsageError(f"{location}: {type(error).__name__}: {error}") from error
    sinks: list[Sink] = [exporter.sink(run_dir) for exporter in other_results(config)]
    channel = channel_of(config)
    session = NfvSession(options, backend, run_dir, worker, _progress(config), sinks, traffic)
    session.run_id = evidence_id(config, run_dir)
    if channel is not None:
        # Judge relations also by what other workers measured.
        session.measured.publish = partial(channel.send, OBSERVED)
        session.measured.receive = channel.observed_elsewhere
        if is_held:
            channel.send(TESTBED, (testbed.name, given.label if given else ""))
        elif given is None and session.can_share:
            # What a lost worker left takes room until it is reaped.
            channel.send(ROOM, max(1, backend.room()))
    return session


def _lease(config: pytest.Config, options: Options, run_dir: Path) -> tuple[GivenTestbed | None, bool]:
    """Lease the testbed to measure on until the process ends, one with this worker's label if possible.

    A run that starts nothing leases none, and reads the first file. ConfigError if none is free in time.

    Returns the testbed, None for the embedded one; and whether it is held: False where other workers hold all.
    """
    is_worker, leases = hasattr(config, "workerinput"), config.stash.setdefault(LEASES_KEY, [])
    if not starts(config, options) and not (options.setup_only and is_worker):
        return next(iter(options.testbeds), None), False
    if len(options.labels) > 1 and not is_worker:
        raise ConfigError(
            f"testbeds of {len(options.labels)} labels ({', '.join(options.labels)}) need a worker each: "
            f"add -n {len(options.labels)} (pytest-xdist)"
        )
    if is_worker:
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot be made: {error.strerror}", file=str(run_dir)) from error
    if not options.testbeds:
        return None, not is_worker or _hold(leases, run_dir)
    channel = channel_of(config)
    here = [given for given in options.testbeds if given.path.is_file()]
    # With no file here, the first one leads to the error message that names it.
    of_label = [given for given in here if given.label == (channel.wanted if channel else "")]
    choice = of_label or here or list(options.testbeds[:1])
    given = _lease_file(choice, leases, options.wait_s, run_dir if is_worker else None, partial(say, config))
    if given is None:
        return choice[0], False
    if is_worker:
        # Lock the run's directory, too: other workers that find no free testbed look there, perhaps right now.
        wait_until(lambda: _hold(leases, run_dir, shared=True), f"a lock on {run_dir}", _LOCK_RUN_DIR_S)
    return given, True


def _testbed(config: pytest.Config, options: Options, given: GivenTestbed | None) -> Testbed:
    if options.virtual_time:
        testbed = OWN_TESTBEDS.part("--nfv-virtual-time")
    elif given is not None:
        loaded, warnings = load_testbed(given.path)
        for text in warnings:
            try:
                config.issue_config_time_warning(UserWarning(text), stacklevel=2)
            except UserWarning as warning:
                why = "a warning, but `filterwarnings` or -W makes it an error"
                raise pytest.UsageError(f"{text} ({why})") from warning
        testbed = loaded if options.plan else complete_testbed(loaded)
    else:
        testbed = discover_testbed()
    if options.plan:
        return testbed
    sides = None if options.compare is None else options.compare.sides
    return replace(testbed, ovs=named_versions(testbed.ovs, options.ovs, sides))


def _backend(config: pytest.Config, testbed: Testbed, options: Options) -> Backend:
    # Imports are in here because a plan needs none of these adapters.
    if options.plan:
        return SimulatedBackend(testbed)
    of_plugin: Backend | None = config.hook.pytest_nfvperf_make_backend(config=config, testbed=testbed)
    if of_plugin is not None:
        return of_plugin
    if testbed.generator.engine == "replay":
        from pytest_nfvperf.backends.replay import ReplayBackend  # noqa: PLC0415

        return ReplayBackend(testbed)
    from pytest_nfvperf.adapters.ovs.nics import NIC_MAKERS  # noqa: PLC0415
    from pytest_nfvperf.backends.embedded_side import side_of  # noqa: PLC0415
    from pytest_nfvperf.backends.foreign_datapaths import merge_makers  # noqa: PLC0415
    from pytest_nfvperf.backends.local import LocalBackend  # noqa: PLC0415

    return LocalBackend(
        testbed,
        side_of(testbed),
        keep=options.keep,
        record=options.record,
        wait_s=options.wait_s,
        say=partial(say, config),
        nic_makers=merge_makers(
            "pytest_nfvperf_nic_makers", config.hook.pytest_nfvperf_nic_makers(config=config), NIC_MAKERS
        ),
        datapaths=datapath_makers(config),
    )


def datapath_makers(config: pytest.Config | None = None) -> Makers:
    """Third parties' makers of datapaths: those of a run, or that a pytest here would have (plugins, conftest.py)."""
    from pytest_nfvperf.backends.foreign_datapaths import merge_makers  # noqa: PLC0415 - a plan needs none

    config = config or pytest.Config.fromdictargs({}, [])
    return merge_makers("pytest_nfvperf_datapaths", config.hook.pytest_nfvperf_datapaths(config=config))


def _progress(config: pytest.Config) -> Progress:
    terminal = terminal_of(config)
    capture = config.pluginmanager.get_plugin("capturemanager")
    if terminal is None or capture is None or config.getoption("verbose") < 0:
        return Progress()
    lines = config.pluginmanager.get_plugin(RESULT_LINES)
    terminal.outlive_output()  # the live line has characters that a terminal may lack
    return progress_for(
        terminal.file,
        column=lambda: terminal.column,
        uncaptured=capture.global_and_fixture_disabled,
        run=lines.time_left if lines is not None else lambda: "",
    )


def release_testbed(config: pytest.Config) -> None:
    for lease in config.stash.get(LEASES_KEY, []):
        lease.close()


def _hold(leases: list[Lease], path: Path, *, shared: bool = False) -> bool:
    lease = try_lease(path, shared=shared)
    if lease is not None:
        leases.append(lease)
    return lease is not None


def _lease_file(
    choice: Sequence[GivenTestbed], leases: list[Lease], wait_s: float, run_dir: Path | None, say: Say
) -> GivenTestbed | None:
    """The first of these testbeds that is free; None if only other workers of this run hold testbeds.

    ``run_dir``: of the run, in one of its workers; None for a process without other workers.
    """

    def ended() -> list[GivenTestbed | None]:
        free = next((testbed for testbed in choice if _hold(leases, testbed.path)), None)
        if free is not None or run_dir is None:
            return [] if free is None else [free]
        unused = try_lease(run_dir)  # another worker that holds a testbed has locked it
        if unused is not None:
            unused.close()
        return [None] if unused is None else []

    if given := ended():
        return given[0]
    holders = "; ".join(f"{testbed.path.name} by {holder_text(testbed.path)}" for testbed in choice)
    if wait_s:
        say(f"waits up to {format_seconds(wait_s)} for a testbed that is free; in use: {holders}")
    try:
        return wait_until(ended, "a free testbed", wait_s, interval_s=_INTERVAL_S)[0]
    except DeadlineError as error:
        raise ConfigError(
            f"every testbed is in use: {holders}; wait longer (--nfv-wait), or give one more (--nfv-testbed)"
        ) from error
