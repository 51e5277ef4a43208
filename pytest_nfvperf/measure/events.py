"""Events: what is done to a DUT while frames flow.

A function that makes one takes the live topology it happens on, and refuses before anything is measured what this DUT
cannot do. Its name is the event's name in tables and records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pytest_nfvperf.measure.call_arguments import Live
from pytest_nfvperf.measure.rig import LiveTopology
from pytest_nfvperf.measure.trials import Trial
from pytest_nfvperf.model.arguments import Name, checked, number
from pytest_nfvperf.model.disturbance.trial import TrialResult
from pytest_nfvperf.model.errors import UnavailableError
from pytest_nfvperf.model.traffic.trial import TrialSpec
from pytest_nfvperf.ports.datapath import Datapath
from pytest_nfvperf.ports.generator import OWN_RING

EVENT_AT_S = 0.5
"""When an event of an outage happens, seconds after the trial begins to send: by then the rate is known."""


@checked()
@dataclass(frozen=True, slots=True)
class Event:
    """An event during a trial.

    Attributes:
        name: of tables and records.
        at_s: seconds after the trial begins to send.
        act: causes it, and returns when the DUT has taken it.
        undo: called after the trial, so that the same can happen again; None where nothing is to be undone.
    """

    name: Name
    at_s: Annotated[float, number(0)]
    act: Callable[[], object]
    undo: Callable[[], object] | None = None


def cause(
    live: LiveTopology,
    spec: TrialSpec,
    events: Sequence[Event],
    repeat_of: str | None = None,
    *,
    execute: Callable[[TrialSpec], TrialResult] | None = None,
    done: Callable[[bool], object] = bool,
    anywhere: bool = True,
) -> tuple[Trial, dict[str, int]]:
    """Run a trial and cause the events in it; returns when each began, by its name, CLOCK_MONOTONIC.

    ``execute``, ``anywhere``: as ``TrialRunner.run_once``. ``done``: called once all events have returned, with False
    if one failed: its error is raised after the trial has ended.
    """
    begun: Future[None] = Future()
    began_ns: dict[str, int] = {}
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="trial") as thread:
        running = thread.submit(
            live.runner.run_once,
            spec,
            repeat_of=repeat_of,
            execute=execute,
            begins=lambda: begun.set_result(None),
            anywhere=anywhere,
        )
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
            ok = True
        finally:
            done(ok)
        return running.result(), began_ns


EventMaker = Callable[[LiveTopology], Event]
"""Makes an event on a live topology. UnavailableError where this DUT cannot do it, ArgumentError for a mistake."""


def _dut(live: LiveTopology) -> Datapath:
    dut = live.deployment.dut
    if dut is None:
        raise UnavailableError(f"nothing can be done to the DUT of topology {live.name!r} while frames flow")
    return dut


def _set_up_after(live: LiveTopology, act: Callable[[], object]) -> Callable[[], None]:
    """The action, after which the test sets its own parts of the DUT up again, as a controller would."""

    def act_and_set_up() -> None:
        act()
        live.apply_configure(live.runner.recorder)

    return act_and_set_up


@checked("events.restart")
def restart(live: Live, flows: Literal["restored", "lost"] = "lost", controller: bool = False) -> Event:
    """Restart vswitchd.

    ``flows``: "lost": vswitchd starts without flows, and gets them at once from us, as from a controller. "restored":
    as ``ovs-ctl restart`` does: the flows are saved, ovsdb-server and vswitchd are restarted, and the flows restored
    before any frame passes (flow-restore-wait). What that loses stays lost until the trial has ended, because it
    belongs to the outage: meters, all flows of a bridge that has one flow with a meter, all flows of a bridge with a
    controller.

    ``controller``: the bridges get one of the run's, which adds no flow after a restart.
    """
    if controller:
        _dut(live).operation("give a controller to", fail_mode="secure").act()
        live.apply_configure(live.runner.recorder)
    done = _dut(live).operation("restart", flows=flows)
    if flows == "lost":
        return Event("restart, flows lost", EVENT_AT_S, _set_up_after(live, done.act))
    return Event("restart, flows restored", EVENT_AT_S, done.act, _set_up_after(live, done.undo or done.act))


@checked("events.kill")
def kill(live: Live) -> Event:
    """Kill vswitchd by SIGKILL. We start it at once, as a supervisor does, and add its flows."""
    return Event("kill", EVENT_AT_S, _set_up_after(live, _dut(live).operation("kill").act))


@checked("events.upgrade")
def upgrade(live: Live, to: Name) -> Event:
    """Upgrade OVS in place, under its ports and flows, to another version; after the trial it goes back.

    As ``ovs-ctl restart`` of the new version does: the database is converted, and flows are restored.

    ``to``: a name of ``--nfv-ovs NAME=WHERE`` or of the testbed file; an older version is a downgrade.
    """
    dut = _dut(live)
    done = dut.operation("upgrade", to=to)

    def changing(act: Callable[[], object]) -> Callable[[], None]:
        def change() -> None:
            act()
            live.deployment.datapath, live.deployment.samplers = dut.info(), dut.samplers()

        return change

    return Event(
        f"upgrade to {to}", EVENT_AT_S, changing(done.act), _set_up_after(live, changing(done.undo or done.act))
    )


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
    return Event("restart of the database", EVENT_AT_S, _dut(live).operation("restart the database of").act)


@checked("events.lose_controller")
def lose_controller(live: Live, fail_mode: Literal["secure", "standalone"] = "secure") -> Event:
    """Take away the bridges' controller, which is one of the run's; after the trial it is there again.

    ``fail_mode``: "secure": the flows stay. "standalone": after 3 s (three inactivity probes of 1 s) OVS removes them
    and learns MAC addresses.
    """
    done = _dut(live).operation("take the controller from", fail_mode=fail_mode)
    live.apply_configure(live.runner.recorder)
    return Event(f"controller lost, {fail_mode}", EVENT_AT_S, done.act, _set_up_after(live, done.undo or done.act))
