#!/usr/bin/env python3
"""``.ci/tests.py TARGET [--begin-until TIME]``: ``make TARGET`` (``test``, ``test-kernel``), failed tests once more.

The tests kill processes, cut links and measure packets on machines that others use, too. One that fails among
thousands and passes without the others was disturbed, or has a race that somebody should find: it is listed as flaky,
to be mended or marked daily, and does not refuse a change. Up to MOST are run again, those that fail once more a last
time; one that fails each time refuses the change, and so do more than MOST.

No test begins after TIME, in seconds since 1970: tests/conftest.py skips it and says why.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MOST = 3
TURNS = 2
MOST_S = 900
"""Of a turn. What hangs would use up the gate's time."""
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
BEGIN_UNTIL = "NFV_TESTS_BEGIN_UNTIL"


def main() -> int:
    """The exit status of the gate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--begin-until", default="", metavar="TIME")
    asked = parser.parse_args()
    ended = _make(asked.target, asked.begin_until)
    if ended == "":
        return 0
    if not ended.endswith("Error 1"):  # pytest's status 1: tests failed, and all of them ran
        return _say("the tests did not run to their end: none is run again")
    failed = _last_failed()
    if not 0 < len(failed) <= MOST:
        return _say(f"{len(failed)} tests failed: they are not run again (1 to {MOST} are)")
    return _turns(failed)


def _turns(failed: Sequence[str]) -> int:
    """Run them again, and those that fail in a turn in the next: 0 when each has passed once."""
    for _ in range(TURNS):
        # Without the last end for a test to begin: one that is skipped here would have passed.
        again = _pytest(failed)
        still = _last_failed() if again == 1 else []
        if again not in {0, 1} or not set(still) <= set(failed):
            return _say(f"the failed tests could not be run again (exit status {again})")
        for name in sorted(set(failed) - set(still)):
            print(f"=== FLAKY, failed once and passed without the others: {name}", flush=True)
        if not still:
            return 0
        failed = still
    return _say(f"failed {TURNS + 1} times: {', '.join(failed)}")


def _last_failed() -> list[str]:
    return list(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []


def _pytest(names: Sequence[str]) -> int:
    """Exit status of pytest, 124 where it was ended because it took too long."""
    LAST_FAILED.unlink(missing_ok=True)
    command = [".venv/bin/python", "-m", "pytest", *names]
    try:
        return subprocess.run(command, check=False, timeout=MOST_S).returncode
    except subprocess.TimeoutExpired:
        return 124


def _make(target: str, begin_until: str) -> str:
    """What make says at the end; "" where all passed. Prints everything as it comes."""
    LAST_FAILED.unlink(missing_ok=True)  # of another target, or of a run by hand
    env = {**os.environ, BEGIN_UNTIL: begin_until}
    # Within a make of its own (a test runs this), the last line would be "Leaving directory".
    command = ["make", "--no-print-directory", target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True) as make:
        last = ""
        for line in make.stdout or ():
            print(line, end="", flush=True)
            last = line.strip() or last
    return "" if make.returncode == 0 else last


def _say(what: str) -> int:
    print(f"=== {what}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
