"""Makes the session of a pytest process from its options, on a free one of the testbeds that were given.

A lock holds the testbed. Among workers of one run the locks decide, not their numbers: one that replaces a killed
worker finds its testbed free. A worker that finds none because others of its run have them holds none, and runs what
needs none. A process that finds all in use by other runs waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_nfvperf.adapters.evidence.writer import evidence_file
from pytest_nfvperf.adapters.host.cpus import discover_testbed, planned
from pytest_nfvperf.adapters.ovs.installation import NAMED_VERSIONS
from pytest_nfvperf.adapters.process.lock import Lease, Turn, holder_text, try_lease
from pytest_nfvperf.adapters.process.process import wait_until
from pytest_nfvperf.adapters.report.terminal_progress import SilentProgress, TerminalProgress, progress_for
from pytest_nfvperf.backends.base import Backend
from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.config.testbed_file import load_testbed
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.display import format_seconds
from pytest_nfvperf.model.errors import ConfigError, DeadlineError, TestbedError
from pytest_nfvperf.model.testbed.testbed import Testbed
from pytest_nfvperf.plugin.far_files import ALLURE, RUN, SendFiles
from pytest_nfvperf.plugin.other_results import other_results
from pytest_nfvperf.plugin.output import say, terminal_of
from pytest_nfvperf.plugin.resuming import resumed_name
from pytest_nfvperf.plugin.run_state import run_directory
from pytest_nfvperf.plugin.selection import starts
from pytest_nfvperf.plugin.worker import run_dir_of_worker, share
from pytest_nfvperf.plugin.worker_channel import channel_of
from pytest_nfvperf.ports.evidence import Sink
from pytest_nfvperf.session.comparing import Comparison
from pytest_nfvperf.session.deploying import FreshDeployer
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
        deploy = FreshDeployer(session)
        session.comparison = Comparison(
            options.compare,
            options,
            session.profile,
            backend.estimate_search_s,
            deploy,
            deploy.streams,
            lambda: session.rig.close(),  # noqa: PLW0108 - there is no rig yet
        )
    _join_run(config, session, taken)
    return session


def _join_run(config: pytest.Config, session: NfvSession, taken: Taken) -> None:
    """A worker of a run tells its controller which testbed it holds, and shares what it measures."""
    channel = channel_of(config)
    if channel is None:
        return
    share(session, channel)
    if taken.held:
        channel.report_testbed(session.backend.testbed.name, taken.given.label if taken.given else "")
    elif taken.given is None and session.machine.can_share:
        channel.report_room(max(1, session.machine.room()))  # what a lost worker left takes room until it is reaped


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
    channel = channel_of(config)
    siblings_in = run_dir_of_worker(config, run_dir)
    return take_testbed(config, options, channel.wanted if channel else "", siblings_in, partial(say, config))


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
    from pytest_nfvperf.adapters.ovs.nics import with_makers  # noqa: PLC0415 - as below
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
    channel = channel_of(config)
    if channel is None or not config.workerinput["nfv_far"]:  # type: ignore[attr-defined]
        return []
    allure = config.getoption("--alluredir", None)
    folders = {RUN: run_dir} | ({ALLURE: Path(allure)} if allure else {})
    return [SendFiles(channel, evidence_file(run_dir, worker), folders)]


class LeasedPlace(Protocol):
    """A place of a pool of testbeds that is wanted, then held.

    Attributes:
        waits: none is free, and this one is in the queue.
    """

    waits: bool

    def poll(self) -> str:
        """The name of the place, "" as long as there is none yet; ConfigError where there cannot be one."""
        ...

    def close(self) -> None:
        """Release it, or leave the queue. Can be called twice."""
        ...


PLACES = Point[Callable[[str], LeasedPlace]]("places")
"""What leases a place with these tags, by who has the pool."""

LEASES_KEY = pytest.StashKey[list[Lease | LeasedPlace]]()


_INTERVAL_S, _MARK_S = 0.2, 10.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What a process got. ``given``: None for the embedded testbed. ``held``: False where its siblings have all."""

    given: GivenTestbed | None
    held: bool


def take_testbed(
    config: pytest.Config, options: Options, wanted: str, run_dir: Path | None, say: Callable[[str], None]
) -> Taken:
    """Lease a testbed until the process ends.

    Args:
        config: of this process, which keeps the lease.
        options: have the testbeds, and how long to wait for one.
        wanted: label of those to look at first.
        run_dir: of the run that this process is a worker of, with siblings; None for a process that has none.
        say: tells the user that it waits.

    Raises:
        ConfigError: there is no such testbed, or none became free in time.
    """
    leases = config.stash.setdefault(LEASES_KEY, [])
    if not options.testbeds:
        return Taken(None, run_dir is None or _hold(leases, run_dir))
    choice = _choice(options.testbeds, wanted)
    if choice[0].tags:
        taken = _lease_place(choice[0], leases, options.wait_s, run_dir, say)
    else:
        taken = _first_free(choice, leases)
        if taken is None and not _siblings_hold(run_dir):
            taken = _wait(choice, leases, options.wait_s, run_dir, say)
    if taken is None:
        return Taken(choice[0], held=False)
    if run_dir is not None:
        _tell_siblings(leases, run_dir)
    return Taken(taken, held=True)


def give_back(config: pytest.Config) -> None:
    """Let go of what this process holds."""
    for lease in config.stash.get(LEASES_KEY, []):
        lease.close()


def _choice(testbeds: Sequence[GivenTestbed], wanted: str) -> list[GivenTestbed]:
    """Those of the wanted label, as far as this machine has them; else all that it has; else the first, to say so."""
    here = [testbed for testbed in testbeds if testbed.path.is_file() or (testbed.tags and testbed.path.is_dir())]
    return [testbed for testbed in here if testbed.label == wanted] or here or list(testbeds[:1])


def _first_free(choice: Sequence[GivenTestbed], leases: list[Lease | LeasedPlace]) -> GivenTestbed | None:
    return next((testbed for testbed in choice if _hold(leases, testbed.path)), None)


def _hold(leases: list[Lease | LeasedPlace], place: Path, *, shared: bool = False) -> bool:
    lease = try_lease(place, shared=shared)
    if lease is not None:
        leases.append(lease)
    return lease is not None


def _tell_siblings(leases: list[Lease | LeasedPlace], run_dir: Path) -> None:
    """Hold the run's directory, too: a sibling that finds no free testbed looks there. It may be looking right now."""
    wait_until(lambda: _hold(leases, run_dir, shared=True), f"a lock on {run_dir}", _MARK_S)


def _siblings_hold(run_dir: Path | None) -> bool:
    """True when another worker of this run holds a testbed."""
    if run_dir is None:
        return False
    lease = try_lease(run_dir)
    if lease is not None:
        lease.close()
    return lease is None


def _wait(
    choice: Sequence[GivenTestbed],
    leases: list[Lease | LeasedPlace],
    wait_s: float,
    run_dir: Path | None,
    say: Callable[[str], None],
) -> GivenTestbed | None:
    holders = "; ".join(f"{testbed.path.name} by {holder_text(testbed.path)}" for testbed in choice)
    if wait_s:
        say(f"waits up to {format_seconds(wait_s)} for a testbed that is free; in use: {holders}")
    found: list[GivenTestbed] = []

    def ended() -> bool:
        found.extend(filter(None, [_first_free(choice, leases)]))
        return bool(found) or _siblings_hold(run_dir)

    try:
        wait_until(ended, "a free testbed", wait_s, interval_s=_INTERVAL_S)
    except DeadlineError as error:
        raise ConfigError(
            f"every testbed is in use: {holders}; wait longer (--nfv-wait), or give one more (--nfv-testbed)"
        ) from error
    return found[0] if found else None


def _lease_place(
    given: GivenTestbed,
    leases: list[Lease | LeasedPlace],
    wait_s: float,
    run_dir: Path | None,
    say: Callable[[str], None],
) -> GivenTestbed | None:
    """A place of labgrid's and its testbed file; None while none is free but what siblings hold."""
    lease = PLACES.part("labgrid")(given.tags)
    leases.append(lease)
    said: list[str] = []

    def ended() -> bool:
        place = lease.poll()
        if lease.waits and not said and not _siblings_hold(run_dir):
            said.append(f"waits up to {format_seconds(wait_s)} for a place of labgrid with {given.tags}")
            say(said[0])
        return bool(place) or (lease.waits and _siblings_hold(run_dir))

    try:
        wait_until(ended, f"a place of labgrid with {given.tags}", wait_s, interval_s=_INTERVAL_S)
    except DeadlineError as error:
        lease.close()
        raise ConfigError(
            f"no place of labgrid with {given.tags} became free: `labgrid-client who` lists who has them; wait longer "
            "(--nfv-wait)"
        ) from error
    place = lease.poll()
    if not place:
        lease.close()
        return None
    file = given.path / f"{place}.yaml"
    if not file.is_file():
        lease.close()
        raise ConfigError(f"labgrid leased the place '{place}', which has no testbed file here", file=str(file))
    return replace(given, path=file, tags="")
