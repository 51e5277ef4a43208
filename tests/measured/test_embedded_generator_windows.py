"""Windows and witnesses of a trial, in the engine's protocol (docs/reference/engine-protocol.md)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_nfvperf.adapters.generators.embedded.ceiling import VhostLoop, loop_ports
from pytest_nfvperf.adapters.generators.embedded.generator import EngineOptions
from pytest_nfvperf.model.disturbance.windows import WindowState
from tests.functional.engine_talk import PORT, SECONDS, STREAM, TRIAL, Talk, documented_line, shape, talk, talks
from tests.functional.generator_support import LOOP_CPU, MTU, Rig, embedded_in, loop_in, run_dir, spec

__all__ = ["talk", "talks"]


def test_windows_add_up_to_the_trial(talk: Talk) -> None:
    talk.ask(**PORT)
    stream = {**STREAM, "fps": 100_000, "frames": 20_000}
    answer = talk.ask(cmd="trial", residual_ns=10**8, window_ns=10_000_000, streams=[stream])
    (windows,) = [worker["windows"] for worker in answer["workers"]]
    documented = documented_line("windows")["windows"]
    assert shape(windows) == shape(documented)
    assert windows["columns"] == documented["columns"]
    assert windows["window_ns"] == pytest.approx(10_000_000, rel=1e-6)
    assert 18 <= len(windows["rows"]) <= 32  # 0.2 s of frames; what arrives at once leaves nothing to wait for
    column = {name: [row[at] for row in windows["rows"]] for at, name in enumerate(windows["columns"])}
    told = answer["streams"][0]
    # The last frames fall behind the last whole window; behind more windows if the engine was away when they ended.
    behind = max(1, 21 - len(windows["rows"])) * 1_000 + 100
    for key in ("sent", "refused", "skipped", "received"):
        assert told[key] - behind <= sum(column[key]) <= told[key], key


def test_a_witness_looks_at_the_end_of_each_window(talk: Talk) -> None:
    talk.ask(**PORT)
    stream = {**STREAM, "fps": 100_000, "frames": 20_000}
    answer = talk.ask(cmd="trial", residual_ns=10**8, window_ns=10_000_000, witnesses=[{"cpu": 1}], streams=[stream])
    (witness,) = answer["witnesses"]
    (documented,) = documented_line("witnesses")["witnesses"]
    assert shape(witness) == shape(documented)
    assert witness["columns"] == documented["columns"]
    assert witness["cpu"] == 1
    (windows,) = [worker["windows"] for worker in answer["workers"]]
    assert 0 <= len(witness["rows"]) - len(windows["rows"]) <= 3  # until the last thread has ended
    own = [row[windows["columns"].index("speed")] for row in windows["rows"]]
    seen = [row[1] for row in witness["rows"]]
    assert min(own) > 0
    assert 0.4 < min(own) / min(seen) < 2.5  # the same work: a shared core takes up to twice as long


def test_a_witness_is_late_while_its_cpu_is_taken_away(talk: Talk) -> None:
    """Steps: stop the whole engine for 50 ms in a trial. Verify: the witness is late by it once, and goes on."""
    (witness,) = _trial_with_a_stop(talk, talk.process.pid, witnesses=[{"cpu": 1}])["witnesses"]
    late = [row[0] for row in witness["rows"]]
    assert max(late) > 30_000_000
    assert late[-1] < 10_000_000


@pytest.mark.parametrize("told", [[{"cpu": -1}], [0], [{"cpu": at} for at in range(17)], 1, [{"cpu": 1, "task": 2}]])
def test_witnesses_that_are_none_are_refused(talk: Talk, told: object) -> None:
    talk.ask(**PORT)
    answer = talk.ask(**{**TRIAL, "window_ns": 10_000_000, "witnesses": told}, streams=[STREAM])
    assert answer["error"] == "witnesses must be a list of at most 16 objects with cpu, process, thread"


def test_a_witness_tells_how_long_a_thread_waits_for_its_cpu(talk: Talk) -> None:
    """Steps: two processes spin on one CPU; one is watched. Verify: in all it waits for a good part of the trial."""
    with ExitStack() as stack:
        watched, _ = (stack.enter_context(_spinning_on(1)) for _ in range(2))
        talk.ask(**PORT)
        seen = [{"cpu": 1, "process": watched, "thread": watched}]
        stream = {**STREAM, "fps": 100_000, "frames": 50_000}
        answer = talk.ask(cmd="trial", residual_ns=0, window_ns=10_000_000, witnesses=seen, streams=[stream])
    (witness,) = answer["witnesses"]
    waited = [row[witness["columns"].index("waited_ns")] for row in witness["rows"]]
    assert sum(waited) > 0.2 * len(waited) * 10_000_000
    assert 0 < witness["took_ns"] < 0.1 * len(waited) * 10_000_000


def test_a_witness_tells_a_stopped_thread_from_one_that_sleeps(talk: Talk) -> None:
    """Steps: stop a spinning process for 50 ms in a trial; watch one that sleeps of its own accord, too.

    Verify: the witness of the first sees it stopped for some windows and then no more, that of the other never.
    """
    with _spinning_on(1) as spins, _running("import os, time; print(flush=True); time.sleep(60)") as sleeps:
        watched = [{"cpu": 1, "process": each, "thread": each} for each in (spins, sleeps)]
        told = _trial_with_a_stop(talk, spins, witnesses=watched)["witnesses"]
    stopped, slept = ([row[one["columns"].index("stopped")] for row in one["rows"]] for one in told)
    assert 3 <= sum(stopped) <= 10
    assert stopped[0] == stopped[-1] == 0
    assert not any(slept)


def test_a_pause_that_is_over_before_its_window_is_seen() -> None:
    """Steps: take the CPU of whoever drains the rings for 30 ms in a window of half a second.

    Verify: the witness comes in time at the window's end; it came late when it was asked why frames pile up.
    """
    with run_dir() as directory, _watched_loop(directory) as (rig, _):
        wanted = spec(rig.directions, load_fps=500_000, duration_s=1.0, window_s=0.5)
        for _ in range(10):  # a shared machine may pause just at the window's end, too
            with _taking(LOOP_CPU, after_s=0.2, for_s=0.03):
                windows = rig.generator.run_trial(wanted).windows
            assert windows is not None
            (witness,) = windows.witnesses
            state = windows.states(1.0)[0]
            if witness.late_ns[0] < 10_000_000 and state is not WindowState.ABSENT:
                break
    assert witness.late_ns[0] < 10_000_000
    assert 10_000_000 < witness.asked_late_ns[0] < 250_000_000  # half a window: a shared machine adds its own pauses
    assert witness.asked_speed[0] > 0
    assert state in {WindowState.PAUSED, WindowState.ABSENT}  # this: the host took the generator's CPU each time, too


def test_a_witness_answers_at_once_where_only_the_dut_is_stuck() -> None:
    """Steps: stop whoever drains the rings. Verify: the witness on its CPU comes in time, and is asked no more often
    than frames pile up: as many as wait at most, in steps of a quarter."""
    with run_dir() as directory, _watched_loop(directory) as (rig, loop):
        os.kill(loop.pid, signal.SIGSTOP)
        try:
            result = rig.generator.run_trial(spec(rig.directions, load_fps=500_000, duration_s=0.3, window_s=0.1))
        finally:
            os.kill(loop.pid, signal.SIGCONT)
    assert result.windows is not None
    (witness,) = result.windows.witnesses
    assert 0 < max(witness.asked_late_ns) < 5_000_000
    asked = [late > 0 for late in witness.asked_late_ns[:3]]
    # While the first 4096 frames pile up, which takes 8 ms of a generator that is there.
    assert asked in ([True, False, False], [True, True, False], [False, True, False])


@pytest.mark.parametrize("depth", [-1, 1 << 21])
def test_a_depth_that_cannot_be_is_refused(talk: Talk, depth: int) -> None:
    talk.ask(**PORT)
    answer = talk.ask(**{**TRIAL, "window_ns": 10_000_000, "ask_depth": depth}, streams=[STREAM])
    assert answer["error"] == "ask_depth must be 0..1048576 frames"


@contextmanager
def _watched_loop(directory: Path) -> Iterator[tuple[Rig, VhostLoop]]:
    """Ports that are joined by a process on a CPU with a witness."""
    watching = EngineOptions(witness_cpus=(LOOP_CPU,))
    with loop_in(directory) as loop, embedded_in(directory, options=watching) as generator:
        rig = Rig(generator, tuple(loop_ports(loop.devices, mtu=MTU)))
        rig.attach()
        yield rig, loop


def _taking(cpu: int, *, after_s: float, for_s: float) -> AbstractContextManager[int]:
    """A process that takes the CPU from everybody, witnesses too, once, for so long."""
    return _running(
        f"import os, time; os.sched_setaffinity(0, {{{cpu}}}); os.sched_setscheduler(0, os.SCHED_FIFO, "
        f"os.sched_param(2)); print(flush=True); time.sleep({after_s}); until = time.monotonic() + {for_s}\n"
        "while time.monotonic() < until: pass"
    )


def _trial_with_a_stop(talk: Talk, pid: int, **asked: Any) -> dict[str, Any]:
    """The answer to a trial in windows of 10 ms, in which this process was stopped for 50 ms."""
    talk.ask(**PORT)
    frames = {**SECONDS, "frames": 40_000}
    trial = {"residual_ns": 0, "window_ns": 10_000_000, "interval_ns": 20_000_000, "streams": [frames]}
    talk.send(id=2, cmd="trial", **trial, **asked)
    assert "interval" in talk.read()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.05)
    os.kill(pid, signal.SIGCONT)
    return talk.answer(2)


def _spinning_on(cpu: int) -> AbstractContextManager[int]:
    return _running(f"import os; os.sched_setaffinity(0, {{{cpu}}}); print(flush=True)\nwhile True: pass")


@contextmanager
def _running(code: str) -> Iterator[int]:
    """The id of a process that runs this, and has printed a line."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def test_a_stopped_thread_is_late_in_its_windows(talk: Talk) -> None:
    (windows,) = [worker["windows"] for worker in _trial_with_a_stop(talk, talk.process.pid)["workers"]]
    column = {name: [row[at] for row in windows["rows"]] for at, name in enumerate(windows["columns"])}
    assert max(column["late_ns"]) > 30_000_000
    assert max(column["absent_ns"]) > 40_000_000
    away = column["late_ns"].index(max(column["late_ns"]))
    assert column["absent_ns"][away] > 40_000_000
    assert column["received"][away + 1 : away + 4] == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window_ns": 1000}, "window_ns must be 1000000 or more, or 0 for none"),
        ({"window_ns": 10**6, "streams": [SECONDS]}, "window_ns is too short for this trial: more than 100000 windows"),
    ],
)
def test_windows_that_cannot_be_are_refused(talk: Talk, change: dict[str, Any], message: str) -> None:
    talk.ask(**PORT)
    answer = talk.ask(**{"cmd": "trial", "residual_ns": 0, "streams": [STREAM], **change})
    assert (answer["code"], answer["error"]) == ("bad_request", message)
