"""Wakes CPUs; why: ``wakeups``. Run as a file; imports nothing of this package, so it starts at once and stays small.

``python wakeup_script.py CPU CPU SECONDS``: two processes on two CPUs wake one another; prints how often.
``python wakeup_script.py SECONDS``: wakes on its CPU with a real-time priority, again and again, until it is killed.
"""

from __future__ import annotations

import os
import sys
import time


def exchange(one: int, other: int, seconds: float) -> int:
    """Send a byte to and fro, and return how often.

    Each side sleeps until the other has written, so each byte wakes a CPU.
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
    exchanges, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        os.write(to_other, b".")
        os.read(from_other, 1)
        exchanges += 1
    os.close(to_other)
    os.wait()
    return exchanges


def wake(every_s: float) -> None:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError as error:
        sys.exit(f"no real-time priority: {error.strerror}")
    while True:
        time.sleep(every_s)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(exchange(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
    else:
        wake(float(sys.argv[1]))
