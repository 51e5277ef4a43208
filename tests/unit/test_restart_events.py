"""Events that restart or upgrade a DUT: what they ask of it, in which order, and what they refuse at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from listed_sink import Listed

from pytest_nfvperf import events
from pytest_nfvperf.backends.simulated import SimulatedBackend
from pytest_nfvperf.measure.events import EventMaker
from pytest_nfvperf.measure.rig import Deployment, LiveTopology
from pytest_nfvperf.measure.trials import Recorder
from pytest_nfvperf.model.errors import ArgumentError, UnavailableError
from pytest_nfvperf.model.testbed.testbed import TESTBED_DUT, DatapathInfo
from pytest_nfvperf.model.topology.topology import Topology
from pytest_nfvperf.ports.datapath import Datapath, Operation
from tests.sample_run import TESTBED


class Noted(Datapath):
    """A DUT that notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.version = "old"

    def info(self) -> DatapathInfo:
        return DatapathInfo("dpdk", self.version, None, "noted")

    def build(self, topology: Topology) -> Any: ...

    def check_alive(self) -> None: ...

    def close(self) -> None: ...

    def operation(self, name: str, **details: str) -> Operation:
        words = " ".join([name, *details.values()])
        self.done.append(f"prepared {words}")

        def act() -> None:
            self.version = details.get("to", self.version)
            self.done.append(words)

        def undo() -> None:
            self.version = "old"
            self.done.append(f"undone {words}")

        lasts = name in {"upgrade", "take the controller from"} or "restored" in details.values()
        return Operation(act, undo if lasts else None)


def live_on(dut: Datapath | None, done: list[str]) -> LiveTopology:
    runner: Any = type("Runner", (), {"recorder": Recorder("r", [Listed()], SimulatedBackend(TESTBED).clock)})
    nothing: Any = None
    deployment = Deployment(nothing, DatapathInfo("dpdk", "old", None, ""), None, runner, nothing, nothing, dut=dut)
    topology: Any = type("T", (), {"name": "t", "ports": ()})
    return LiveTopology(topology, 0, current=deployment, configure=lambda _: done.append("set up"))


@pytest.mark.parametrize(
    ("event", "happens"),
    [
        (events.restart, ["prepared restart lost", "|", "restart lost", "set up"]),
        (events.kill, ["prepared kill", "|", "kill", "set up"]),
        (
            partial(events.restart, flows="restored"),  # what that loses stays lost during the trial
            ["prepared restart restored", "|", "restart restored", "|", "undone restart restored", "set up"],
        ),
        (
            partial(events.restart, flows="restored", controller=True),
            [
                *("prepared give a controller to secure", "give a controller to secure", "set up"),
                *("prepared restart restored", "|", "restart restored", "|", "undone restart restored", "set up"),
            ],
        ),
        (events.restart_database, ["prepared restart the database of", "|", "restart the database of"]),
        (
            partial(events.lose_controller, fail_mode="standalone"),
            [
                *("prepared take the controller from standalone", "set up", "|"),
                *("take the controller from standalone", "|", "undone take the controller from standalone", "set up"),
            ],
        ),
    ],
)
def test_what_happens_before_in_and_after_a_trial(event: EventMaker, happens: list[str]) -> None:
    dut = Noted()
    made = event(live_on(dut, dut.done))
    dut.done.append("|")
    made.act()
    if made.undo is not None:
        dut.done.append("|")
        made.undo()
    assert dut.done == happens


def test_an_upgraded_dut_is_what_it_says_until_it_is_undone() -> None:
    dut = Noted()
    live = live_on(dut, dut.done)
    made = events.upgrade(live, to="new")
    assert (made.name, live.deployment.datapath.version) == ("upgrade to new", "old")
    made.act()
    assert live.deployment.datapath.version == "new"
    assert made.undo is not None
    made.undo()
    assert live.deployment.datapath.version == "old"


@pytest.mark.parametrize(
    ("event", "refused"),
    [
        (events.restart, "restart"),
        (events.kill, "kill"),
        (partial(events.upgrade, to="new"), "upgrade"),
        (events.restart_database, "restart the database of"),
        (events.lose_controller, "take the controller from"),
    ],
)
def test_a_dut_that_cannot_is_refused_at_once(event: EventMaker, refused: str) -> None:
    simulated = SimulatedBackend(TESTBED).make_datapath(TESTBED_DUT)
    with pytest.raises(UnavailableError, match=f"^nobody here can {refused} the datapath 'dpdk'$"):
        event(live_on(simulated, []))
    with pytest.raises(UnavailableError, match="nothing can be done to the DUT of topology 't'"):
        event(live_on(None, []))


@pytest.mark.parametrize(
    ("event", "argument"),
    [
        (partial(events.restart, flows="kept"), "flows"),
        (partial(events.upgrade, to=""), "to"),
        (partial(events.lose_controller, fail_mode="open"), "fail_mode"),
    ],
)
def test_a_mistake_is_named(event: EventMaker, argument: str) -> None:
    with pytest.raises(ArgumentError, match=argument):
        event(live_on(Noted(), []))
