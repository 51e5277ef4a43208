"""A realistic run made of model objects: what report and evidence tests look at, without a testbed.

Two topologies over RFC 2544's sizes and an IMIX, NDR and PDR with about 30 trials each, invalid trials
and their repeats, latency, a loss curve, back-to-back, verdicts of all three kinds, ledgers, and a
generator that dies. ``python -m tests.sample_run DIR`` writes it as evidence.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_nfvperf.adapters.evidence.writer import EvidenceWriter
from pytest_nfvperf.model.evidence.records import (
    AttachmentData,
    ErrorData,
    Record,
    RunData,
    RunEndData,
    TestData,
    TestEndData,
    TopologyData,
)
from pytest_nfvperf.model.measure.bounds import PlateauPoint, SearchedGoal
from pytest_nfvperf.model.measure.outcome import (
    BackToBack,
    Confirmation,
    Cost,
    Goal,
    LatencyPoint,
    LossPoint,
    Outcome,
    SearchStatus,
)
from pytest_nfvperf.model.sla.verdict import Judgement, Verdict
from pytest_nfvperf.model.testbed.testbed import (
    CableSpec,
    CpuPlan,
    DatapathInfo,
    DutPort,
    GeneratorInfo,
    GeneratorSpec,
    OvsSpec,
    Testbed,
)
from pytest_nfvperf.model.topology import compose as catalogue
from pytest_nfvperf.model.traffic.traffic import IMIXES, RFC2544_FRAME_SIZES, Imix, Traffic
from tests.outcomes import measured
from tests.sample_trials import SampleTrials, latency_at

NDR = Goal("ndr", 0.0)
PDR = Goal("pdr", 0.005)
CAPACITY_MPPS = {64: 7.3, 128: 7.1, 256: 6.9, 512: 6.4, 1024: 5.1, 1280: 4.5, 1518: 3.9}
CEILING_MPPS = {64: 7.45, 128: 7.5, 256: 7.4, 512: 7.2, 1024: 6.6, 1280: 6.1, 1518: 5.6}
SHARE = {"phy2phy": 1.0, "pvp": 0.42}
IMIX_CAPACITY_MPPS = 6.2

TESTBED = Testbed(
    name="embedded",
    ovs=OvsSpec(),
    cpus=CpuPlan(housekeeping=(0,), pmd=(1,), generator=(0,)),
    ports=(DutPort("p0", "vhost-user"), DutPort("p1", "vhost-user")),
    generator=GeneratorSpec(),
    links=(CableSpec("generator.0", "p0"), CableSpec("generator.1", "p1")),
    hugepages_mib=2048,
    discovered=True,
)
TESTBED_YAML = """schema: 1
name: embedded
dut:
  ovs: {instance: private, datapath: dpdk, pmd_cpus: [1]}
  ports:
    - {name: p0, kind: vhost-user}
    - {name: p1, kind: vhost-user}
generator: {engine: embedded}
links: [[generator.0, dut.p0], [generator.1, dut.p1]]
"""
FINGERPRINT = {
    "cpu": {"model": "Intel Xeon Platinum 8481C", "mhz": 2700, "cores": 2, "smt": False, "isolated": []},
    "kernel": "6.1.0-30-amd64",
    "hugepages": {"2048kB": 1024, "1048576kB": 0},
    "versions": {"ovs": "3.1.0", "dpdk": "22.11.7", "nfvperf-gen": "0.1.0 4be1c2", "python": "3.11.2"},
    "rxq_to_pmd": {"p0/0": 1, "p1/0": 1},
}


def run_data() -> RunData:
    """What a run says of itself."""
    return RunData(
        tool_version="0.1.0",
        python="3.11.2",
        argv=("pytest", "suites/", "--nfv-profile", "quick"),
        profile="quick",
        testbed=TESTBED,
        testbed_yaml=TESTBED_YAML,
        fingerprint=FINGERPRINT,
        dut=DatapathInfo("dpdk", "3.1.0", "22.11.7", "private instance, 1 PMD on CPU 1"),
        generator=GeneratorInfo("embedded", "0.1.0", "nfvperf-gen on DPDK 22.11.7", (0,)),
        sla=("suites/throughput/sla.yaml",),
    )


class SampleRun(SampleTrials):
    """Builds the records of one run; ``records`` has them in order."""

    def __init__(self, *, line_rate_bps: float | None = None, seed: int = 1, worker: str = "") -> None:
        super().__init__(seed=seed, worker=worker)
        self.line_rate_bps = line_rate_bps

    def build(
        self,
        topologies: tuple[str, ...] = ("phy2phy", "pvp"),
        sizes: tuple[int | Imix, ...] = (*RFC2544_FRAME_SIZES, IMIXES["simple"]),
    ) -> list[Record]:
        """The whole run."""
        self.begin()
        for topology in topologies:
            for size in sizes:
                self.throughput_test(topology, size)
        self.loss_curve_test()
        self.back_to_back_test()
        self.broken_tests()
        self.end()
        return self.records

    def begin(self) -> Record:
        """The run record."""
        self.add(run_data())
        return self.records[-1]

    def end(self) -> None:
        """The closing record."""
        self._test = ""
        counts: dict[str, int] = {}
        for record in self.records:
            if record.kind == "test_end":
                counts[record.data["status"]] = counts.get(record.data["status"], 0) + 1
        wrong = counts.get("failed", 0) + counts.get("error", 0)
        self.add(RunEndData(exit_status=1 if wrong else 0, seconds=431.7, counts=counts))

    def labels(self, suite: str, test: str, topology: str, traffic: Traffic) -> tuple[tuple[str, str], ...]:
        """Labels as the fixtures give them."""
        return (
            ("datapath", "dpdk"),
            ("direction", "bidirectional" if traffic.bidirectional else "unidirectional"),
            ("engine", "embedded"),
            ("flows", str(traffic.flows)),
            ("frame_size", traffic.frame_label),
            ("profile", "quick"),
            ("suite", suite),
            ("test", test),
            ("topology", topology),
        )

    def start_test(self, name: str, labels: tuple[tuple[str, str], ...], description: str) -> None:
        """A test begins."""
        label = dict(labels)
        self._test = f"suites/throughput/{name}[{label['topology']}-{label['frame_size']}]"
        parameters = {"topology": label["topology"], "frame_size": label["frame_size"]}
        self.add(TestData(labels, parameters, description))

    def throughput_test(self, topology: str, size: int | Imix) -> None:
        """NDR and PDR in one search, then latency, verdicts and the configuration."""
        traffic = Traffic(frame_size=size)
        labels = self.labels("throughput", "test_ndr_pdr", topology, traffic)
        self.start_test(
            "test_ndr_pdr.py::test_ndr_pdr",
            labels,
            "NDR and PDR through one bridge, both directions at once.\n\n"
            "Steps: build port - bridge - port; learn; search with MLRsearch; confirm.\n"
            "Verify: the SLA for this topology and frame size.",
        )
        chain = catalogue.vnf_chain(list(SHARE).index(topology))
        self.add(TopologyData(chain, "dpdk", port_kinds={port.name: "vhost-user" for port in chain.ports}))
        capacity = self.capacity_fps(topology, traffic)
        outcome = self.search(traffic, labels, capacity)
        self.add(outcome)
        status = self.judge(outcome)
        self.add(AttachmentData("OVS configuration", text=f"bridge br0\n  port p0\n  port p1\n# {topology}\n"))
        reason = "" if status == "passed" else "SLA not met"
        self.add_whole_ledger(outcome.trials)
        self.add(TestEndData(status, outcome.elapsed_s, reason))

    def capacity_fps(self, topology: str, traffic: Traffic) -> float:
        """What the pretended DUT does per direction."""
        size = traffic.frame_size
        mpps = CAPACITY_MPPS[size] if isinstance(size, int) else IMIX_CAPACITY_MPPS
        return mpps * 1e6 * SHARE[topology] * self._rng.uniform(0.99, 1.01)

    def ceiling_fps(self, traffic: Traffic) -> float:
        """What the pretended rig does per direction."""
        size = traffic.frame_size
        return (CEILING_MPPS[size] if isinstance(size, int) else 7.1) * 1e6

    def search(self, traffic: Traffic, labels: tuple[tuple[str, str], ...], capacity: float) -> Outcome:
        """A search for both goals the way MLRsearch narrows, then confirmation and latency."""
        ceiling = self.ceiling_fps(traffic)
        trials = [self.trial(traffic, int(ceiling), capacity, "warm-up")]
        goals = []
        low, high = 0.0, ceiling
        for goal, limit in ((NDR, capacity), (PDR, capacity * 1.0049)):
            low, high = self.narrow(traffic, limit, capacity, (low, high), trials)
            goals.append(self.goal_outcome(traffic, goal, (low, high), capacity, trials))
            low, high = low * 0.995, min(ceiling, high * 1.02)
        pdr = goals[1].load_fps or 1
        latency = [self.latency_point(traffic, percent, pdr, capacity, trials) for percent in (10, 50, 90)]
        cycles = 2.7e9 / (2 * capacity)
        cost = Cost(trials[-1], round(cycles, 1), 0.97, round(2 * capacity / 1e6, 2), 1.01, 1.02, 0.011)
        outcome = Outcome(
            labels=labels,
            algorithm="mlrsearch",
            mean_frame_size=traffic.mean_frame_size,
            directions=2,
            latency=tuple(latency),
            cost=cost,
            trials=tuple(trials),
            ceiling_fps=ceiling,
            line_rate_fps=traffic.line_rate_fps(self.line_rate_bps) if self.line_rate_bps else None,
            elapsed_s=33.4,
        )
        plateau = PlateauPoint(trials[-1], capacity, 0.995 * capacity, 1.005 * capacity, 62)
        return measured(outcome, *goals, plateaus=[plateau])

    def narrow(
        self,
        traffic: Traffic,
        limit: float,
        capacity: float,
        bounds: tuple[float, float],
        trials: list[str],
    ) -> tuple[float, float]:
        """Trials that halve the interval down to 0.5 %, bounds visited twice as the goal asks."""
        low, high = bounds
        while high - low > 0.005 * high:
            load = (low + high) / 2 if high - low > 0.1 * high else low + (high - low) * self._rng.uniform(0.35, 0.65)
            for _ in range(1 + (high - low < 0.1 * high)):
                self.trial_until_valid(traffic, int(load), capacity, "search", trials)
            low, high = (load, high) if load <= limit else (low, load)
        return low, high

    def goal_outcome(
        self, traffic: Traffic, goal: Goal, bounds: tuple[float, float], capacity: float, trials: list[str]
    ) -> SearchedGoal:
        """Found, confirmed by five seconds at the lower bound."""
        low, high = int(bounds[0]), int(bounds[1])
        trial = self.trial(traffic, low, capacity, f"confirmation of {goal.name}", 5.0)
        trials.append(trial)
        loss = max(0.0, 1 - int(capacity * 5) / (low * 5))
        limited = low >= 0.95 * self.ceiling_fps(traffic)
        confirmation = Confirmation(trial, low, 5.0, loss, loss <= goal.loss_ratio)
        detail = "within 5 % of the rig's ceiling" if limited else ""
        return SearchedGoal(goal, SearchStatus.FOUND, low, high, confirmation, detail, limit=detail)

    def latency_point(
        self, traffic: Traffic, percent: int, pdr: int, capacity: float, trials: list[str]
    ) -> LatencyPoint:
        """Latency at a share of the PDR."""
        load = pdr * percent // 100
        trial = self.trial(traffic, load, capacity, f"latency at {percent} % of pdr", 2.0)
        trials.append(trial)
        histogram = latency_at(int(load * 100 / capacity), 0)
        p50, p90, p99, p999 = (histogram.percentile_ns(p) for p in (50, 90, 99, 99.9))
        at, samples = f"{percent} % of pdr", 2 * histogram.total
        return LatencyPoint(
            at=at,
            load_fps=load,
            trial_id=trial,
            min_ns=histogram.min_ns,
            p50_ns=p50,
            p90_ns=p90,
            p99_ns=p99,
            p999_ns=p999,
            max_ns=histogram.max_ns,
            samples=samples,
        )

    def judge(self, outcome: Outcome) -> str:
        """Three verdicts; returns the test's status."""
        label = outcome.label
        ndr = outcome.goal("ndr")
        assert ndr is not None
        assert ndr.load_fps is not None
        limit = 4e6 if label["topology"] == "phy2phy" else (3.2e6 if label["frame_size"] == "64" else 1.5e6)
        if label["frame_size"] in {"1280", "1518"}:
            limit = 1.2e6
        passed = ndr.load_fps >= limit
        rule = "suites/throughput/sla.yaml: rules[0].require.ndr"
        margin = (ndr.load_fps - limit) / limit
        self.add(
            Verdict(
                judgement=Judgement.PASS if passed else Judgement.FAIL,
                requirement=f"ndr >= {limit / 1e6:g} Mpps",
                metric="ndr",
                limit=limit,
                unit="pps",
                observed=float(ndr.load_fps),
                margin=margin,
                reason="" if passed else "below the limit",
                rule=rule,
                confidence="confirmed by 5 s without loss: loss < 4.3e-08 at 95 %",
                evidence=outcome.trials[-4:-3],
            )
        )
        self.judge_latency(outcome, rule)
        load = outcome.figure("ndr", "pps")
        assert load is not None
        if load.high is not None:
            return "passed" if passed else "failed"
        self.add(
            Verdict(
                judgement=Judgement.INCONCLUSIVE,
                requirement="pdr >= 9 Mpps",
                metric="pdr",
                limit=9e6,
                unit="pps",
                observed=float(ndr.load_fps),
                margin=None,
                reason="generator-limited: the DUT does at least 7.30 Mpps, the rig can show no more",
                rule=rule.replace("ndr", "pdr"),
                confidence="",
                evidence=outcome.trials[-1:],
            )
        )
        return "failed"

    def judge_latency(self, outcome: Outcome, rule: str) -> None:
        """The second verdict: it passes."""
        p99 = outcome.latency[1].p99_ns
        assert p99 is not None
        self.add(
            Verdict(
                judgement=Judgement.PASS,
                requirement="latency_p99 <= 100 us at 50 % of pdr",
                metric="latency_p99",
                limit=1e5,
                unit="ns",
                observed=float(p99),
                margin=(1e5 - p99) / 1e5,
                reason="",
                rule=rule.replace("ndr", "latency_p99"),
                confidence="8000 samples",
                evidence=(outcome.latency[1].trial_id,),
            )
        )

    def loss_curve_test(self) -> None:
        """RFC 2544 section 26.3."""
        traffic = Traffic(frame_size=64)
        labels = self.labels("throughput", "test_loss_curve", "phy2phy", traffic)
        self.start_test("test_loss_curve.py::test_loss_curve", labels, "Frame loss from 100 % of the ceiling down.")
        capacity, ceiling = 6.1e6, 7.45e6
        points = []
        for percent in range(100, 50, -10):
            load = int(ceiling * percent / 100)
            trial = self.trial(traffic, load, capacity, "loss curve")
            points.append(LossPoint(load, max(0.0, 1 - capacity / load), trial, offered_fps=load))
        curve = Outcome(
            labels,
            "loss-curve",
            64.0,
            2,
            loss_curve=tuple(points),
            trials=tuple(point.trial_id for point in points),
            ceiling_fps=ceiling,
            elapsed_s=6.4,
        )
        self.add(measured(curve))
        self.add(TestEndData("passed", 6.4))

    def back_to_back_test(self) -> None:
        """RFC 9004."""
        traffic = Traffic(frame_size=64, bidirectional=False)
        labels = self.labels("throughput", "test_back_to_back", "phy2phy", traffic)
        self.start_test("test_back_to_back.py::test_back_to_back", labels, "Longest burst without loss (RFC 9004).")
        trial = self.trial(traffic, 7_450_000, 7.3e6, "back-to-back", 2.0)
        burst = BackToBack(7_450_000, (14210, 14188, 14302, 14250, 14221), 14234.2, 0.000431)
        bursts = Outcome(labels, "back-to-back", 64.0, 1, back_to_back=burst, trials=(trial,), elapsed_s=24.0)
        self.add(measured(bursts))
        self.add(TestEndData("passed", 24.0))

    def broken_tests(self) -> None:
        """The generator dies in one test; the next cites it."""
        labels = self.labels("throughput", "test_ndr_pdr", "pvvp", Traffic(frame_size=64))
        self.start_test("test_ndr_pdr.py::test_ndr_pdr", labels, "Through two VNFs.")
        self.trial(Traffic(frame_size=64), 3_000_000, 2e6, "warm-up")
        log = "EAL: Detected CPU lcores: 2\nVIRTIO_USER: vhost-user backend disconnected\n"
        message = "nfvperf-gen died with SIGSEGV during a trial at 1.5 Mpps; rerun, and keep its log (--nfv-keep)"
        first = self.add(
            ErrorData("GeneratorError", message, {"end of the generator's log": log, "last command": "trial"})
        )
        self.add(TestEndData("error", 2.2, message))
        labels = self.labels("throughput", "test_ndr_pdr", "pvvp", Traffic(frame_size=1518))
        self.start_test("test_ndr_pdr.py::test_ndr_pdr", labels, "Through two VNFs.")
        self.add(ErrorData("TestbedError", f"not run: the testbed broke earlier ({message})", {}, first))
        self.add(TestEndData("error", 0.0, "not run: the testbed broke earlier"))


def small_run() -> list[Record]:
    """A run with every kind of record and of verdict, quick to build."""
    return SampleRun().build(("phy2phy",), (64, 1518))


def write_sample(directory: Path, records: list[Record] | None = None) -> Path:
    """Write a run (the whole one, if none is given) as evidence; returns the file."""
    writer = EvidenceWriter(directory / "evidence.jsonl")
    for record in records or SampleRun().build():
        writer.emit(record)
    writer.close()
    return writer.path


if __name__ == "__main__":
    print(write_sample(Path(sys.argv[1])))
