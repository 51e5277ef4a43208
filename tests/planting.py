"""``python -m tests.planting``: plants a change in a row of real commits, for a bisection to find.

A clone of a tree of Open vSwitch gets a branch of the patch's name: the commits up to a chosen one, then the patch (of
tests/data/planted) as one more commit, then the rest of the row on top of it. Whoever bisects the branch knows what to
find. Several patches can go into one clone, whose builds then share what they compile. The tree that is cloned is only
read. docs/explanation/what-was-tried.md has bisections that were made so.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.model.errors import ConfigError, TestbedError

PATCHES = Path(__file__).parent / "data" / "planted"
_DEADLINE_S = 120.0
_WHO = ("-c", "user.name=nfvperf", "-c", "user.email=nfvperf@example.org")


@dataclass(frozen=True, slots=True)
class Planted:
    """A row with a planted change. ``culprit``: the commit that has it; ``commits``: of it and all on top of it."""

    tree: Path
    branch: str
    culprit: str
    commits: int


def plant(source: Path, into: Path, patch: Path, *, after: str, until: str) -> Planted:
    """Make the branch.

    Args:
        source: a git tree of Open vSwitch, a bare one too.
        into: the clone; it is made where it is not there.
        patch: as ``git format-patch`` writes it.
        after: the commit that becomes the culprit's parent.
        until: the last commit of the row; ``after`` leads to it.

    Raises:
        ConfigError: ``into`` is there and no clone, or ``after`` does not lead to ``until``.
        TestbedError: git cannot clone, apply the patch, or put the rest on top of it; with what it said.
    """
    if into.exists() and not (into / ".git").is_dir():
        raise ConfigError(f"{into} is there already, and is no clone: name another directory")
    if not into.exists():
        _git("clone", "--quiet", "--shared", "--no-checkout", str(source.resolve()), str(into))
    ours = ("-C", str(into), *_WHO)
    parent, last = (_git(*ours, "rev-parse", "--verify", f"{each}^{{commit}}").strip() for each in (after, until))
    if _git(*ours, "rev-list", "--max-count=1", parent, f"^{last}").strip():
        raise ConfigError(f"--after {after} does not lead to --until {until}")
    _git(*ours, "checkout", "--quiet", "-B", patch.stem, parent)
    _git(*ours, "am", "--quiet", str(patch.resolve()))
    culprit = _git(*ours, "rev-parse", "HEAD").strip()
    rest = _git(*ours, "rev-list", "--reverse", f"{parent}..{last}").split()
    if rest:
        _git(*ours, "cherry-pick", "--allow-empty", *rest)
    return Planted(into, patch.stem, culprit, len(rest) + 1)


def _git(*arguments: str) -> str:
    try:
        return run(["git", *arguments], deadline_s=_DEADLINE_S)
    except TestbedError as error:
        raise TestbedError(f"{error.message}: {error.evidence.get('stderr', '').strip()}") from error


def main() -> int:
    """Plant, and say which commit has it."""
    parser = argparse.ArgumentParser(prog="python -m tests.planting", description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="git tree of Open vSwitch; it is only read")
    parser.add_argument("--into", type=Path, required=True, help="the clone; made where it is not there")
    parser.add_argument("--after", required=True, help="the culprit's parent")
    parser.add_argument("--until", required=True, help="the last commit of the row")
    parser.add_argument("patch", choices=sorted(each.stem for each in PATCHES.glob("*.patch")))
    given = parser.parse_args()
    try:
        made = plant(given.source, given.into, PATCHES / f"{given.patch}.patch", after=given.after, until=given.until)
    except (ConfigError, TestbedError) as error:
        print(f"planting: {error}", file=sys.stderr)
        return 1
    print(f"planted {given.patch} as {made.culprit[:12]}, with {made.commits - 1} commits on top, in {made.tree}")
    print(f"nfvperf bisect --good GOOD --bad {made.branch} --source {made.tree} -- PYTEST-ARGUMENTS")
    return 0


if __name__ == "__main__":
    sys.exit(main())
