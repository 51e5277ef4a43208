"""dpdk-testpmd looping frames through the same two ports: the figure that the field would compare with."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

_RX = re.compile(r"RX-packets:\s*(\d+)")
_BURSTS = 32
_DEADLINE_S = 40.0


@contextmanager
def looping(devices: Sequence[str], cpu: int, prefix: str) -> Iterator[subprocess.Popen[str]]:
    """Testpmd in mac mode on these devargs, frames already going round."""
    lcores = f"0@{cpu},1@{cpu}"
    vdevs = [part for number, device in enumerate(devices) for part in ("--vdev", _numbered(device, number))]
    eal = ["--lcores", lcores, "--in-memory", "--single-file-segments", "--no-pci", "--no-telemetry"]
    # Its counters are printed into a buffer of 4 KiB when standard output is a pipe, and would never come.
    argv = ["stdbuf", "-oL", "dpdk-testpmd", *eal, "--file-prefix", prefix, "--socket-mem", "512", *vdevs, "--"]
    options = ["-i", "--forward-mode=mac", "--txd=512", "--rxd=1024", "--total-num-mbufs=65536"]
    process = subprocess.Popen(
        [*argv, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    # A testpmd that never gets its ports would be waited for without end; killed, its reader sees the end of file.
    watchdog = threading.Timer(_DEADLINE_S, process.kill)
    watchdog.start()
    try:
        _wait_for(process.stdout, "testpmd>")
        _say(process, f"start tx_first {_BURSTS}")
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()


def rate_fps(process: subprocess.Popen[str], seconds: float) -> float:
    """Frames/s received per port over this time, from testpmd's own counters and our clock."""
    first, started = _received(process), time.monotonic()
    time.sleep(seconds)
    last, ended = _received(process), time.monotonic()
    return (last - first) / (ended - started) / 2


def _received(process: subprocess.Popen[str]) -> int:
    _say(process, "show port stats all")
    counts: list[int] = []
    assert process.stdout is not None
    for line in process.stdout:
        if found := _RX.search(line):
            counts.append(int(found[1]))
            if len(counts) == 2:
                return sum(counts)
    raise RuntimeError("dpdk-testpmd ended")


def _numbered(device: str, number: int) -> str:
    driver, _, rest = device.partition(",")
    return f"{driver}{number},{rest}"


def _say(process: subprocess.Popen[str], command: str) -> None:
    assert process.stdin is not None
    process.stdin.write(command + "\n")
    process.stdin.flush()


def _wait_for(stream: IO[str] | None, prompt: str) -> None:
    assert stream is not None
    seen = ""
    while prompt not in seen:
        character = stream.read(1)
        if not character:
            raise RuntimeError(f"dpdk-testpmd ended before it was ready: {seen[-500:]}")
        seen += character
