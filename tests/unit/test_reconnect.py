"""How long a restart of the DUT interrupted two namespaces, on a simulated one whose outage is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from listed_sink import Listed

from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.measure.clocks import VirtualClock
from pytest_nfvperf.measure.rig import Deployment, LiveTopology
from pytest_nfvperf.measure.streams import ReconnectTime
from pytest_nfvperf.measure.trials import Context, Recorder
from pytest_nfvperf.model.errors import DutFailure, TestbedError, UnavailableError
from pytest_nfvperf.model.measure.streams import longest_gap_ns
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, DatapathInfo
from pytest_nfvperf.model.topology.workloads import pod_node
from pytest_nfvperf.ports.generator import StreamEnd
from pytest_nfvperf.ports.machine import Progress
from tests.sample_run import TESTBED

MS = 1_000_000


@dataclass
class Link:
    """Datagrams arrive each millisecond of a virtual clock, but not in a second of its outage."""

    clock: VirtualClock
    dead: list[tuple[float, float]] = field(default_factory=list)
    interval_ns: int = MS

    @contextmanager
    def watch(self, client: StreamEnd, server: StreamEnd) -> Iterator[Link]:
        assert (client.address, server.address) == ("198.18.1.1", "198.18.1.2")
        self.began_s = self.clock.monotonic()
        yield self

    @property
    def sent(self) -> int:
        return int((self.clock.monotonic() - self.began_s) * 1000)

    def passes(self, at_s: float) -> bool:
        return not any(begin <= at_s < end for begin, end in self.dead)

    def arrived(self) -> Sequence[int]:
        times = [self.began_s + number / 1000 for number in range(self.sent)]
        return [round(at * 1e9) for at in times if self.passes(at)]

    def await_one(self, deadline_s: float) -> bool:
        end = self.clock.monotonic() + deadline_s
        while self.clock.monotonic() < end:
            self.clock.sleep(0.01)
            if self.passes(self.clock.monotonic()):
                return True
        return False


class Built:
    def netns(self, namespace: str) -> str:
        return f"nfv-abc123-{namespace}"


def live(clock: VirtualClock, link: Link | None, restart: Callable[..., None]) -> LiveTopology:
    built: Any = Built()
    watch: Any = link and link.watch
    deployment = Deployment(built, DatapathInfo("netdev", "3.1.0", None, "simulated"), None, None, restart, watch)
    return LiveTopology(pod_node(2), 0, current=deployment)


def context(clock: VirtualClock, sink: Listed) -> Context:
    return Context(Recorder("r", [sink], clock), Progress(), clock)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_an_outage_is_read_to_the_interval(clock: VirtualClock) -> None:
    """Steps: a restart of 0.3 s, after which nothing passes for another 0.2 s. Verify: 0.5 s; the evidence has it."""
    link, sink = Link(clock), Listed()
    told: list[bool] = []

    def restart(*, killed: bool = False) -> None:
        told.append(killed)
        now = clock.monotonic()
        link.dead.append((now, now + 0.5))
        clock.sleep(0.3)

    figure = ReconnectTime(context(clock, sink), ("pod1", "pod2"), killed=True)
    reading = figure.read(live(clock, link, restart), None)
    assert told == [True]
    assert reading.values["reconnect_time"] == pytest.approx(0.5, abs=0.012)
    assert reading.values["restart_time"] == pytest.approx(0.3, abs=0.001)
    (record,) = sink.records
    assert (str(record.kind), record.id) == ("reconnection", reading.evidence)
    assert record.data["interval_ns"] == MS
    assert 0 < record.data["arrived"] < record.data["sent"]


def test_a_restarted_dut_is_set_up_again_by_the_tests_own_function(clock: VirtualClock) -> None:
    """Its flows are gone with the old process."""
    happened: list[str] = []
    topology = live(clock, Link(clock), lambda **_: happened.append("restarted"))
    topology.configure = lambda _: happened.append("configured")
    ReconnectTime(context(clock, Listed()), ("pod1", "pod2")).read(topology, None)
    assert happened == ["restarted", "configured"]


def test_who_does_not_come_back_is_told(clock: VirtualClock) -> None:
    link = Link(clock)

    def restart(*, killed: bool = False) -> None:
        link.dead.append((clock.monotonic(), 1e9))

    said = (
        r"no datagram from 198.18.1.1 \(nfv-abc123-pod1\) arrived at 198.18.1.2 \(nfv-abc123-pod2\) within 30 s "
        r"after a restart of the DUT; topology 'node-2-veth'"
    )
    with pytest.raises(DutFailure, match=said):
        ReconnectTime(context(clock, Listed()), ("pod1", "pod2")).read(live(clock, link, restart), None)


def test_who_was_not_connected_before_is_a_broken_testbed(clock: VirtualClock) -> None:
    link = Link(clock, dead=[(0.0, 1e9)])
    with pytest.raises(TestbedError, match="within 10 s before a restart of the DUT"):
        ReconnectTime(context(clock, Listed()), ("pod1", "pod2")).read(live(clock, link, lambda **_: None), None)


def test_a_dut_that_nobody_restarts_is_a_skip(clock: VirtualClock) -> None:
    parts = SimulatedBackend(TESTBED)
    datapath = parts.make_datapath(TESTBED_DUT)
    for watch, restart in ((parts.watch_path, lambda **_: None), (Link(clock).watch, datapath.restart)):
        deployed = live(clock, None, restart)
        deployed.deployment.watch_path = watch
        with pytest.raises(UnavailableError, match=r"nobody (here|who) can restart the"):
            ReconnectTime(context(clock, Listed()), ("pod1", "pod2")).read(deployed, None)


@pytest.mark.parametrize(
    ("arrived", "gap"),
    [([], 90), ([5], 95), ([5, 40, 90], 50), ([20, 30], 70), ([10, 99], 89), ([9, 11, 12, 120], 88)],
)
def test_a_gap_lasts_from_the_last_arrival_to_the_next(arrived: list[int], gap: int) -> None:
    assert longest_gap_ns(arrived, 10, 100) == gap
