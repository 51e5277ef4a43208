"""Under which name we hold ports, so that a later run can tell its own dead ones from other people.

After a client was killed with SIGKILL its traffic goes on and its ports stay taken. The name says which
process took them: where that one is gone, nobody is robbed.
"""

from __future__ import annotations

import re
import socket

from pytest_nfvperf.adapters.journal.identity import ProcessId, boot_id

_NAME = re.compile(r"nfvperf-(?P<host>.+)-(?P<boot>[0-9a-f]{8})-(?P<pid>\d+)-(?P<ticks>\d+)")


def own_name() -> str:
    """The user name of this process on a TRex server."""
    process = ProcessId.own()
    return f"nfvperf-{socket.gethostname()}-{boot_id()[:8]}-{process.pid}-{process.start_ticks}"


def left_by_a_dead_run(owner: str) -> bool:
    """True for the name of a process of this machine that does not run any more."""
    match = _NAME.fullmatch(owner)
    if match is None or match["host"] != socket.gethostname():
        return False
    if match["boot"] != boot_id()[:8]:
        return True
    return not ProcessId(int(match["pid"]), int(match["ticks"])).alive()
