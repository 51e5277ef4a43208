"""``python3 -m tests.fresh [--some | --whole] [RELEASE...]``: set-up, tests, a measurement in fresh roots.

It needs no package of Python's. All tests run in the roots of other releases than the machine's own, on which
``make test`` runs; ``--some`` and ``--whole`` say otherwise. In the first release the tutorial is tried, too: its
commands, in a root that has nothing, up to a green and a red gate. ``--tutorial`` tries nothing else.

Each release has a mount and a process namespace of its own (namespaces.py), and its root is in memory: whatever ends
this process, kill -9 too, ends all that runs there, and leaves nothing but the cache.
"""

from __future__ import annotations

import argparse
import fcntl
import signal
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from tests.fresh.namespaces import run_contained
from tests.fresh.plan import RELEASES, machines_release
from tests.fresh.roots import BARE, FreshError, cache_directory, cached_root


def main(argv: Sequence[str] | None = None) -> int:
    """Try each release; returns the exit status, 0 when all that was tried passed."""
    parser = argparse.ArgumentParser(prog=".ci/fresh", description=__doc__)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"of {', '.join(RELEASES)}; all by default")
    how_much = parser.add_mutually_exclusive_group()
    how_much.add_argument("--whole", action="store_true", help="run the whole test suite in each, 20 minutes")
    how_much.add_argument("--some", action="store_true", help="run some of the tests in each, a minute")
    how_much.add_argument("--tutorial", action="store_true", help="run only the tutorial, in each, four minutes")
    asked = parser.parse_args(argv)
    releases = asked.releases or list(RELEASES)
    unknown = [release for release in releases if release not in RELEASES]
    if unknown:
        parser.error(f"no release {', '.join(unknown)}: known are {', '.join(RELEASES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the namespace is ended first
    try:
        with _only_one():
            failed = [release for release in releases if not _try(release, _what(release, releases[0], asked))]
    except FreshError as error:
        print(f"fresh: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fresh: interrupted; nothing is left", file=sys.stderr)
        return 130
    print(f"fresh: {', '.join(failed)} failed" if failed else f"fresh: passed in {', '.join(releases)}")
    return 1 if failed else 0


def _what(release: str, first: str, asked: argparse.Namespace) -> frozenset[str]:
    """What is tried in a release: "some" or "whole" of the tests, and the "tutorial"."""
    if asked.tutorial:
        return frozenset({"tutorial"})
    whole = asked.whole or (release != machines_release() and not asked.some)
    return frozenset({"whole" if whole else "some"}) | ({"tutorial"} if release == first else frozenset())


def _try(release: str, what: frozenset[str]) -> bool:
    started = time.monotonic()
    print(f"== {release}", flush=True)
    archives = [cached_root(release), *([cached_root(release, BARE)] if "tutorial" in what else [])]
    print(f"-- {release}: roots: {', '.join(map(str, archives))} ({time.monotonic() - started:.0f} s)", flush=True)
    words = [release, ",".join(sorted(what)), *map(str, archives)]
    status = run_contained([sys.executable, "-m", "tests.fresh.inside", *words])
    print(f"== {release}: {'passed' if status == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True)
    return status == 0


def _only_one() -> TextIO:
    """Two gates at once would take each other's hugepages, CPUs and packages."""
    lock = (cache_directory() / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FreshError(f"another .ci/fresh runs (it holds {lock.name})") from error
    return lock


if __name__ == "__main__":
    sys.exit(main())
