"""nfvperf bisect and nfvperf judge: their arguments and output."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nfvperf.cli.command import Command, add_datapath_option, path_like, share_like
from pytest_nfvperf.features.bisect.bisection import BisectionVerdict, VerdictKind
from pytest_nfvperf.features.bisect.events import By, Question, failed
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import RunConclusion, RunResult, TestResult
from pytest_nfvperf.model.measure.cpu_profile import INSTRUCTIONS_PER_PACKET
from pytest_nfvperf.model.testbed.ovs_settings import OVS

if TYPE_CHECKING:
    from pytest_nfvperf.cli.command import Commands

_FOUND, _REFUSED, _OPEN = 0, 1, RunResult.INCONCLUSIVE.exit_status
"""One version, confirmed; nothing to bisect; a range, several changes, or one version that was not confirmed."""
_RESUMABLE = "The measurements are kept: run the same command again to continue."


# ``nfvperf bisect``.


def _add_parser(commands: Commands) -> None:
    text = "which version between a good and a bad one brought a change in"
    usage = "nfvperf bisect --good A --bad B [--versions V ... | --source DIR] [options] -- PYTEST-ARGUMENTS"
    parser = commands.add_parser("bisect", help=text, description=text, usage=usage)
    parser.add_argument("--good", required=True, metavar="VERSION", help="as for --nfv-ovs; with --source a revision")
    parser.add_argument("--bad", required=True, metavar="VERSION", help="likewise")
    between = parser.add_mutually_exclusive_group(required=True)
    between.add_argument("--versions", nargs="*", metavar="V", help="what lies between them, in order")
    between.add_argument("--source", type=path_like, metavar="DIR", help="git tree: the commits between them")
    parser.add_argument("--without-dpdk", action="store_true", help="build commits without DPDK")
    add_datapath_option(parser)
    parser.add_argument("--metric", help="go by this metric only, such as forwarding_rate")
    parser.add_argument("--by", choices=[*By], default=By.EITHER, type=By, help="default: %(default)s")
    parser.add_argument(
        "--confidence", type=share_like("0.95 or 95%"), default=0.95, help="of the answer (default: %(default)s)"
    )
    parser.add_argument(
        "--smallest",
        type=share_like("0.95 or 95%"),
        default=0.005,
        help="least change of a rate (default: %(default)s)",
    )
    parser.add_argument("--most-blocks", type=int, default=32, help="of a version (default: %(default)s)")
    parser.add_argument(
        "--log", type=path_like, metavar="DIR", help="log, runs and page (default: one below reports/bisect)"
    )
    parser.set_defaults(command=_bisect)


BISECT = Command(_add_parser, usage_status=RunResult.USAGE.exit_status, takes_tests=True)


def _bisect(arguments: argparse.Namespace) -> int:
    """Run the bisection; exit statuses are in docs/reference/exit-status.md."""
    try:
        with _signals_as_ctrl_c():
            return _run(arguments)
    except ConfigError as error:
        print(f"nfvperf: {error}", file=sys.stderr)
        return RunResult.USAGE.exit_status
    except (TestbedError, OSError) as error:
        text = str(error)
        if isinstance(error, OSError):
            text = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
        print()  # ends the line of the current step
        print(f"nfvperf: {text}\n{_RESUMABLE}", file=sys.stderr)
        return RunResult.BROKEN.exit_status
    except KeyboardInterrupt:
        print()
        print(f"nfvperf: interrupted. {_RESUMABLE}", file=sys.stderr)
        return RunResult.INTERRUPTED.exit_status
    except Exception:  # noqa: BLE001 - Python would end with 1, which means that there is nothing to bisect
        print()
        traceback.print_exc()
        print("nfvperf: a fault of nfvperf, which says nothing of any version: please report it.", file=sys.stderr)
        return RunResult.INTERNAL.exit_status


@contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM and a closed terminal as Ctrl-C: end the children and wait for them.

    An ignored signal stays ignored, for nohup(1).
    """
    handled = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(options: argparse.Namespace) -> int:
    from pytest_nfvperf.features.bisect.account import BisectAccount  # noqa: PLC0415 - each command imports its own
    from pytest_nfvperf.features.bisect.candidates import Installer, commit_candidates, listed_candidates  # noqa: PLC0415
    from pytest_nfvperf.features.bisect.events import EventLog  # noqa: PLC0415 - each command imports its own
    from pytest_nfvperf.features.bisect.trials import MeasuredVersions, bisect  # noqa: PLC0415
    from pytest_nfvperf.features.versions.registry import Registry  # noqa: PLC0415

    if not options.behind:
        raise ConfigError("no tests are named: write -- and the arguments of pytest, such as -- suites/throughput")
    if options.metric and options.metric != INSTRUCTIONS_PER_PACKET and options.by is By.INSTRUCTIONS:
        raise ConfigError(f"--by instructions goes by {INSTRUCTIONS_PER_PACKET}: leave --metric out")
    if options.metric and options.by is By.OUTCOMES:
        raise ConfigError("--metric is a rate, and --by outcomes goes by none: leave one of them out")
    registry = Registry()
    if options.source is not None:
        candidates = commit_candidates(options.source, options.good, options.bad, options.datapath)
    else:
        ends = (options.good, options.bad)
        candidates = listed_candidates(*ends, options.versions, registry, options.datapath)
    names = tuple(candidate.name for candidate in candidates)
    counts = _counts(options.by, options.metric)
    asked = {name: getattr(options, name) for name in ("metric", "by", "confidence", "smallest", "most_blocks")}
    question = Question(names, counts_instructions=counts, **asked)
    # The first line of a log. Events may only be mixed with those of the same description.
    described = {
        "versions": [candidate.commit.commit if candidate.commit else candidate.where for candidate in candidates],
        "arguments": options.behind,
        **asked,
        "counts": counts,
        "dpdk": not options.without_dpdk,
        **({} if options.datapath == OVS else {"datapath": options.datapath}),
    }
    # The same question has the same directory, so the same command continues an earlier one.
    key = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:12]
    directory = options.log or Path("reports/bisect") / key
    installer = Installer(registry, dpdk=not options.without_dpdk, datapath=options.datapath)
    trials = MeasuredVersions(candidates, installer, options.behind, directory / "runs")
    account = BisectAccount(question, {candidate.name: candidate.title for candidate in candidates}, options.behind)
    with closing(EventLog(directory, described)) as log:
        account.begin(directory, log.events)
        state = bisect(question, trials.measure, log.events, log.append, account.step_begins, account.step_ended)
        account.end(directory, log.events, state)
    installer.remove_built(candidates)
    verdict = state.step
    assert isinstance(verdict, BisectionVerdict)
    if verdict.refused:
        return _REFUSED
    return _FOUND if verdict.kind is VerdictKind.FOUND and verdict.confirmed else _OPEN


def _counts(by: By, metric: str | None) -> bool:
    """True if instructions are to be compared: requested, or not excluded on a machine that can boot a guest."""
    if by is By.INSTRUCTIONS:
        return True
    if by is not By.EITHER or metric not in {None, INSTRUCTIONS_PER_PACKET}:
        return False
    from pytest_nfvperf.adapters.vnf.guest_kernel import can_boot  # noqa: PLC0415 - each command imports its own

    return can_boot()


# ``nfvperf judge``.


class Judged(IntEnum):
    """Exit statuses for ``git bisect run`` (git-bisect(1)); STOP ends the bisection, as all above 127 do."""

    GOOD = 0
    BAD = 1
    CANNOT_TELL = 125
    STOP = 130


def _add_judge_parser(commands: Commands) -> None:
    text = "a run as good (0), bad (1) or no answer (125), for git bisect run"
    usage = "nfvperf judge RUN-DIR\n       nfvperf judge [--source DIR] [--results DIR] -- PYTEST-ARGUMENTS"
    parser = commands.add_parser("judge", help=text, description=text, usage=usage)
    parser.add_argument(
        "run", type=path_like, nargs="?", metavar="RUN-DIR", help="results directory of a run that has ended"
    )
    parser.add_argument("--source", type=path_like, metavar="DIR", help="test what is checked out in this git tree")
    parser.add_argument("--without-dpdk", action="store_true", help="build that without DPDK")
    add_datapath_option(parser)
    parser.add_argument(
        "--results", type=path_like, default=Path("reports/judge"), metavar="DIR", help="default: %(default)s"
    )
    parser.set_defaults(command=_judge)


JUDGE = Command(_add_judge_parser, usage_status=int(Judged.CANNOT_TELL), takes_tests=True)


def _judge(arguments: argparse.Namespace) -> int:
    try:
        judged, why = _judgement(arguments)
    except KeyboardInterrupt:
        judged, why = Judged.STOP, "interrupted"
    # Any other status would blame the version under test.
    except (NfvperfError, OSError) as error:
        judged, why = Judged.CANNOT_TELL, f"cannot tell: {error}"
    except Exception as error:  # noqa: BLE001 - Python would end with 1, which means "bad"
        judged, why = Judged.CANNOT_TELL, f"cannot tell: a fault of nfvperf: {type(error).__name__}: {error}"
    print(f"nfvperf judge: {why}", flush=True)
    return int(judged)


def _judgement(arguments: argparse.Namespace) -> tuple[Judged, str]:
    """The judgement, and its reason in a line."""
    from pytest_nfvperf.adapters.evidence.reader import conclude, read_run  # noqa: PLC0415
    from pytest_nfvperf.features.bisect.trials import run_tests  # noqa: PLC0415 - each command imports its own

    run, tests = arguments.run, arguments.behind
    if (run is None) == (not tests):
        raise ConfigError("name a run's results directory, or write -- and then the arguments of pytest")
    if run is not None:
        return _judged(conclude(read_run(run)))
    with _built(arguments) as where:
        chosen = [] if where is None else ["--nfv-ovs", where]
        directories = (arguments.results / f"{number:03}" for number in itertools.count(1))
        return _judged(run_tests([*tests, *chosen], next(path for path in directories if not path.exists())))


def _judged(run: RunConclusion) -> tuple[Judged, str]:
    """Judge a version by a run. Only a failed test means bad: a rig, a skip or a mistake gives no answer."""
    if run.result is RunResult.INTERRUPTED:
        return Judged.STOP, run.last_line
    bad = [test for test in run.tests if failed(test)]
    if bad and run.result in {RunResult.FAILED, RunResult.BROKEN}:
        return Judged.BAD, f"bad: {bad[0].node_id}: {bad[0].full_reason or bad[0].reason}"
    if run.result not in {RunResult.ACCEPTED, RunResult.PASSED}:
        return Judged.CANNOT_TELL, f"cannot tell: {run.last_line}"
    inconclusive = [test for test in run.tests if test.tolerated]
    if inconclusive:
        return Judged.CANNOT_TELL, f"cannot tell: {inconclusive[0].node_id} was inconclusive"
    if not any(test.result is TestResult.PASSED for test in run.tests):
        return Judged.CANNOT_TELL, f"cannot tell: {run.headline}"
    return Judged.GOOD, f"good: {run.headline}"


@contextmanager
def _built(arguments: argparse.Namespace) -> Iterator[str | None]:
    """Build what is checked out in ``--source``, and remove it at the end; yields the version's name."""
    if arguments.source is None:
        yield None
        return
    from pytest_nfvperf.features.versions.git_build import find_revision  # noqa: PLC0415
    from pytest_nfvperf.features.versions.origins import add_version, known_versions  # noqa: PLC0415
    from pytest_nfvperf.features.versions.registry import Registry  # noqa: PLC0415

    registry = Registry()
    revision = find_revision(arguments.source, "HEAD", known_versions(arguments.datapath))
    name = f"judge-{revision.commit[:12]}"
    dpdk, datapath = not arguments.without_dpdk, arguments.datapath
    try:
        yield add_version("git:HEAD", registry, name, source=arguments.source, dpdk=dpdk, datapath=datapath)[0].name
    finally:
        if registry.has(name):
            registry.remove(name)
