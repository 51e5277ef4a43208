"""A signal that stops the run between a child's start and the moment at which somebody keeps it."""

from __future__ import annotations

import gc
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from pytest_nfvperf.adapters.machine.reaper import open_journal
from pytest_nfvperf.adapters.process.process import Child, deferred_signals, process_state, spawn
from tests.functional.ovs_support import run_base


class AskedToStopError(Exception):
    """What the signal raises."""


def asked(number: int, frame: FrameType | None) -> None:
    raise AskedToStopError


@contextmanager
def stopping_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("pipes", [subprocess.PIPE, subprocess.DEVNULL])
def test_a_child_that_was_lost_is_ended_without_a_warning(pipes: int) -> None:
    """Any warning would fail this test: pytest collects those of finalizers, too."""
    child = Child(["sleep", "60"], stdin=pipes, stdout=pipes)
    pid = child.pid
    assert process_state(pid) != "gone"
    del child
    gc.collect()
    assert process_state(pid) == "gone"


def test_one_that_could_not_be_started_has_nothing_to_end(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Child([str(tmp_path / "nothing")])
    gc.collect()


def test_a_signal_that_came_while_it_was_started_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits until the child is noted, and then comes before spawn() has returned it."""
    pids = []

    def started(*args: object, **options: object) -> Child:
        child = Child(*args, **options)  # type: ignore[arg-type]
        pids.append(child.pid)
        signal.raise_signal(signal.SIGALRM)
        return child

    with run_base() as base, stopping_by(asked):
        journal = open_journal(base)
        monkeypatch.setattr("pytest_nfvperf.adapters.process.process.Child", started)
        with pytest.raises(AskedToStopError):
            spawn(journal, "sleeper", ["sleep", "60"], log=base / "log")
        gc.collect()
        assert process_state(pids[0]) == "gone"
        journal.close()


def test_held_signals_come_at_the_end() -> None:
    came = []
    with stopping_by(lambda number, _: came.append(number)):
        with deferred_signals():
            signal.raise_signal(signal.SIGALRM)
            assert came == []
        assert came == [signal.SIGALRM]
