"""The far end: this package on another machine makes a node's OVS there, and answers until the channel closes.

What it makes it notes in a journal of that machine. It removes all of it when it is asked to, when the channel closes,
when nothing was heard for ``LEASE_S`` (a cable that was pulled closes no channel), and when a next run starts there, or
``nfvperf clean``, where it was killed.

Questions are pickled: whoever may ask may run anything here anyway. Answers are builtin types, which execnet checks.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from pytest_nfvperf.adapters.cleanup.reaper import open_journal, reap
from pytest_nfvperf.adapters.far.answering import FarNode
from pytest_nfvperf.adapters.host.cpus import planned
from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.process.lock import MeasurementLock
from pytest_nfvperf.model.errors import ConfigError, NfvperfError, TestbedError
from pytest_nfvperf.model.testbed.testbed import CpuPlan, Testbed

LEASE_S = 60.0
"""Without a word for so long the other end is gone."""

ALIVE = b""
"""What the other end says to be heard, beside its questions."""

_TURN_S = 20.0
"""How long to wait for who has the CPUs: a run whose channel closed just now still removes what it made."""


class Channel(Protocol):
    """execnet's, as far as it is used here."""

    TimeoutError: type[Exception]

    def send(self, item: object) -> None:
        """OSError when it is closed."""
        ...

    def receive(self, timeout: float | None = None) -> Any:
        """EOFError when it is closed, TimeoutError after the timeout, in s."""
        ...


class Machine:
    """This machine, taken for a node: its CPUs are locked, and what dead runs left is removed."""

    def __init__(self, testbed: Testbed) -> None:
        """TestbedError: somebody else measures on these CPUs."""
        plan = planned(replace(testbed, cpus=CpuPlan((), testbed.cpus.pmd, ())))
        self.testbed = replace(plan, cpus=replace(plan.cpus, generator=(), vnf=()))
        self._affinity = os.sched_getaffinity(0)
        self.journal: Journal = open_journal()
        self._lock: MeasurementLock | None = None
        try:
            self._lock = MeasurementLock(self.testbed.cpus.pmd, self.journal.tag, wait_s=_TURN_S)
            reap()
            os.sched_setaffinity(0, self.testbed.cpus.housekeeping)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove what is left of the run, and let go of the CPUs. Can be called twice."""
        with suppress(OSError):  # who manages containers may have taken CPUs away meanwhile
            os.sched_setaffinity(0, self._affinity)
        try:
            self.journal.close()
        finally:
            if self._lock is not None:
                self._lock.close()


def serve(channel: Channel) -> None:
    """Answer until the channel closes, then remove all that was made."""
    # Once the channel closed execnet waits 5 s for us, then sends SIGINT, and ends the process 10 s later.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    node = FarNode(Machine)
    try:
        while True:
            asked = channel.receive(LEASE_S)
            if asked != ALIVE:
                channel.send(_answer(node, asked))
    except (EOFError, OSError, channel.TimeoutError):
        return
    finally:
        node.close()


def _answer(node: FarNode, asked: bytes) -> tuple[object, ...]:
    """The question's number, and ``"ok", value, ns it took`` or ``"error", kind, message, evidence, key``."""
    began = time.monotonic_ns()
    number, method, arguments = pickle.loads(asked)  # noqa: S301 - of who runs code here anyway
    try:
        value = getattr(node, method)(*arguments)
    except NfvperfError as error:
        return number, *_error(error)
    except Exception:  # noqa: BLE001 - told to the other end, which raises it
        told = TestbedError(f"{method} failed there, and should not", evidence={"traceback": traceback.format_exc()})
        return number, *_error(told)
    return number, "ok", value, time.monotonic_ns() - began


def _error(error: NfvperfError) -> tuple[object, ...]:
    message = error.message if isinstance(error, ConfigError | TestbedError) else str(error)
    evidence = error.evidence if isinstance(error, TestbedError) else {}
    return "error", type(error).__name__, message, dict(evidence), error.key if isinstance(error, ConfigError) else None
