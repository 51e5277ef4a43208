"""Instructions a packet: what a reading says, and which figures belong to which kind of time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pytest_nfvperf.adapters.machine.fingerprint import instruction_ns, is_virtual
from pytest_nfvperf.adapters.ovs.nodes_datapath import NodeCollector
from pytest_nfvperf.measure.limits import Limits
from pytest_nfvperf.measure.measurements import Subject, check_time, forwarding_clock, per_packet
from pytest_nfvperf.model.errors import ConfigError, UnavailableError
from pytest_nfvperf.model.evidence.comparison import differences
from pytest_nfvperf.model.measure.compare import LEAST_OF_INSTRUCTIONS, Word, compare_metric
from pytest_nfvperf.model.measure.cpu_profile import VIRTUAL, WALL, why_not_in
from pytest_nfvperf.model.measure.profile import QUICK
from pytest_nfvperf.model.statistics import Relative, Samples
from pytest_nfvperf.model.topology.compose import bridge_chain
from pytest_nfvperf.model.traffic.traffic import Traffic
from pytest_nfvperf.ports.datapath import Collector
from pytest_nfvperf.ports.generator import Burst
from pytest_nfvperf.session.comparison import GuardedStudy
from pytest_nfvperf.session.slas import SlaFailure
from tests.unit.test_study import CEILING, Bench, chains


def test_a_reading_is_the_median_over_whole_bursts():
    """Neither the burst in which OVS looked after its timers nor the short last one moves it."""
    bursts = [Burst(32, 64_000), Burst(32, 64_064), Burst(32, 64_032), Burst(32, 900_000), Burst(4, 50_000)]
    assert per_packet(bursts, 2) == (64_032 + 64_064) / 2 / 32 / 2


def test_without_a_frame_there_is_no_figure():
    with pytest.raises(ValueError, match="no frame was sent"):
        per_packet([Burst(0, 10)], 2)


@pytest.mark.parametrize(
    ("time", "metric", "told"),
    [
        (
            VIRTUAL,
            "forwarding_rate",
            "forwarding_rate is a figure of the clock, and in virtual time a second is a count",
        ),
        (
            WALL,
            "instructions_per_packet",
            "instructions_per_packet is counted in virtual time only: add --nfv-virtual-time",
        ),
    ],
)
def test_a_figure_of_the_other_time_is_refused_with_what_to_do(time, metric, told):
    assert why_not_in(time, metric).startswith(told)
    with pytest.raises(UnavailableError, match=told):
        check_time(metric, virtual=time == VIRTUAL)


@pytest.mark.parametrize(("time", "metric"), [(WALL, "ndr"), (VIRTUAL, "instructions_per_packet")])
def test_a_figure_of_this_time_is_not_refused(time, metric):
    assert why_not_in(time, metric) == ""
    check_time(metric, virtual=time == VIRTUAL)


def test_a_run_in_virtual_time_is_not_compared_with_one_by_the_clock():
    assert differences({"time": "virtual"}, {"time": "wall"}) == ("time: virtual then, wall now",)
    assert differences({}, {"time": "wall"}) == (), "runs of before the fact was kept were by the clock"


def test_the_guests_command_line_tells_what_time_is(tmp_path):
    line = tmp_path / "cmdline"
    line.write_text("quiet nfvperf.instruction_ns=2\n")
    assert is_virtual(line)
    assert instruction_ns(line) == 2
    line.write_text("quiet other.nfvperf.instruction_ns=2\n")
    assert not is_virtual(line)
    with pytest.raises(ConfigError, match="instructions are counted in virtual time only"):
        instruction_ns(line)


@pytest.mark.parametrize(
    ("metric", "ratio", "word"),
    [
        ("instructions_per_packet", 1 + 2 * LEAST_OF_INSTRUCTIONS, Word.SLOWER),
        ("instructions_per_packet", 1 - 2 * LEAST_OF_INSTRUCTIONS, Word.FASTER),
        ("instructions_per_packet", 1 + LEAST_OF_INSTRUCTIONS / 2, Word.SAME),
        ("forwarding_rate", 1 + 2 * LEAST_OF_INSTRUCTIONS, Word.SAME),
    ],
)
def test_of_instructions_small_differences_are_told(metric, ratio, word):
    samples = Samples(metric, "any", (ratio, ratio))
    relative = Relative(metric, (), ratio, ratio / 1.0001, ratio * 1.0001, 0.98, 0.0002)
    found = compare_metric(samples, relative, (0.9999, 1.0001), 0.02, decides=True)
    assert found.word is word


def test_an_sla_that_asks_by_the_clock_for_instructions_is_told_what_to_do():
    bench = Bench(lambda _: 4e6)
    outcomes = bench.study().forwarding_rate("bridges", chains(1, 2), Traffic(frame_size=64))
    with pytest.raises(SlaFailure) as told:
        bench.sla("instructions_per_packet", "<= 10000 instructions").check_each(outcomes)
    assert "instructions_per_packet is counted in virtual time only: add --nfv-virtual-time" in " ".join(
        str(told.value).split()
    )


def test_a_study_by_the_clock_refuses_instructions_before_it_builds_anything():
    bench = Bench(lambda _: 4e6)
    with pytest.raises(UnavailableError, match="add --nfv-virtual-time"):
        bench.study().instructions_per_packet("bridges", chains(1, 2), Traffic(frame_size=64))
    assert not bench.order


def test_a_study_in_virtual_time_refuses_rates_before_it_builds_anything():
    bench = Bench(lambda _: 4e6)
    bench.context = replace(bench.context, virtual=True)
    with pytest.raises(UnavailableError, match="forwarding_rate is a figure of the clock"):
        bench.study().forwarding_rate("bridges", chains(1, 2), Traffic(frame_size=64))
    assert not bench.order


@pytest.mark.parametrize(("reads_again", "builds"), [(True, [1, 1, 1]), (False, [1, 1])])
def test_who_has_statistics_of_his_own_reads_the_baseline_once_a_round(reads_again, builds):
    """Steps: two sides, three rounds, no time for more. Verify: how many builds a round has, and who has a floor."""
    bench = Bench(lambda _: 4e6)
    profile = replace(QUICK, comparison_repeats=3, comparison_budget_s=0.0)
    limits = Limits(CEILING, None)
    study = GuardedStudy(
        profile, {"topology": "chain"}, bench, lambda *_: limits, lambda: None, lambda _: False, bench.context
    )
    study.reads_again = reads_again
    sides = [Subject(name, bridge_chain(1)) for name in ("base", "version")]
    _, version = study.forwarding_rate("side", sides, Traffic(frame_size=64))
    assert bench.order == builds * 3
    assert len(version.sampled("forwarding_rate").values) == 3
    assert bool(study.floors) is reads_again


class Thread(Collector):
    """A source of one node, whose thread has run for so long."""

    source = "thread"

    def __init__(self, ran_ns):
        self.ran_ns = ran_ns

    def snapshot(self):
        raise AssertionError("nobody asks for it")

    def forwarding_ns(self):
        return self.ran_ns


def forwarding_of(*sources):
    collectors = [NodeCollector(f"node{number}", source, list) for number, source in enumerate(sources)]
    return forwarding_clock(SimpleNamespace(deployment=SimpleNamespace(collectors=collectors)))


def test_of_two_nodes_the_work_of_both_counts():
    ran = forwarding_of(Thread(1_000), Thread(200))
    assert ran is not None
    assert ran() == 1_200


def test_where_the_kernel_forwards_no_thread_of_the_dut_is_asked():
    assert forwarding_of(Thread(None), Thread(None)) is None
