"""A speaker's process: it does nothing, but tests can kill, stop and continue it as they do real daemons."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable


class Daemon:
    """A process, and a thread that tells at once what becomes of it.

    Args:
        notify: called with True when it begins to run or is continued, with False when it has ended or is stopped.
    """

    def __init__(self, notify: Callable[[bool], None]) -> None:
        self._notify = notify
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        """None while it does not run."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Unless it runs. It waits for its input, which ends with us: it never outlives pytest."""
        if self._process is not None:
            return
        self._process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
        self._watch = threading.Thread(target=self._follow, args=(self._process,), daemon=True)
        self._watch.start()
        self._notify(True)

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        while True:
            seen = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOWAIT)
            if seen is None or seen.si_code in {os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED}:
                self._process = None
                self._notify(False)
                process.communicate()  # takes its status, and closes the pipe
                return
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)  # takes the event
            self._notify(seen.si_code == os.CLD_CONTINUED)

    def close(self) -> None:
        """End it. Can be called twice."""
        if self._process is not None:
            self._process.kill()
        if self._watch is not None:
            self._watch.join()
