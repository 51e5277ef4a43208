"""The port for datapaths of third parties: who makes one, and with what."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pytest_nfvperf.ports.datapath import Datapath


class RunningProcess(Protocol):
    """A process that a workshop started."""

    @property
    def pid(self) -> int:
        """Of the command itself."""
        ...

    def check(self) -> None:
        """TestbedError with the exit status and the end of its log where it has ended."""
        ...

    def log_tail(self) -> str:
        """The last lines of what it wrote."""
        ...

    def stop(self) -> None:
        """SIGTERM, then SIGKILL. Can be called twice."""
        ...


class MadeNamespace(Protocol):
    """A network namespace that a workshop made."""

    name: str

    def close(self) -> None:
        """Remove it, and every link in it. Can be called twice."""
        ...


class Workshop(Protocol):
    """What a third party's datapath makes things with. All are noted first, so that they go even after kill -9.

    Attributes:
        directory: of this datapath; removed with the run. Its path is short enough for sockets.
        cpus: for threads that forward frames.
        housekeeping_cpus: for everything else.
    """

    directory: Path
    cpus: tuple[int, ...]
    housekeeping_cpus: tuple[int, ...]

    def make_namespace(self, role: str) -> MadeNamespace:
        """Make a network namespace, called after the run and ``role``. Keep one end of each veth pair in one."""
        ...

    def link_name(self) -> str:
        """A name for an interface beside the generator's: new in this run, and short enough."""
        ...

    def spawn(
        self,
        name: str,
        argv: Sequence[str | os.PathLike[str]],
        *,
        netns: str | None = None,
        cpus: Sequence[int] = (),
    ) -> RunningProcess:
        """Start a program that ends with this process at the latest.

        Args:
            name: what errors call it.
            argv: the command, as a list.
            netns: in which network namespace, by its name.
            cpus: that it may use; ``housekeeping_cpus`` if not given.

        Raises:
            TestbedError: it could not be started.
        """
        ...


class DatapathMaker(Protocol):
    """What the hook ``pytest_nfvperf_datapaths`` gives for each kind of datapath."""

    def lacks(self) -> str | None:
        """What this machine lacks for it, and what to do about it; None when it has all. Starts nothing."""
        ...

    def start(self, workshop: Workshop) -> Datapath:
        """Start it. ``Datapath.close`` removes what it made.

        Raises:
            TestbedError: it did not start; nothing of it is left.
        """
        ...
