"""``nfvperf bisect``: which of an ordered row of versions brought a change in?"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_nfvperf.cli.command import Command, path_like, share_like
from pytest_nfvperf.model.bisect.bisection import BisectionVerdict, VerdictKind
from pytest_nfvperf.model.bisect.seen import By, Question
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.evidence.conclusion import EXIT_STATUS, RunFate
from pytest_nfvperf.model.measure.instruction_cost import INSTRUCTIONS_PER_PACKET

if TYPE_CHECKING:
    from pytest_nfvperf.adapters.bisecting.candidates import Candidate
    from pytest_nfvperf.cli.command import Commands


FOUND, REFUSED, OPEN = 0, 1, EXIT_STATUS[RunFate.INCONCLUSIVE]
"""One version, confirmed; nothing to bisect; a range, several changes, or one version that was not confirmed."""


def _add_parser(commands: Commands) -> None:
    text = "which version between a good and a bad one brought a change in"
    usage = "nfvperf bisect --good A --bad B [--versions V ... | --source DIR] [options] -- PYTEST-ARGUMENTS"
    parser = commands.add_parser("bisect", help=text, description=text, usage=usage)
    parser.add_argument("--good", required=True, metavar="VERSION", help="as for --nfv-ovs; with --source a revision")
    parser.add_argument("--bad", required=True, metavar="VERSION", help="likewise")
    between = parser.add_mutually_exclusive_group(required=True)
    between.add_argument("--versions", nargs="*", metavar="V", help="what lies between them, in order")
    between.add_argument("--source", type=path_like, metavar="DIR", help="git tree of OVS: the commits between them")
    parser.add_argument("--without-dpdk", action="store_true", help="build commits without DPDK")
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


BISECT = Command(_add_parser, usage_status=EXIT_STATUS[RunFate.USAGE], takes_tests=True)


def _bisect(arguments: argparse.Namespace) -> int:
    """Ends with the statuses of docs/exit-status.md."""
    try:
        with _asked_to_end():
            return _run(arguments)
    except ConfigError as error:
        print(f"nfvperf: {error}", file=sys.stderr)
        return EXIT_STATUS[RunFate.USAGE]
    except TestbedError as error:
        print()  # ends the line of the step that was under way
        print(f"nfvperf: {error}\nWhat was seen is kept: the same command goes on with it.", file=sys.stderr)
        return EXIT_STATUS[RunFate.BROKEN]
    except OSError as error:
        print()
        where = f": {error.filename}" if error.filename else ""
        print(f"nfvperf: {error.strerror}{where}\nWhat was seen is kept: the same command goes on.", file=sys.stderr)
        return EXIT_STATUS[RunFate.BROKEN]
    except KeyboardInterrupt:
        print()
        print("nfvperf: interrupted. What was seen is kept: the same command goes on with it.", file=sys.stderr)
        return EXIT_STATUS[RunFate.INTERRUPTED]
    except Exception:  # noqa: BLE001 - Python would end with 1, which means that there is nothing to bisect
        print()
        traceback.print_exc()
        print("nfvperf: a fault of nfvperf, which says nothing of any version: please report it.", file=sys.stderr)
        return EXIT_STATUS[RunFate.INTERNAL]


@contextmanager
def _asked_to_end() -> Iterator[None]:
    """SIGTERM and a terminal that closes end us as Ctrl-C does: what runs for us is ended, and waited for.

    What is ignored stays so: nohup(1) means it.
    """
    asking = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in asking}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(arguments: argparse.Namespace) -> int:
    from pytest_nfvperf.adapters.bisecting.event_log import EventLog  # noqa: PLC0415 - each command imports its own
    from pytest_nfvperf.adapters.bisecting.installing import Installer  # noqa: PLC0415
    from pytest_nfvperf.adapters.bisecting.trials import MeasuredVersions  # noqa: PLC0415
    from pytest_nfvperf.adapters.versions.registry import Registry  # noqa: PLC0415
    from pytest_nfvperf.cli.bisect_account import BisectAccount  # noqa: PLC0415
    from pytest_nfvperf.runs.bisecting import bisect  # noqa: PLC0415

    if not arguments.behind:
        raise ConfigError("no tests are named: write -- and the arguments of pytest, such as -- suites/throughput")
    if arguments.metric and arguments.metric != INSTRUCTIONS_PER_PACKET and arguments.by is By.INSTRUCTIONS:
        raise ConfigError(f"--by instructions goes by {INSTRUCTIONS_PER_PACKET}: leave --metric out")
    if arguments.metric and arguments.by is By.OUTCOMES:
        raise ConfigError("--metric is a rate, and --by outcomes goes by none: leave one of them out")
    registry = Registry()
    candidates = _candidates(arguments, registry)
    question = Question(
        tuple(candidate.name for candidate in candidates),
        arguments.confidence,
        arguments.metric,
        arguments.by,
        arguments.most_blocks,
        arguments.smallest,
        counts=_counts(arguments),
    )
    asked = _asked(arguments, candidates, counts=question.counts)
    directory = arguments.log or Path("reports/bisect") / _key(asked)
    installer = Installer(registry, dpdk=not arguments.without_dpdk)
    trials = MeasuredVersions(candidates, installer, arguments.behind, directory / "runs")
    account = BisectAccount(question, {each.name: each.title for each in candidates}, arguments.behind)
    log = EventLog(directory, asked)
    try:
        account.open(directory, log.events)
        found = bisect(question, trials, log, account)
        account.end(directory, log.events, found)
    finally:
        log.close()
    installer.remove_built(candidates)
    assert isinstance(found.step, BisectionVerdict)
    return _status(found.step)


def _counts(arguments: argparse.Namespace) -> bool:
    """True where instructions are to be looked at: asked for, or not ruled out on a machine that can have a guest."""
    if arguments.by is By.INSTRUCTIONS:
        return True
    if arguments.by is not By.EITHER or arguments.metric not in {None, INSTRUCTIONS_PER_PACKET}:
        return False
    from pytest_nfvperf.adapters.guest.kernel_image import can_boot  # noqa: PLC0415 - each command imports its own

    return can_boot()


def _candidates(arguments: argparse.Namespace, registry: Any) -> list[Candidate]:
    from pytest_nfvperf.adapters.bisecting.candidates import commits, listed  # noqa: PLC0415

    if arguments.source is not None:
        return commits(arguments.source, arguments.good, arguments.bad)
    return listed(arguments.good, arguments.bad, arguments.versions, registry)


def _asked(arguments: argparse.Namespace, candidates: list[Candidate], *, counts: bool) -> dict[str, Any]:
    """What a log is about: the first lines of two logs are the same where what they hold may be mixed."""
    return {
        "versions": [each.commit.commit if each.commit else each.where for each in candidates],
        "arguments": arguments.behind,
        "metric": arguments.metric,
        "by": str(arguments.by),
        "counts": counts,
        "confidence": arguments.confidence,
        "smallest": arguments.smallest,
        "most_blocks": arguments.most_blocks,
        "dpdk": not arguments.without_dpdk,
    }


def _key(asked: dict[str, Any]) -> str:
    """The same question has the same directory, so the same command goes on."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]


def _status(verdict: BisectionVerdict) -> int:
    if verdict.kind is VerdictKind.REFUSED:
        return REFUSED
    return FOUND if verdict.kind is VerdictKind.FOUND and verdict.confirmed else OPEN
