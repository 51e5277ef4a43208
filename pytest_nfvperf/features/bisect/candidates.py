"""Candidates of a bisection: the versions between two ends, and how to install one."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.process.lock import Lease
from pytest_nfvperf.features.versions.git_build import Revision, find_revision, git, shallow_commits
from pytest_nfvperf.features.versions.origins import GIT, add_version, known_versions
from pytest_nfvperf.features.versions.registry import Registry, resolve_version
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import OVS, NamedOvs, versioned_as, versioned_name

_SHORT = 12
_OURS = "bisect-"
"""Prefix of the names of versions that a bisection built, and removes."""
_DISK_FULL = os.strerror(errno.ENOSPC)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version: a listed one has ``where``, as for --nfv-ovs; one of a git tree has ``commit`` and ``title``."""

    name: str
    where: str = ""
    commit: Revision | None = None
    title: str = ""


def listed_candidates(
    good: str, bad: str, between: Sequence[str], registry: Registry, datapath: str = OVS
) -> list[Candidate]:
    """Candidates from the user's list, as for ``--nfv-ovs``: "installed", a kept version's name, or a path.

    Raises:
        ConfigError: one is given twice, is neither kept nor a path, or is of another datapath.
    """
    wheres = [good, *between, bad]
    names: dict[str | None, str] = {}
    for where in wheres:
        if "/" in where and not Path(where).is_dir():
            raise ConfigError(
                f"{where!r} is no directory: name a kept version (`nfvperf ovs list`), a prefix or a root"
            )
        version = resolve_version(NamedOvs(where, where), registry)
        if version.datapath not in {"", versioned_as(datapath)}:
            raise ConfigError(
                f"{where!r} is a version of {versioned_name(version.datapath)}: give --datapath {version.datapath}"
            )
        prefix = version.prefix
        if prefix in names:
            other = names[prefix]
            if {other, where} == {good, bad}:
                raise ConfigError(f"--good and --bad are the same version, {other!r}: give two that differ")
            same = other if other == where else f"{other} and {where}"
            raise ConfigError(
                f"{same} is in the list twice: --versions has what lies between --good and --bad, each once"
            )
        names[prefix] = where
    parts = Counter(map(_last_part, wheres))  # the name is the last part of the path, where that is unique
    return [Candidate(_last_part(where) if parts[_last_part(where)] == 1 else where, where) for where in wheres]


def _last_part(where: str) -> str:
    return where.rstrip("/").rpartition("/")[2] or where


def commit_candidates(source: Path, good: str, bad: str, datapath: str = OVS) -> list[Candidate]:
    """The good commit, and those from it to the bad one by first parents. A merge counts as one version.

    Raises:
        ConfigError: no tree of this datapath, an unknown revision, equal or swapped ends, ends on different branches,
            a shallow clone without what is between, or uncommitted changes where an end is checked out.
    """
    first, last = (find_revision(source, end, known_versions(datapath)) for end in (good, bad))
    if first.commit == last.commit:
        raise ConfigError(f"--good {good} and --bad {bad} are the same commit, {first.commit[:_SHORT]}")
    if shallow_commits(first.tree) & {*git(first.tree, "rev-list", f"{first.commit}..{last.commit}").split()}:
        raise ConfigError(
            f"the shallow clone {first.tree} lacks commits between --good {good} and --bad {bad}: git fetch --unshallow"
        )
    if not _leads(first.tree, first.commit, last.commit):
        if _leads(first.tree, last.commit, first.commit):
            raise ConfigError(f"--bad {bad} is older than --good {good}: exchange them")
        raise ConfigError(
            f"--good {good} does not lead to --bad {bad}: they are of different branches. Their common ancestor is "
            f"{git(first.tree, 'merge-base', first.commit, last.commit)[:_SHORT]}"
        )
    row = git(first.tree, "rev-list", "--first-parent", "--reverse", f"{first.commit}..{last.commit}").split()
    lines = git(first.tree, "log", "--no-walk=unsorted", "--format=%H %s", first.commit, *row).splitlines()
    titles = {commit: title for commit, _, title in (line.partition(" ") for line in lines)}
    return [
        Candidate(commit[:_SHORT], commit=Revision(first.tree, commit), title=titles[commit])
        for commit in (first.commit, *row)
    ]


def _leads(tree: Path, ancestor: str, commit: str) -> bool:
    return not git(tree, "rev-list", "--max-count=1", ancestor, f"^{commit}")


class NotUsableError(Exception):
    """A version does not build, or is not there; the message says why."""


class Installer:
    """Makes versions usable. A commit is built only when it is measured.

    Bisections can share builds. Each holds those that it uses (``Registry.hold``), and the last user removes them.
    """

    def __init__(self, registry: Registry, *, dpdk: bool = True, datapath: str = OVS) -> None:
        self._registry = registry
        self._dpdk = dpdk
        self._datapath = datapath
        self._held: dict[str, Lease] = {}

    def where(self, candidate: Candidate) -> str:
        """The candidate as a value of ``--nfv-ovs``; builds a commit, unless it is kept already.

        Raises:
            NotUsableError: it does not build, or is not there.
            ConfigError: a compiler or a library is missing.
            TestbedError: the disk is full: not the version's fault.
        """
        if candidate.commit is None:
            try:
                prefix = resolve_version(NamedOvs(candidate.where, candidate.where), self._registry).prefix
                known_versions(self._datapath).look_at(prefix)
            except (ConfigError, TestbedError) as error:
                raise NotUsableError(error.message) from error
            return candidate.where
        origin = f"{GIT}{candidate.commit.commit}"
        while True:
            known = (origin, versioned_as(self._datapath))
            cached = [version.name for version in self._registry.all() if (version.origin, version.datapath) == known]
            name = cached[0] if cached else self._built(candidate.commit)
            if name in self._held:
                return name
            if lease := self._registry.hold(name):
                self._held[name] = lease  # until ``remove_built``, or the end of this process
                return name
            # Another bisection has just ended, and removed it.

    def _built(self, commit: Revision) -> str:
        name = f"{_OURS}{commit.commit[:12]}"
        what = f"{GIT}{commit.commit}"
        try:
            made = add_version(what, self._registry, name, source=commit.tree, dpdk=self._dpdk, datapath=self._datapath)
            return made[0].name
        except TestbedError as error:
            if _DISK_FULL in str(error):
                raise
            raise NotUsableError(error.message) from error

    def remove_built(self, candidates: Sequence[Candidate]) -> list[str]:
        """Remove the builds of these candidates that no other bisection uses; returns their names."""
        for lease in self._held.values():
            lease.close()
        self._held.clear()
        commits = {candidate.commit.commit for candidate in candidates if candidate.commit is not None}
        ours = [
            version.name
            for version in self._registry.all()
            if version.name.startswith(_OURS) and version.origin.removeprefix(GIT) in commits
        ]
        removed = []
        for name in ours:
            with suppress(ConfigError):  # another bisection uses it, or has just removed it
                self._registry.remove(name)
                removed.append(name)
        return removed
