"""``python volleys.py CPU CPU SECONDS``: two processes on two CPUs wake one another. Why: ``wakeups``.

It is run as a file and imports nothing of this package, so that it starts at once and stays small.
"""

from __future__ import annotations

import os
import sys
import time


def play(one: int, other: int, seconds: float) -> int:
    """Send a byte to and fro. Each side sleeps until the other has written, so each byte wakes a CPU.

    Returns:
        How often it went to and fro.
    """
    from_other, to_one = os.pipe()
    from_one, to_other = os.pipe()
    os.sched_setaffinity(0, {other})
    if os.fork() == 0:
        os.close(to_other)  # else it would never see that the other side has ended
        while os.read(from_one, 1):
            os.write(to_one, b".")
        os._exit(0)
    os.sched_setaffinity(0, {one})
    volleys, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        os.write(to_other, b".")
        os.read(from_other, 1)
        volleys += 1
    os.close(to_other)
    os.wait()
    return volleys


if __name__ == "__main__":
    print(play(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
