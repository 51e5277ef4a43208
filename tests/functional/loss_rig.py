"""A real OVS, a real generator and the trial runner that suites use: what the tests of loss share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pytest_nfvperf.adapters.generators.embedded.generator import EmbeddedGenerator, EngineOptions
from pytest_nfvperf.adapters.ovs.built_topology import BuiltOvsTopology
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from pytest_nfvperf.adapters.ovs.trial_ledger import trial_ledger
from pytest_nfvperf.adapters.process.journal import Journal
from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.measure.clocks import SystemClock
from pytest_nfvperf.measure.rig import generator_ports, learning_directions
from pytest_nfvperf.measure.trials import Context, Recorder, Trial, TrialRunner
from pytest_nfvperf.model.measure.ledger import Ledger
from pytest_nfvperf.model.topology.ports import DEFAULT_MTU
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.model.traffic.trial import Direction, TrialSpec
from pytest_nfvperf.ports.machine import Progress
from tests.functional.generator_support import embedded_in

ONE_WAY = Direction("p0", "p1")


@dataclass(frozen=True)
class LossRig:
    """An OVS and a generator without ports. ``idle``: a second one, which takes ports and never polls them."""

    ovs: OvsDatapath
    generator: EmbeddedGenerator
    idle: EmbeddedGenerator

    @contextmanager
    def deployment(self, topology: Topology, *, drop_every: int = 0, unread: Sequence[str] = ()) -> Iterator[LiveLoss]:
        """The topology with its ports attached; ``unread``: those that nobody reads."""
        built = self.ovs.build(topology)
        # Whatever the DUT's ports carry, the generator's own carry all: it is the DUT that shall lose.
        ports = [replace(port, mtu=DEFAULT_MTU) for port in generator_ports(topology, built)]
        read = [port for port in ports if port.name not in unread]
        try:
            self.generator.attach(read, drop_every=drop_every)
            self.idle.attach([port for port in ports if port.name in unread])
            self.generator.wait_links_up(5)
            built.wait_ready(5)
            self.generator.learn(Traffic(), learning_directions(topology))
            yield LiveLoss(self, built)
        finally:
            self.generator.detach([port.name for port in ports])
            self.idle.detach([port.name for port in ports])
            built.close()


@dataclass(frozen=True)
class LiveLoss:
    """A topology that is deployed on a rig."""

    rig: LossRig
    built: BuiltOvsTopology

    def ofctl(self, *arguments: str) -> str:
        """ovs-ofctl on br0: a command and what follows the bridge."""
        command, *rest = arguments
        target = f"unix:{self.rig.ovs.instance.directory}/br0.mgmt"
        return run([*self.rig.ovs.instance.ofctl, "-O", "OpenFlow14", command, target, *rest])

    def add_flow(self, flow: str) -> None:
        """An OpenFlow flow on br0 that is at work when this returns."""
        self.ofctl("add-flow", flow)
        self.forget_flows()

    def forget_flows(self) -> None:
        """Megaflows are made anew: OVS 3.1 goes on with those that it made before there was a mirror."""
        self.rig.ovs.instance.ctl.call("revalidator/purge")

    def number(self, port: str) -> int:
        """A port's OpenFlow number."""
        return self.built.ofports()[port]

    def vsctl(self, *arguments: str) -> None:
        """ovs-vsctl on this OVS."""
        run(["ovs-vsctl", f"--db=unix:{self.rig.ovs.instance.directory}/db.sock", *arguments])

    def trial(
        self,
        load_fps: int,
        duration_s: float = 0.3,
        traffic: Traffic | None = None,
        directions: tuple[Direction, ...] = (ONE_WAY,),
    ) -> Trial:
        """One trial, from p0 to p1 if nothing else is said, valid or not."""
        clock = SystemClock()
        runner = TrialRunner(
            self.rig.generator,
            self.rig.ovs.collectors(),
            make_ledger=lambda result, before, after: trial_ledger(self.built.topology, result, before, after),
            check_alive=self.rig.ovs.check_alive,
            context=Context(Recorder("loss", [], clock), Progress(), clock),
        )
        given = traffic or Traffic(bidirectional=False)
        return runner.run_once(TrialSpec(given, load_fps, duration_s, directions, latency=False))

    def ledger(self, load_fps: int, duration_s: float = 0.3, traffic: Traffic | None = None) -> Ledger:
        """The ledger of one trial."""
        ledger = self.trial(load_fps, duration_s, traffic).ledger
        assert ledger is not None
        return ledger


@contextmanager
def loss_rig(journal: Journal, ovs: OvsDatapath) -> Iterator[LossRig]:
    """A rig on an OVS that runs."""
    options = EngineOptions(learn_timeout_s=0.2)
    with (
        embedded_in(journal.directory, "loss", options=options) as generator,
        embedded_in(journal.directory, "idle", options=options) as idle,
    ):
        yield LossRig(ovs, generator, idle)


def losses(ledger: Ledger) -> dict[tuple[str, str], int]:
    """Frames by hop and reason."""
    return {(line.hop, line.reason): line.frames for line in ledger.lines}
