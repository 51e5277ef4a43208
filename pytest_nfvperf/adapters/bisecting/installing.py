"""From a candidate to an Open vSwitch on this machine: commits are built when they are asked for.

Two bisections can share commits, and then share builds. Each holds what it uses (``Registry.hold``), and the last one
that used a build removes it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from pytest_nfvperf.adapters.bisecting.candidates import Candidate
from pytest_nfvperf.adapters.ovs.instance.ovs_binaries import locate
from pytest_nfvperf.adapters.process.lock import Lease
from pytest_nfvperf.adapters.versions.adding import GIT, Asked, add
from pytest_nfvperf.adapters.versions.git_build import Revision
from pytest_nfvperf.adapters.versions.registry import Registry
from pytest_nfvperf.adapters.versions.resolving import resolved
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import NamedOvs

_OURS = "bisect-"
"""Begins the names of versions that a bisection built, and removes."""
_DISK_FULL = os.strerror(errno.ENOSPC)


class NotUsableError(Exception):
    """A version that does not build, or in which there is no Open vSwitch; the message says why."""


class Installer:
    """Makes versions usable.

    Args:
        registry: of kept versions.
        dpdk: build commits with DPDK.
    """

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
