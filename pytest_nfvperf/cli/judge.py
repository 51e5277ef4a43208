"""``nfvperf judge``: a run as good, bad, or no answer, by the exit statuses of ``git bisect run``."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.cli.command import Command, path_like
from pytest_nfvperf.model.bisect.judging import Judged, VersionJudgement, judge
from pytest_nfvperf.model.errors import ConfigError, NfvperfError

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands

_SHORT = 12


def _add_parser(commands: Commands) -> None:
    text = "a run as good (0), bad (1) or no answer (125), for git bisect run"
    usage = "nfvperf judge RUN-DIR\n       nfvperf judge [--source DIR] [--results DIR] -- PYTEST-ARGUMENTS"
    parser = commands.add_parser("judge", help=text, description=text, usage=usage)
    parser.add_argument(
        "run", type=path_like, nargs="?", metavar="RUN-DIR", help="results directory of a run that has ended"
    )
    parser.add_argument("--source", type=path_like, metavar="DIR", help="test what is checked out in this tree of OVS")
    parser.add_argument("--without-dpdk", action="store_true", help="build that without DPDK")
    parser.add_argument(
        "--results", type=path_like, default=Path("reports/judge"), metavar="DIR", help="default: %(default)s"
    )
    parser.set_defaults(command=_judge)


JUDGE = Command(_add_parser, usage_status=int(Judged.CANNOT_TELL), takes_tests=True)


def _judge(arguments: argparse.Namespace) -> int:
    """Whatever goes wrong is no answer; any other status would convict the version that is being tested."""
    try:
        found = _judgement(arguments)
    except KeyboardInterrupt:
        found = VersionJudgement(Judged.STOP, "interrupted")
    except NfvperfError as error:
        found = VersionJudgement(Judged.CANNOT_TELL, f"cannot tell: {error}")
    except Exception as error:  # noqa: BLE001 - Python would end with 1, which means "bad"
        found = VersionJudgement(
            Judged.CANNOT_TELL, f"cannot tell: a fault of nfvperf: {type(error).__name__}: {error}"
        )
    print(f"nfvperf judge: {found.why}", flush=True)
    return int(found.judged)


def _judgement(arguments: argparse.Namespace) -> VersionJudgement:
    from pytest_nfvperf.adapters.bisecting.one_run import run_tests  # noqa: PLC0415 - each command imports its own
    from pytest_nfvperf.adapters.evidence.reader import conclude, read_run  # noqa: PLC0415

    run, tests = arguments.run, arguments.behind
    if (run is None) == (not tests):
        raise ConfigError("name a run's results directory, or write -- and then the arguments of pytest")
    if run is not None:
        return judge(conclude(read_run(run)))
    with _built(arguments) as where:
        chosen = [] if where is None else ["--nfv-ovs", where]
        return judge(run_tests([*tests, *chosen], _new_directory(arguments.results)))


@contextmanager
def _built(arguments: argparse.Namespace) -> Iterator[str | None]:
    """The name of the version that is checked out in ``--source``; what was built for it is removed at the end."""
    if arguments.source is None:
        yield None
        return
    from pytest_nfvperf.adapters.versions.adding import Asked, add  # noqa: PLC0415
    from pytest_nfvperf.adapters.versions.git_build import find_revision  # noqa: PLC0415
    from pytest_nfvperf.adapters.versions.registry import Registry  # noqa: PLC0415

    registry = Registry()
    commit = find_revision(arguments.source, "HEAD").commit
    name = f"judge-{commit[:_SHORT]}"
    asked = Asked("git:HEAD", name, source=arguments.source, dpdk=not arguments.without_dpdk)
    try:
        yield add(asked, registry).version.name
    finally:
        if registry.has(name):
            registry.remove(name)


def _new_directory(results: Path) -> Path:
    return next(path for number in itertools.count(1) if not (path := results / f"{number:03}").exists())
