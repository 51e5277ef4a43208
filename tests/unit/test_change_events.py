"""Events that change a DUT: what cannot be done is refused at once; what is done is undone."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from pytest_nfvperf import events
from pytest_nfvperf.measure.events import Event, cause
from pytest_nfvperf.measure.rig import Deployment, LiveTopology, Service
from pytest_nfvperf.model.errors import ArgumentError, UnavailableError
from pytest_nfvperf.model.testbed.testbed import DatapathInfo
from pytest_nfvperf.model.topology.bridges import rules
from pytest_nfvperf.model.topology.compose import compose, phy2phy
from pytest_nfvperf.model.topology.parts import endpoint
from pytest_nfvperf.model.traffic.trial import Direction
from pytest_nfvperf.ports.datapath import BuiltTopology

TWO_PMDS = """pmd thread numa_id 0 core_id 2:
  isolated : false
  port: p0                queue-id:  0 (enabled)   pmd usage:  0 %
  port: p0                queue-id:  1 (enabled)   pmd usage:  0 %
pmd thread numa_id 0 core_id 5:
  isolated : false
  port: p1                queue-id:  0 (enabled)   pmd usage:  0 %
"""
ONE_PMD = TWO_PMDS.partition("pmd thread numa_id 0 core_id 5")[0]


class Built(BuiltTopology):
    """Answers as told, by the first words of what is asked, and remembers what was asked."""

    def __init__(self, topology: Any, answers: dict[str, str]) -> None:
        self.topology, self.answers = topology, answers
        self.asked: list[str] = []

    def ovs(self, program: str, *arguments: str, lines: Sequence[str] = ()) -> str:
        self.asked.append(" ".join([program, *arguments, *lines]))
        return next((answer for words, answer in self.answers.items() if self.asked[-1].startswith(words)), "")

    def interface_names(self) -> dict[str, str]:
        return {"p0": "p0", "p1": "p1"}

    def attachments(self) -> dict[str, str | None]:
        return {}

    def wait_ready(self, deadline_s: float) -> None: ...

    def configuration(self) -> str:
        return ""

    def close(self) -> None: ...


def live_on(answers: dict[str, str], topology: Any = None, kind: str = "dpdk") -> tuple[Any, Built]:
    built = Built(topology or phy2phy(), answers)
    nothing: Any = None
    deployed = Deployment(built, DatapathInfo(kind, "3.1.0", None, ""), None, None, nothing, nothing)
    return LiveTopology(built.topology, 1, current=deployed), built


def pmds(shown: str) -> dict[str, str]:
    return {"appctl dpif-netdev/pmd-rxq-show": shown}


@pytest.mark.parametrize(
    ("make", "answers", "says"),
    [
        (events.change_pmd_cpus, pmds(ONE_PMD), "polls on CPU 2 alone"),
        (events.change_pmd_cpus, {}, "no polling threads"),
        (partial(events.rebalance_rxqs, auto=True), pmds(ONE_PMD), "polls on CPU 2 alone"),
        (lambda live: events.move_rxqs(live, "p0"), pmds(ONE_PMD), "polls on CPU 2 alone"),
        (
            lambda live: events.move_rxqs(live, "p0"),
            pmds(TWO_PMDS.replace("port: p1", "port: p0")),
            "on all CPUs that the DUT polls on",
        ),
        (events.rebalance_rxqs, {}, "no polling threads"),
        (lambda live: events.link_down(live, "p0"), {}, "cannot take the link of port 'p0' down"),
        (lambda live: events.cut_tunnel(live, "p0"), {}, "no tunnel between two nodes"),
        (events.add_port, {"vsctl get Interface": "could not open (Not a directory)"}, "makes no further port"),
    ],
)
def test_what_this_dut_cannot_do_is_refused_before_anything_is_measured(
    make: Callable[[Any], Any], answers: dict[str, str], says: str
) -> None:
    with pytest.raises(UnavailableError, match=says):
        make(live_on(answers)[0])


@pytest.mark.parametrize("make", [events.change_pmd_cpus, events.rebalance_rxqs])
def test_the_kernel_has_no_polling_threads(make: Callable[[Any], Any]) -> None:
    with pytest.raises(UnavailableError, match="the kernel forwards"):
        make(live_on(pmds(TWO_PMDS), kind="system")[0])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda live: events.add_flows(live, 0), "add_flows(): flows is 0"),
        (lambda live: events.add_flows(live, bundle="yes"), "bundle is 'yes': write True or False"),
        (lambda live: events.add_flows(live, for_s=-1), "for_s is -1"),
        (
            lambda live: events.move_rxqs(live, "p9"),
            "events.move_rxqs(): topology 'phy2phy' has no port 'p9': write one of p0, p1",
        ),
        (lambda live: events.link_down(live, "p9"), "events.link_down(): topology 'phy2phy' has no port 'p9'"),
        (lambda live: events.cut_tunnel(live, "p9"), "events.cut_tunnel(): topology 'phy2phy' has no port 'p9'"),
        (lambda live: events.change_rule(live, "type=all"), "no rules(...) of topology 'phy2phy' have 'type=all'"),
        (lambda live: events.change_rule(live, "group_id=8,type=all"), "have 'group_id=8'"),
        (lambda live: events.change_rule(live, "meter=30,kbps"), "have 'meter=30'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_measured(make: Callable[[Any], Any], says: str) -> None:
    lines = "group_id=80,type=all,bucket=output:p1\nmeter=3,kbps,bands=type=drop,rate=100"
    topology = dataclasses.replace(phy2phy(), rules=(rules("br0", flows=lines),))
    with pytest.raises(ArgumentError, match=re.escape(says)):
        make(live_on(pmds(TWO_PMDS), topology)[0])


def test_flows_of_a_service_are_left_alone() -> None:
    class Controller(Service):
        owns_flows = True

        def close(self) -> None: ...

    live, _ = live_on({})
    live.deployment.services.append(Controller())
    for make in (events.replace_flows, events.add_flows):
        with pytest.raises(UnavailableError, match="those of a service"):
            make(live)


def test_an_event_is_called_after_what_it_does() -> None:
    live, _ = live_on(pmds(TWO_PMDS))
    made = (
        events.replace_flows(live, bundle=True),
        events.add_flows(live, 1000, for_s=0.5),
        events.change_pmd_cpus(live),
        events.move_rxqs(live, "p0"),
    )
    assert [event.name for event in made] == [
        "replacement of 0 flows at once",
        "1,000 flows added for 500 ms",
        "no polling on CPU 5",
        "queues of p0 moved",
    ]


def test_a_setting_is_put_back_with_all_that_was_there() -> None:
    live, built = live_on(pmds(TWO_PMDS) | {"vsctl get": '{pmd-cpu-mask="0x24", tx-flush="0"}\n'})
    event = events.change_pmd_cpus(live, for_s=0.5)
    built.asked.clear()
    event.act()
    assert event.undo is not None
    event.undo()
    assert built.asked == [
        'vsctl set Open_vSwitch . other_config:pmd-cpu-mask="0x4"',
        'vsctl set Open_vSwitch . other_config={pmd-cpu-mask="0x24", tx-flush="0"}',
    ]


@pytest.mark.parametrize(("for_s", "happens"), [(None, ["act"]), (0.001, ["act", "undo"])])
def test_a_change_for_some_time_is_undone_within_the_trial(for_s: float | None, happens: list[str]) -> None:
    done: list[str] = []
    event = Event("change", 0.0, partial(done.append, "act"), partial(done.append, "undo"), for_s)
    ended = Future[Any]()

    def run(begins: Callable[[], object]) -> Any:
        begins()
        return ended.result(5)

    cause(run, [event], lambda ok: ended.set_result(done.append("ended") if ok else None))
    assert done == [*happens, "ended"]


def test_all_queues_of_a_port_move_together() -> None:
    live, built = live_on(pmds(TWO_PMDS))
    events.move_rxqs(live, "p0").act()
    assert built.asked[-1] == 'vsctl set Interface p0 other_config:pmd-rxq-affinity="0:5,1:5"'


def test_flows_are_put_back_as_they_were() -> None:
    dump = "OFPST_FLOW reply (OF1.4) (xid=0x2):\n cookie=0x7, priority=100,in_port=p0 actions=output:p1\n"
    live, built = live_on({"ofctl dump-flows": dump})
    own = "cookie=0x7, priority=100,in_port=p0,actions=output:p1"
    events.replace_flows(live).act()
    assert built.asked[-1] == f"ofctl add-flows br0 - {own}"
    event = events.add_flows(live, 2, bundle=True)
    event.act()
    assert built.asked[-1].split()[:5] == ["ofctl", "add-flows", "br0", "--bundle", "-"]
    assert len(set(built.asked[-1].split()[5:])) == 2
    assert event.undo is not None
    event.undo()
    assert built.asked[-1] == f"ofctl replace-flows br0 --bundle - {own}"


def test_an_event_without_a_bridge_takes_the_one_that_frames_enter() -> None:
    topology = compose("two", endpoint("p0", "brA"), endpoint("p1", "brB"), "brA", "brB", Direction("p1", "p0"))
    live, built = live_on({}, topology)
    events.replace_flows(live)
    assert built.asked == ["ofctl dump-flows brB --no-stats"]
