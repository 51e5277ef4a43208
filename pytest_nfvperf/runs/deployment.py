"""What a topology consists of while it is deployed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pytest_nfvperf.model.measure.cpu_account import CpuRole
from pytest_nfvperf.model.testbed.testbed import DatapathInfo, Dut
from pytest_nfvperf.ports.datapath import BuiltTopology, Collector, Datapath, Restart, Restarting, Sampled, Sampler
from pytest_nfvperf.ports.generator import Generator
from pytest_nfvperf.ports.streams import Reachability
from pytest_nfvperf.runs.trials import TrialRunner
from pytest_nfvperf.runs.vnf_processes import RunningVnfs


class Service(Protocol):
    """What runs on a deployed topology, beside generator and DUT: routing daemons, for example."""

    def close(self) -> None:
        """End it. Can be called twice."""
        ...


@dataclass(slots=True)
class Deployment:
    """What a topology consists of while it is deployed.

    ``processes``: roles of the DUT's and the VNFs' on this machine, by their ids. ``restart``: of the DUT; None where
    nobody can. ``reachability``: watches what passes between namespaces; None where nobody does.
    """

    built: BuiltTopology
    dut: Dut
    datapath: DatapathInfo
    generator: Generator | None
    runner: TrialRunner | None
    collectors: tuple[Collector, ...] = ()
    samplers: tuple[Sampler, ...] = ()
    restart: Restart | None = None
    reachability: Reachability | None = None
    check_alive: Callable[[], None] = lambda: None
    processes: Callable[[], Mapping[int, CpuRole]] = dict
    vnfs: RunningVnfs = field(default_factory=RunningVnfs)
    services: list[Service] = field(default_factory=list)

    def can(self, datapath: Datapath) -> None:
        if isinstance(datapath, Sampled):
            self.samplers = datapath.samplers()
        if isinstance(datapath, Restarting):
            self.restart = datapath.restart

    def close(self) -> None:
        try:
            self.stop_services()
            self.vnfs.close()
        finally:
            self.built.close()

    def stop_services(self) -> None:
        while self.services:
            self.services.pop().close()
