"""Candidates of a bisection: the versions between two ends, and how one is installed."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.ovs.installation import locate
from pytest_nfvperf.adapters.process.lock import Lease
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.features.versions.adding import GIT, Asked, add
from pytest_nfvperf.features.versions.git_build import Revision, find_revision
from pytest_nfvperf.features.versions.registry import Registry, resolved
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs

# Listing the candidates in order: the user's list, or the commits of a git tree.

_GIT_DEADLINE_S = 120.0
_SHORT = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version: a listed one has ``where``, as for --nfv-ovs; one of a git tree has ``commit`` and its ``title``."""

    name: str
    where: str = ""
    commit: Revision | None = None
    title: str = ""


def listed(good: str, bad: str, between: Sequence[str], registry: Registry) -> list[Candidate]:
    """Versions as for ``--nfv-ovs``: "installed", the name of a kept one, the path of a prefix or root.

    Raises:
        ConfigError: one is given twice, or is neither kept nor a path.
    """
    wheres = [good, *between, bad]
    places: dict[str | None, str] = {}
    for where in wheres:
        if "/" in where and not Path(where).is_dir():
            raise ConfigError(
                f"{where!r} is no directory: name a kept version (`nfvperf ovs list`), a prefix or a root"
            )
        place = resolved(NamedOvs(where, where), registry).prefix
        if place in places:
            raise _equal(places[place], where, good, bad)
        places[place] = where
    parts = Counter(map(_last_part, wheres))  # a version is called by its last part where no other has the same
    return [Candidate(_last_part(where) if parts[_last_part(where)] == 1 else where, where) for where in wheres]


def _equal(one: str, other: str, good: str, bad: str) -> ConfigError:
    if {one, other} == {good, bad}:
        return ConfigError(f"--good and --bad are the same version, {one!r}: give two that differ")
    same = one if one == other else f"{one} and {other}"
    return ConfigError(f"{same} is in the list twice: --versions has what lies between --good and --bad, each once")


def _last_part(where: str) -> str:
    return where.rstrip("/").rpartition("/")[2] or where


def commits(source: Path, good: str, bad: str) -> list[Candidate]:
    """The good commit, and those that lead from it to the bad one by first parents.

    A merge counts as one version: what it brought in is in it.

    Raises:
        ConfigError: no tree of Open vSwitch, an unknown revision, equal or swapped ends, ends that do not lead from one
            to the other, or changes that are not committed where an end is what is checked out.
    """
    first, last = find_revision(source, good), find_revision(source, bad)
    if first.commit == last.commit:
        raise ConfigError(f"--good {good} and --bad {bad} are the same commit, {first.commit[:_SHORT]}")
    if not _leads(first.tree, first.commit, last.commit):
        if _leads(first.tree, last.commit, first.commit):
            raise ConfigError(f"--bad {bad} is older than --good {good}: exchange them")
        raise ConfigError(
            f"--good {good} does not lead to --bad {bad}: they are of different branches. Their common ancestor is "
            f"{_git(first.tree, 'merge-base', first.commit, last.commit)[:_SHORT]}"
        )
    row = _git(first.tree, "rev-list", "--first-parent", "--reverse", f"{first.commit}..{last.commit}").split()
    lines = _git(first.tree, "log", "--no-walk=unsorted", "--format=%H %s", first.commit, *row).splitlines()
    titles = {commit: title for commit, _, title in (line.partition(" ") for line in lines)}
    return [
        Candidate(commit[:_SHORT], commit=Revision(first.tree, commit), title=titles[commit])
        for commit in (first.commit, *row)
    ]


def _leads(tree: Path, ancestor: str, commit: str) -> bool:
    """True where ``ancestor`` is one; git exits with 1 where it is not."""
    return not _git(tree, "rev-list", "--max-count=1", ancestor, f"^{commit}")


def _git(tree: Path, *arguments: str) -> str:
    try:
        return run(["git", "-C", str(tree), *arguments], deadline_s=_GIT_DEADLINE_S).strip()
    except TestbedError as error:
        said = error.evidence.get("stderr", "").strip() or error.message
        raise ConfigError(f"git cannot tell the commits of {tree}: {said}") from error


# Installing a candidate. A commit is built only when it is measured.
#
# Two bisections can share builds. Each holds its builds (``Registry.hold``), and the last user removes them.

_OURS = "bisect-"
"""Begins the names of versions that a bisection built, and removes."""
_DISK_FULL = os.strerror(errno.ENOSPC)


class NotUsableError(Exception):
    """A version that does not build, or in which there is no Open vSwitch; the message says why."""


class Installer:
    """Makes versions usable. ``dpdk``: build commits with DPDK."""

    def __init__(self, registry: Registry, *, dpdk: bool = True) -> None:
        self._registry = registry
        self._dpdk = dpdk
        self._held: dict[str, Lease] = {}

    def where(self, candidate: Candidate) -> str:
        """What ``--nfv-ovs`` takes for it; a commit is built, unless it is kept already.

        Raises:
            NotUsableError: it does not build, or has no Open vSwitch.
            ConfigError: a compiler or a library is missing.
            TestbedError: the disk is full, which is no fault of the version's.
        """
        if candidate.commit is None:
            return self._checked(candidate.where)
        while not self._hold(name := self._kept(candidate.commit) or self._built(candidate.commit)):
            continue  # another bisection ended, and removed it under our hands
        return name

    def _kept(self, commit: Revision) -> str | None:
        origin = f"{GIT}{commit.commit}"
        return next((version.name for version in self._registry.all() if version.origin == origin), None)

    def _built(self, commit: Revision) -> str:
        name = f"{_OURS}{commit.commit[:12]}"
        asked = Asked(f"{GIT}{commit.commit}", name, source=commit.tree, dpdk=self._dpdk)
        try:
            return add(asked, self._registry).version.name
        except TestbedError as error:
            if _DISK_FULL in str(error):
                raise
            raise NotUsableError(error.message) from error

    def _hold(self, name: str) -> bool:
        """Until ``remove_built``, or the end of this process."""
        if name not in self._held and (lease := self._registry.hold(name)):
            self._held[name] = lease
        return name in self._held

    def _checked(self, where: str) -> str:
        prefix = resolved(NamedOvs(where, where), self._registry).prefix
        try:
            locate(prefix)
        except (ConfigError, TestbedError) as error:
            raise NotUsableError(error.message) from error
        return where

    def remove_built(self, candidates: Sequence[Candidate]) -> list[str]:
        """Remove the builds that bisections made of these, but for those that another one uses; returns their names."""
        for lease in self._held.values():
            lease.close()
        self._held.clear()
        commits = {candidate.commit.commit for candidate in candidates if candidate.commit is not None}
        ours = [
            version.name
            for version in self._registry.all()
            if version.name.startswith(_OURS) and version.origin.removeprefix(GIT) in commits
        ]
        return [name for name in ours if self._remove(name)]

    def _remove(self, name: str) -> bool:
        try:
            self._registry.remove(name)
        except ConfigError:  # another bisection uses it, or has just removed it
            return False
        return True
