"""A simulated rig for studies, whose truth is known: a DUT whose capacity depends on the number of bridges."""

from __future__ import annotations

from contextlib import nullcontext

from listed_sink import Listed

from pytest_nfvperf.adapters.generators.fake import FakeGenerator, FakeStreams
from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.config.sla_file import parse_limit
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.streams import StreamRunner
from pytest_nfvperf.measure.study import Study
from pytest_nfvperf.measure.trials import Context, Recorder, TrialRunner
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.sla.rules import Rule
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, DatapathInfo
from pytest_nfvperf.ports.generator import GeneratorPort
from pytest_nfvperf.ports.machine import Progress
from pytest_nfvperf.session.slas import MeasuredSubjects, SlaCheck
from tests.sample_run import TESTBED

CEILING = 9e6


class SimulatedLive:
    """A live topology on a simulated DUT."""

    datapath_kind = "dpdk"
    datapath_info = DatapathInfo("dpdk", "simulated", None, "")
    dut = TESTBED_DUT
    built = None

    def __init__(self, topology, runner):
        self.topology, self.name, self.runner = topology, topology.name, runner

    def learn(self, traffic): ...
    def counters(self):
        return []

    def netns(self, namespace):
        return f"ns-{namespace}"

    @property
    def deployment(self):
        return self

    def check_alive(self): ...


class Bench:
    """A simulated DUT whose capacity depends on the number of bridges."""

    def __init__(self, capacity, **settings):
        self.capacity = capacity
        self.clock, self.sink = VirtualClock(), Listed()
        self.context = Context(Recorder("r", [self.sink], self.clock), Progress(), self.clock)
        self.generator = FakeGenerator(1e6, clock=self.clock, **({"noise": 0.005, "ceiling_fps": CEILING} | settings))
        self.streams = FakeStreams(2e9, clock=self.clock)
        self.order: list[int] = []
        self.quiet: list[bool] = []

    def refuse_lacking(self, topology, dut):
        """All can be measured."""

    def side_by_side(self, subjects):
        """One DUT: each reading is built for."""

    def redeploy(self, topology, dut, *, quiet):
        assert dut == TESTBED_DUT
        self.quiet.append(quiet)
        self.order.append(len(topology.bridges))
        self.generator.capacity_fps = self.capacity(len(topology.bridges))
        self.generator.detach(["p0", "p1"])
        self.generator.attach([GeneratorPort(port.name, "", port.mac) for port in topology.ports])
        runner = TrialRunner(self.generator, [], check_alive=lambda: None, context=self.context, repeats=1)
        return SimulatedLive(topology, runner)

    def study(self, decided=lambda _: True, profile=QUICK):
        return Study(
            profile, {"suite": "chaining", "topology": "chain"}, self, lambda *_: Limits(CEILING, None),
            lambda: StreamRunner(self.streams, self.context, 1, SimulatedBackend(TESTBED)), decided, self.context,
        )  # fmt: skip

    def sla(self, metric, text):
        rule = Rule((), ((metric, parse_limit(metric, text)),), "sla.yaml:3: rules[0]")
        return SlaCheck([rule], MeasuredSubjects(), self.context.recorder, lambda _: None)


class OneBench(Bench):
    """Deploys all subjects at once, on the one simulated DUT; notes who ran, from ``None`` on in each block."""

    def __init__(self, capacity):
        super().__init__(capacity)
        self.ran: list[int | None] = []

    def side_by_side(self, subjects):
        self.subjects = subjects
        return nullcontext(self)

    def begin_block(self, subjects, number):
        self.ran.append(None)

    def run(self, subject):
        self.ran.append(subject)
        return self.redeploy(*self.subjects[subject], quiet=True)

    def rig_of(self, subject):
        return 0
