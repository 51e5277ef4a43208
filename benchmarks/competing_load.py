"""Processes that compute beside a measurement, on purpose."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SPIN = "while True: pass"

THIRD = """
import time
while True:
    until = time.monotonic() + 0.01
    while time.monotonic() < until: pass
    time.sleep(0.02)
"""
"""10 ms of every 30."""

COPY = "a = bytearray(1 << 28); b = bytearray(1 << 28)\nwhile True: a[:] = b"
"""Moves more than any cache holds."""


@contextmanager
def runs(code: str, cpu: int) -> Iterator[None]:
    """A process that runs this on a CPU."""
    program = f"import os; os.sched_setaffinity(0, {{{cpu}}}); print(flush=True)\n{code}"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()
