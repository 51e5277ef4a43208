"""How long the tests take: ``python -m tests.times`` shows the last run beside the times that were kept.

Every run of the tests writes the seconds of each test into pytest's cache (tests/conftest.py). ``--keep`` makes them
the kept ones, ``tests/times.json``: the sum of each file, by which the workers take long files first, and the slowest
tests. A change that brings a slow test is seen by the difference.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests/times.json"
CACHE_KEY = "nfv/times"
_CACHED = ROOT / ".pytest_cache/v" / CACHE_KEY
_MOST = 50
_WORTH_SHOWING_S = 2.0
"""Of a file: smaller differences are the machine's."""


def by_file(times: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each file, the longest first, from those of its tests."""
    sums: dict[str, float] = defaultdict(float)
    for test, seconds in times.items():
        sums[test.split("::")[0]] += seconds
    return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def slowest(times: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(times.items(), key=lambda pair: -pair[1])[:_MOST])


def kept_files() -> dict[str, float]:
    """The kept seconds of each file; empty where none were kept yet."""
    return dict(json.loads(KEPT.read_text())["files"]) if KEPT.exists() else {}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.times", description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="keep the times of the last run, for the next comparison")
    asked = parser.parse_args(argv)
    if not _CACHED.exists():
        print("no times: run the tests first (make test)", file=sys.stderr)
        return 1
    times: dict[str, float] = json.loads(_CACHED.read_text())
    files, before = by_file(times), kept_files()
    for line in comparison(files, before):
        print(line)
    print(f"the {_MOST} slowest tests:")
    for test, seconds in slowest(times).items():
        print(f"{seconds:7.1f} s  {test}")
    if asked.keep:
        kept = {"files": _rounded(before | files), "slowest": _rounded(slowest(times))}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    return 0


def comparison(files: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """A line for each file whose time is new or has changed, the most seconds first, and one for their sum."""
    changed = {name: seconds - before.get(name, 0.0) for name, seconds in files.items()}
    shown = sorted((name for name in files if abs(changed[name]) >= _WORTH_SHOWING_S), key=lambda name: -changed[name])
    lines = [f"{files[name]:7.1f} s  {changed[name]:+7.1f} s  {name}" for name in shown]
    known = sum(before.get(name, 0.0) for name in files)
    return [*lines, f"{sum(files.values()):7.1f} s in {len(files)} files; the same files took {known:.1f} s when kept"]


def _rounded(times: Mapping[str, float]) -> dict[str, float]:
    return {name: round(seconds, 1) for name, seconds in sorted(times.items(), key=lambda pair: (-pair[1], pair[0]))}


if __name__ == "__main__":
    sys.exit(main())
