"""Profiles of a run's subjects: what becomes of them in the evidence, beside each other, and in a failure."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from listed_sink import Listed

from pytest_nfvperf.features.profile.perf import Profiles
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.trials import Context, Recorder
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.evidence.records import Record
from pytest_nfvperf.model.measure.cpu_profile import CpuProfile, profile_text
from pytest_nfvperf.model.measure.outcome import Outcome
from pytest_nfvperf.model.statistics import Samples
from pytest_nfvperf.session.slas import MeasuredSubjects, SlaCheck, SlaFailure
from tests.config_support import parse_sla

VETH = CpuProfile("cpu-clock", (0, 1), ((("ovs-vswitchd", "packet_rcv"), 3), (("iperf3", "send"), 1)))
TAP = CpuProfile("cpu-clock", (0, 1), ((("ovs-vswitchd", "tun_get_user"), 1), (("iperf3", "send"), 1)))


@dataclass
class Perf:
    """Gives what it was told to, one after the other."""

    found: list[CpuProfile | UnavailableError]
    worked: int = 0

    def record(self, work: Callable[[], object]) -> CpuProfile:
        work()
        self.worked += 1
        found = self.found.pop(0)
        if isinstance(found, UnavailableError):
            raise found
        return found


@pytest.fixture
def sink() -> Listed:
    return Listed()


@pytest.fixture
def context(sink: Listed) -> Context:
    silent: Any = None
    return Context(Recorder("r", [sink], VirtualClock()), silent, VirtualClock())


def outcome(interface: str, *trials: str) -> Outcome:
    samples = Samples("tcp_throughput", "bps", (1e9, 1.1e9, 1.2e9, 1.0e9, 1.1e9))
    return Outcome((("interface", interface),), "tcp", 0.0, 1, trials=trials, samples=(samples,))


def taken(found: list[CpuProfile | UnavailableError], context: Context, directory: Path) -> Profiles:
    perf = Perf(found)
    parts: Any = SimpleNamespace(make_profiler=lambda: perf.record)
    profiles = Profiles(lambda: parts, directory, context)
    for number in range(1, len(found) + 1):
        profiles(f"stream-{number:04}", "pods on netdev", lambda: None)
    assert perf.worked == number
    return profiles


def named(sink: Listed) -> dict[str, Record]:
    return {str(record.data["name"]): record for record in sink.records}


def test_a_comparison_gets_a_differential_graph_of_each_subject_but_the_first(
    context: Context, sink: Listed, tmp_path: Path
) -> None:
    profiles = taken([VETH, TAP], context, tmp_path)
    profiles.compare("interface", [outcome("veth", "stream-0001"), outcome("tap", "stream-0009", "stream-0002")])
    told = named(sink)
    changed = told["what changed, interface: tap against veth"].data["text"]
    assert " 75.0% ->   0.0%  ovs-vswitchd: packet_rcv\n" in changed
    picture = told["differential flame graph, interface: tap against veth"].data
    assert picture["media_type"] == "image/svg+xml"
    ET.fromstring((tmp_path / picture["path"]).read_text())
    assert sorted(path.name for path in (tmp_path / "profiles").iterdir()) == [
        "stream-0001.folded",
        "stream-0001.svg",
        "stream-0002-against-stream-0001.svg",
        "stream-0002.folded",
        "stream-0002.svg",
    ]


def test_what_could_not_be_profiled_is_not_compared(context: Context, sink: Listed, tmp_path: Path) -> None:
    profiles = taken([VETH, UnavailableError("perf is not installed")], context, tmp_path)
    profiles.compare("interface", [outcome("veth", "stream-0001"), outcome("tap", "stream-0002")])
    assert not [name for name in named(sink) if "against" in name]
    assert (
        named(sink)["CPU profile of stream-0002, pods on netdev"].data["text"]
        == "not possible here: perf is not installed"
    )


def test_a_failure_shows_where_the_time_went(context: Context, tmp_path: Path) -> None:
    taken([VETH], context, tmp_path)
    rules = parse_sla("schema: 1\nrules: [{where: {interface: veth}, require: {tcp_throughput: '>= 2 Gbps'}}]").rules
    sla = SlaCheck(
        rules,
        MeasuredSubjects(),
        context.recorder,
        lambda _: None,
        _profile_text=lambda outcomes: profile_text(outcomes, context.profiles),
    )
    with pytest.raises(SlaFailure) as caught:
        sla.check(outcome("veth", "stream-0001"))
    shown = str(caught.value)
    assert "Where the CPUs' time went:\n  stream-0001, once more: 4 samples of cpu-clock on CPU 0, 1\n" in shown
    assert "75.0%  ovs-vswitchd: packet_rcv" in shown
    assert profile_text([outcome("tap", "stream-0003")], context.profiles) is None
