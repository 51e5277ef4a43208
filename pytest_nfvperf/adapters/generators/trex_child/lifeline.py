"""Ends this process when nobody is left who would release its ports.

The process that the parent starts only waits: PyPI's client library answers a fault of its subscriber
with SIGTERM to its parent's process group, which must not be pytest's. The worker below it does the work.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

from pytest_nfvperf.adapters.generators.trex_child.failures import Stopped

RELEASE_DEADLINE_S = 12.0
"""How long a worker may try to stop its traffic and release its ports before it ends all the same."""

_PR_SET_PDEATHSIG = 1  # prctl(2)
_CODE_GIVEN_UP = 3


def split() -> None:
    """Fork: the parent waits for the child, which returns from here as the worker."""
    leader = os.getpid()
    die_with_parent(signal.SIGKILL)
    worker = os.fork()
    if worker:
        _wait_for(worker)
    die_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, _stop)
    if os.getppid() != leader:  # it ended before prctl took hold
        os._exit(_CODE_GIVEN_UP)


def die_with_parent(number: signal.Signals) -> None:
    """Ask the kernel for this signal when the thread that made this process ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def end_soon() -> None:
    """Interrupt the main thread so that it releases what it holds; end by force where it hangs."""
    give_up_later()
    os.kill(os.getpid(), signal.SIGTERM)


def give_up_later() -> None:
    """End by force after the deadline, whatever hangs by then."""
    timer = threading.Timer(RELEASE_DEADLINE_S, os._exit, (_CODE_GIVEN_UP,))
    timer.daemon = True
    timer.start()


def _wait_for(worker: int) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for stream in (sys.stdin, sys.stdout):
        os.close(stream.fileno())  # else nobody would see the worker close its own
    _, status = os.waitpid(worker, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal.signal calls it
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: what follows must not be interrupted again
    raise Stopped
