"""Commands whose mounts and processes end with them, and with us, however we end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

_WRAPPER = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation=private"),
)


def run_contained(argv: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Run a command as the first process of a mount and a process namespace; returns its exit status.

    Whatever ends this process, kill -9 too, ends the namespace's first process (prctl(2), which follows the
    thread that started it: call it from the main thread), with it all others in there (pid_namespaces(7)), and
    with the last of them go the mounts (mount_namespaces(7)). ``env``: variables added to ours.
    """
    command = [*_WRAPPER, *argv]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}) as first:
        try:
            return first.wait()
        finally:
            first.kill()
