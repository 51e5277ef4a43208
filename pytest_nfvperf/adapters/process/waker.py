"""``python waker.py SECONDS``: wakes up on its CPU, again and again, before all else there. Why: ``short_turns``.

It is run as a file and imports nothing of this package, so that it starts at once and stays small.
"""

from __future__ import annotations

import os
import sys
import time


def main(every_s: float) -> None:
    """Take a real-time priority, or end with the kernel's reason; then wake and sleep until it is killed."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError as error:
        sys.exit(f"no real-time priority: {error.strerror}")
    while True:
        time.sleep(every_s)


if __name__ == "__main__":
    main(float(sys.argv[1]))
