"""Events: what is done to a DUT while frames flow.

A function that makes one takes the live topology it happens on, and refuses before anything is measured what this DUT
cannot do. Its name is the event's name in tables and records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from pytest_nfvperf.measure.call_arguments import Live
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.arguments import Name, checked, number
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.ports.generator import OWN_RING

EVENT_AT_S = 0.5
"""When an event of an outage happens, seconds after the trial begins to send: by then the rate is known."""

ForS = Annotated[float, number(0, 3600, "seconds")] | None


@checked()
@dataclass(frozen=True, slots=True)
class Event:
    """An event during a trial.

    Attributes:
        name: of tables and records.
        at_s: seconds after the trial begins to send.
        act: causes it, and returns when the DUT has taken it.
        undo: called after the trial, so that the same can happen again; None where nothing is to be undone.
        for_s: ``undo`` is called in the trial instead, so long after ``act`` has returned.
    """

    name: Name
    at_s: Annotated[float, number(0)]
    act: Callable[[], object]
    undo: Callable[[], object] | None = None
    for_s: ForS = None


def cause(
    run: Callable[..., Trial], events: Sequence[Event], done: Callable[[bool], object] = bool
) -> tuple[Trial, dict[str, int]]:
    """Run a trial and cause the events in it; returns when each began, by its name, CLOCK_MONOTONIC.

    ``run``: ``TrialRunner.run_once`` without ``begins``. ``done``: called once all events have returned, with False if
    one failed: its error is raised after the trial has ended.
    """
    begun: Future[None] = Future()
    began_ns: dict[str, int] = {}
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="trial") as thread:
        running = thread.submit(run, begins=lambda: begun.set_result(None))
        # Times count from when the trial is about to send: before that it may wait seconds for the host.
        either: list[Future[Any]] = [begun, running]
        wait(either, return_when=FIRST_COMPLETED)
        begin, ok = time.monotonic(), False
        try:
            for event in events:
                wait([running], max(0.0, begin + event.at_s - time.monotonic()))
                if running.done():
                    break  # a trial that ends early was refused; its result has the reason
                began_ns[event.name] = time.monotonic_ns()
                event.act()
                if event.for_s is not None and event.undo is not None:
                    wait([running], event.for_s)
                    event.undo()
            ok = True
        finally:
            done(ok)
        return running.result(), began_ns


EventMaker = Callable[[LiveTopology], Event]
"""Makes an event on a live topology. UnavailableError where this DUT cannot do it, ArgumentError for a mistake."""


def _operation(live: LiveTopology, event: str, name: str, *, set_up: bool = False, **details: str) -> Event:
    """An event that is an operation of the DUT.

    After ``undo``, and with ``set_up`` after ``act``, the test sets up its own parts of the DUT, as a controller would.
    """
    dut = live.deployment.dut
    if dut is None:
        raise UnavailableError(f"nothing can be done to the DUT of topology {live.name!r} while frames flow")
    done = dut.operation(name, **details)

    def operate(act: Callable[[], object], *, set_up: bool) -> None:
        act()
        live.deployment.datapath, live.deployment.samplers = dut.info(), dut.samplers()  # perhaps of another version
        if set_up:
            live.apply_configure(live.runner.recorder)

    undo = None if done.undo is None else partial(operate, done.undo, set_up=True)
    return Event(event, EVENT_AT_S, partial(operate, done.act, set_up=set_up), undo)


@checked("events.restart")
def restart(live: Live, flows: Literal["restored", "lost"] = "lost", controller: bool = False) -> Event:
    """Restart vswitchd.

    ``flows``: "lost": vswitchd starts without flows, and gets them at once from us, as from a controller. "restored":
    as ``ovs-ctl restart`` does, with flow-restore-wait. What that loses belongs to the outage, and stays lost until the
    trial has ended: meters, all flows of a bridge with a controller, or with one flow that has a meter.

    ``controller``: the bridges get one of the run's, which adds no flow after a restart.
    """
    if controller:
        _operation(live, "controller given", "give a controller to", set_up=True, fail_mode="secure").act()
    return _operation(live, f"restart, flows {flows}", "restart", set_up=flows == "lost", flows=flows)


@checked("events.kill")
def kill(live: Live) -> Event:
    """Kill vswitchd by SIGKILL. We start it at once, as a supervisor does, and add its flows."""
    return _operation(live, "kill", "kill", set_up=True)


@checked("events.upgrade")
def upgrade(live: Live, to: Name) -> Event:
    """Upgrade OVS in place, under its ports and flows, to another version; after the trial it goes back.

    As ``ovs-ctl restart`` of the new version does: the database is converted, and flows are restored.

    ``to``: a name of ``--nfv-ovs NAME=WHERE`` or of the testbed file; an older version is a downgrade.
    """
    return _operation(live, f"upgrade to {to}", "upgrade", to=to)


@checked("events.reconnect")
def reconnect(live: Live, port: Name) -> Event:
    """A far end hangs up and listens again at once, as a VM that restarts: OVS, the client, has to connect again.

    ``port``: a vhost-user port of the generator. With OVS as the server (dpdkvhostuser) no port of ours connects.
    """
    generator = live.deployment.generator
    if generator is None or generator.sending().get(port) != OWN_RING:
        raise UnavailableError(f"port {port!r} is no vhost-user port of the generator whose far end could hang up")

    def act() -> None:
        generator.set_link(port, up=False)
        generator.set_link(port, up=True)

    return Event(f"reconnect of {port}", EVENT_AT_S, act)


@checked("events.restart_database")
def restart_database(live: Live) -> Event:
    """Restart ovsdb-server alone. Forwarding goes on; the event ends when vswitchd is connected again."""
    return _operation(live, "restart of the database", "restart the database of")


@checked("events.lose_controller")
def lose_controller(live: Live, fail_mode: Literal["secure", "standalone"] = "secure") -> Event:
    """Take away the bridges' controller, which is one of the run's; after the trial it is there again.

    ``fail_mode``: "secure": the flows stay. "standalone": after 3 s (three inactivity probes of 1 s) OVS removes them
    and learns MAC addresses.
    """
    event = _operation(live, f"controller lost, {fail_mode}", "take the controller from", fail_mode=fail_mode)
    live.apply_configure(live.runner.recorder)  # OVS removed the flows for the new controller
    return event
