"""A child process that ends when nobody holds it any more."""

from __future__ import annotations

import subprocess


class Child(subprocess.Popen[bytes]):
    """As ``subprocess.Popen``, but one that was lost is ended.

    A signal that stops the run may come between a child's start and the moment at which somebody keeps it. Python
    would warn at some later time that it is still running, which pytest may take for an error of the run.
    """

    def __del__(self) -> None:
        """End it, if it runs, and reap it."""
        started = getattr(self, "pid", None) is not None  # not where the program could not be executed
        if started and self.returncode is None:
            for stream in (self.stdin, self.stdout, self.stderr):
                if stream is not None:
                    stream.close()
            self.kill()
            self.wait()
        super().__del__()
