"""A run of pytest, or of nfvperf itself, as a child that ends in good order whatever becomes of us."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pytest_nfvperf.model.errors import TestbedError

_END_S = 90.0
"""A run that is asked to end takes its testbed down and writes its report."""


def run_child(argv: Sequence[str], log: Path) -> int:
    """Run it with its output in ``log``; returns its exit status.

    It has a process group of its own: Ctrl-C is for us, who then ask it to end, and wait. If we are killed, the kernel
    sends it SIGTERM, upon which it removes what it made.

    Raises:
        TestbedError: it cannot be started.
    """
    command = ["setpriv", "--pdeathsig", "TERM", *argv]
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, process_group=0
            )
    except OSError as error:
        raise TestbedError(f"cannot start {argv[0]}: {error.strerror}: {error.filename}") from error
    try:
        return child.wait()
    finally:
        if child.poll() is None:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        child.wait(_END_S)
        return
    child.kill()
    child.wait()
