"""Datapaths of third parties: their makers, the workshop that starts them on this machine, and whose versions exist."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TypeVar

from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.net.namespaces import LiveNamespace
from pytest_nfvperf.adapters.ovs.installation import OvsVersions
from pytest_nfvperf.adapters.process.journal import Journal, Kind
from pytest_nfvperf.adapters.process.process import ManagedProcess, spawn
from pytest_nfvperf.adapters.testpmd.installation import TestpmdVersions
from pytest_nfvperf.model.display import listed
from pytest_nfvperf.model.errors import ConfigError, TestbedError
from pytest_nfvperf.model.testbed.ovs_settings import OVS
from pytest_nfvperf.model.testbed.testbed import TESTPMD, CpuPlan
from pytest_nfvperf.ports.datapath import Datapath, DatapathVersions

T = TypeVar("T")


class Workshop:
    """What a third party's datapath makes things with. All are noted first, so that they go even after kill -9.

    Attributes:
        directory: of this datapath; removed with the run. Its path is short enough for sockets.
        cpus: for threads that forward frames.
        housekeeping_cpus: for everything else.
        prefix: the prefix or root of the version to start; None for the installed one.
    """

    def __init__(self, journal: Journal, cpus: CpuPlan, name: str, prefix: str | None = None) -> None:
        """``name``: unique among the datapaths of a run."""
        self._journal = journal
        self.prefix = prefix
        self._name = name
        self.cpus = cpus.pmd
        self.housekeeping_cpus = cpus.housekeeping
        self.directory = journal.directory / name
        journal.note(Kind.DIRECTORY, str(self.directory))  # it goes with the run
        self.directory.mkdir(exist_ok=True)

    def make_namespace(self, role: str) -> LiveNamespace:
        """Make a network namespace, called after the run and ``role``. Keep one end of each veth pair in one."""
        return LiveNamespace(self._journal, f"{self._name}-{role}")

    def link_name(self) -> str:
        """A name for an interface beside the generator's: new in this run, and short enough."""
        return self._journal.link_name()

    def spawn(
        self,
        name: str,
        argv: Sequence[str | os.PathLike[str]],
        *,
        netns: str | None = None,
        cpus: Sequence[int] = (),
    ) -> ManagedProcess:
        """Start a program that ends with this process at the latest.

        Args:
            name: what errors call it.
            argv: the command, as a list.
            netns: in which network namespace, by its name.
            cpus: that it may use; ``housekeeping_cpus`` if not given.

        Raises:
            TestbedError: it could not be started.
        """
        log = self.directory / f"{name}.log"
        return spawn(self._journal, name, argv, log=log, cpus=cpus or self.housekeeping_cpus, netns=netns)


class DatapathMaker(ABC):
    """What the hook ``pytest_nfvperf_datapaths`` gives for each kind of datapath."""

    def lacks(self) -> str | None:
        """What this machine lacks for it, and what to do about it; None when it has all. Starts nothing."""
        return None

    @abstractmethod
    def start(self, workshop: Workshop) -> Datapath:
        """Start it. ``Datapath.close`` removes what it made.

        Raises:
            TestbedError: it did not start; nothing of it is left.
        """

    def versions(self) -> DatapathVersions | None:
        """How to get other versions of it than the installed one; None where there is only that."""
        return None


Makers = Mapping[str, DatapathMaker]
"""By the kind that a ``Dut`` names, such as "acme:wire"."""


def merge_makers(hook: str, tables: Iterable[Mapping[str, T]], own: Mapping[str, T] | None = None) -> dict[str, T]:
    """Merge the makers that all plugins give by a hook with our own.

    Raises:
        ConfigError: a kind has no colon, or two plugins make it.
    """
    merged = dict(own or {})
    for kind, maker in (row for table in tables for row in table.items()):
        why = "has no colon" if ":" not in kind else "is given twice" if kind in merged else None
        if why is not None:
            raise ConfigError(f"{hook}: kind {kind!r} {why}: call it by your name, such as 'acme:{kind}'")
        merged[kind] = maker
    return merged


def lacks_foreign(makers: Makers, kind: str) -> str | None:
    """Why a third party's datapath is not available, and what to do; None where it is."""
    maker = makers.get(kind)
    if maker is None:
        return (
            f"no plugin makes the datapath {kind!r} (there are: {listed(makers) or 'none'}): install its package, "
            "or give its maker by the hook pytest_nfvperf_datapaths"
        )
    return maker.lacks()


@contextmanager
def running_datapath(maker: DatapathMaker) -> Iterator[Datapath]:
    """Run a datapath outside a run, for its own tests, on the CPUs of this process, and close it.

    Raises:
        TestbedError: it left something that its workshop had made.
    """
    journal = open_journal()
    try:
        cpus = tuple(sorted(os.sched_getaffinity(0)))  # one may be all: nothing is measured
        workshop = Workshop(journal, CpuPlan(cpus[:1], cpus[-1:], cpus[:1]), "contract")
        noted = journal.entries
        datapath = maker.start(workshop)
        try:
            yield datapath
        finally:
            datapath.close()
        left = [f"{entry.kind} {entry.name}" for entry in journal.entries if entry not in noted]
        if left:
            raise TestbedError(f"the datapath was closed and left {', '.join(left)}: remove it in close()")
    finally:
        journal.close()


OWN_VERSIONS: Mapping[str, DatapathVersions] = MappingProxyType({OVS: OvsVersions(), TESTPMD: TestpmdVersions()})
"""Versions of what comes with this package, by ``versioned_as`` of the kind."""


def versions_of(versioned: str, makers: Makers) -> DatapathVersions:
    """How to get versions of a datapath; ConfigError where it has none."""
    maker = makers.get(versioned)
    versions = OWN_VERSIONS.get(versioned) or (maker.versions() if maker is not None else None)
    if versions is None:
        why = "its plugin gives none" if maker is not None else "no plugin makes it"
        raise ConfigError(f"the datapath {versioned!r} has no versions: {why} (there are: {listed(OWN_VERSIONS)})")
    return versions
