"""Short soaks on a real OVS with a real generator, and faults in the middle of them."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.evidence.writer import read_samples
from pytest_nfvperf.adapters.ovs.counters import LOOKUP_ENDS
from pytest_nfvperf.model.errors import GeneratorError, TestbedError
from pytest_nfvperf.model.evidence.records import RecordKind
from pytest_nfvperf.model.measure.soak_series import HITS, TIME
from pytest_nfvperf.model.topology.compose import phy2phy
from pytest_nfvperf.ports.datapath import SamplerReading
from tests.functional.ovs_support import needs_root
from tests.functional.soak_support import At, Soaking, soaking_on

pytestmark = needs_root
HANG_S = 1.4


@pytest.fixture
def soaking(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Soaking]:
    with soaking_on(phy2phy(), tmp_path, sample_s=getattr(request, "param", 0.5)) as made:
        yield made


@pytest.mark.parametrize("soaking", [1.0], indirect=True)  # half of it may be late: shared machines pause for 0.3 s
def test_every_interval_is_sampled_whole(soaking: Soaking) -> None:
    policies = list[int]()
    watch = At(3, lambda: policies.append(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK))
    soak = soaking.run(5.0, watch)
    assert policies == [os.SCHED_RR], "who takes samples does not wait for polling threads"
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert not [gap for gap in soak.gaps if gap.source != "generator"]
    assert soak.elapsed_s == pytest.approx(5.0, abs=0.6)
    assert soak.interrupted == ""
    table = read_samples(soaking.directory / "samples-soak-0001.jsonl")
    assert len(table) == soak.intervals >= 4
    assert {
        *("pmd.cycles_busy", "p0.rx_packets", "p1.tx_packets", "br0.openflow_packets"),
        *("vswitchd.rss", "vswitchd.cpu_ns", "p0.q0.rxq_busy_5s", "pmd-sched.stolen_ns", "drops", "p0->p1.p99_ns"),
    } <= set(table.columns)
    sent = table.total(".sent")
    (outcome,) = (record for record in soaking.listed.records if record.kind is RecordKind.OUTCOME)
    trial = next(r for r in reversed(soaking.listed.records) if r.kind is RecordKind.TRIAL)
    assert sent == sum(count["sent"] for count in trial.data["result"]["counts"]), "intervals add up to the trial"
    assert outcome.data["trials"] == [trial.id]
    assert table.total(".rx_packets") == pytest.approx(sent, rel=0.2)
    assert table.column("vswitchd.rss")[-1] > 1 << 20
    panels = {curve["panel"] for curve in soaking.recorded()["series"]}  # type: ignore[attr-defined]
    assert panels >= {"received rate", "latency", "PMD busy", HITS, "port packets", "CPU", "OpenFlow packets"}
    ended = sum(table.total(f"pmd.{kind}") for kind in LOOKUP_ENDS if f"pmd.{kind}" in table.columns)
    looked_up = table.total("pmd.packets_received") + table.total("pmd.recirculations")
    assert ended == pytest.approx(looked_up, rel=1e-3), "each packet's lookup ended somewhere"
    assert ended > sent / 2


@pytest.mark.thorough("a soak")
def test_a_dut_that_hangs_is_a_gap_with_a_reason(soaking: Soaking) -> None:
    """Its main thread does not answer; the poll-mode threads of a stopped process forward nothing either.

    It hangs for almost three intervals. The reading of the interval after that in which it began to hang waits for it,
    or comes too late for it; so nothing is read for that interval or for the one behind it.
    """
    pid = soaking.vswitchd()

    def hang() -> None:
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(HANG_S, os.kill, (pid, signal.SIGCONT)).start()

    hangs_at_read = 4  # of the reads in rows: another one comes before the soak
    soak = soaking.run(6.0, At(1 + hangs_at_read, hang))
    assert soak.lost + soak.disturbed_interval_lost > 0, "nothing was forwarded for more than a second"
    table = read_samples(soaking.directory / "samples-soak-0001.jsonl")
    ends, reads = table.column(TIME), table.column("reads")
    read_rows = [row for row, value in enumerate(reads) if not math.isnan(value)]  # a busy machine misses some, too
    hung = read_rows[hangs_at_read - 1]
    rounding_s = 0.001  # of the times in the file
    begun = (ends[hung] + rounding_s, ends[hung + 2] + rounding_s)
    (missed,) = [gap for gap in soak.gaps if gap.source == "ovs" and begun[0] < gap.start_s < begun[1]]
    assert "the collector was" in missed.reason
    assert missed.end_s > ends[hung + 1] + rounding_s


@pytest.mark.thorough("a soak")
def test_a_source_that_fails_is_asked_again(soaking: Soaking) -> None:
    at = At(1, lambda: None)
    failing = range(5, 9)

    def read() -> SamplerReading:
        reading = At.read(at)
        if at.read_so_far in failing:
            raise TestbedError("the daemon does not answer")
        return reading

    at.read = read  # type: ignore[method-assign]
    soak = soaking.run(6.0, at)
    reasons = {gap.reason for gap in soak.gaps if gap.source == "fault"}
    assert "the daemon does not answer" in reasons  # a busy machine may add that the collector was late
    assert "" not in reasons
    assert read_samples(soaking.directory / "samples-soak-0001.jsonl").total("reads") >= 8


@pytest.mark.parametrize("victim", [pytest.param("generator", marks=pytest.mark.thorough("another victim")), "ovs"])
def test_what_there_was_before_something_died_is_on_record(soaking: Soaking, victim: str) -> None:
    generator = soaking.live.deployment.generator
    assert generator is not None
    pid = generator.pid if victim == "generator" else soaking.vswitchd()  # type: ignore[attr-defined]
    with pytest.raises(GeneratorError if victim == "generator" else TestbedError) as raised:
        soaking.run(30.0, At(6, lambda: os.kill(pid, signal.SIGKILL)))
    recorded = soaking.recorded()
    assert isinstance(recorded, dict)
    soak = recorded["soak"]
    assert soak["intervals"] >= 4
    assert soak["interrupted"].startswith("ended after ")
    assert raised.value.message in soak["interrupted"]
    assert len(read_samples(soaking.directory / str(recorded["samples"]))) == soak["intervals"]
