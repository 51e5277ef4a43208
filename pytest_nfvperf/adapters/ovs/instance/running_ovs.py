"""What a topology needs of a running OVS, whether it is ours or the system's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pytest_nfvperf.adapters.net.namespaces import Home
from pytest_nfvperf.adapters.ovs.instance.ovsdb import Ovsdb
from pytest_nfvperf.adapters.ovs.instance.private_ovs import InstanceOptions
from pytest_nfvperf.adapters.ovs.instance.unixctl import Unixctl


class RunningOvs(Protocol):
    """A running OVS. ``close()`` gives it back as it was found; one of our own ends.

    Attributes:
        name: tells the instances of a run apart.
        tag: of the run.
        owned: it is ours alone: nobody else has bridges on it.
        options: how it runs.
        directory: of ours, where far ends of vhost-user ports listen.
    """

    name: str
    tag: str
    owned: bool
    options: InstanceOptions
    directory: Path
    ctl: Unixctl
    db: Ovsdb

    @property
    def home(self) -> Home:
        """The network namespace that vswitchd runs in."""
        ...

    @property
    def ofctl(self) -> Sequence[str | Path]:
        """The words that start the ovs-ofctl that speaks to its bridges."""
        ...

    @property
    def sockets(self) -> Path:
        """The directory of its bridges' management sockets."""
        ...

    @property
    def database(self) -> Path: ...

    @property
    def dpdk_version(self) -> str | None:
        """Of the DPDK that it was built with; None where it was built without."""
        ...

    @property
    def pid(self) -> int: ...

    def place_main_thread(self, cpus: tuple[int, ...] = ()) -> None:
        """Let vswitchd's main thread run on these CPUs only, or on those that it started on, if it is ours."""
        ...

    def check_alive(self) -> None: ...

    def thaw(self) -> None:
        """Let vswitchd go on where somebody stopped it, if it is ours."""
        ...

    def running(self) -> bool: ...

    def problems(self) -> str:
        """What vswitchd has complained of: its last warnings and errors."""
        ...

    def logs(self) -> dict[str, str]:
        """The end of each daemon's log, by name."""
        ...

    def note_bridges(self, bridges: tuple[str, ...]) -> None:
        """Bridges of the run are about to be made: what of them would outlive the run is journaled."""
        ...

    def forget_bridges(self, bridges: tuple[str, ...]) -> None:
        """They are gone."""
        ...

    def close(self, *, keep_namespace: bool = False) -> None:
        """Give it back. Can be called twice."""
        ...
