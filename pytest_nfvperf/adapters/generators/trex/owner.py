"""Under which name we hold ports, so that a later run can tell its own dead ones from other people.

After a client was killed with SIGKILL its traffic goes on and its ports stay taken. The name says which
process took them: where that one is gone, nobody is robbed.
"""

from __future__ import annotations

import hashlib
import re
import socket
from pathlib import Path

from pytest_nfvperf.adapters.journal.identity import ProcessId, boot_id, pid_namespace

_NAME = re.compile(r"nfvperf-(?P<host>.+)-(?P<boot>[0-9a-f]{8})-(?P<pid>\d+)-(?P<ticks>\d+)")


_MACHINE_ID = Path("/etc/machine-id")


def _here() -> str:
    """Where our pids mean something: the host's name, for people, and a digest of what no other place has.

    Two machines may have one name, and so may a host and a container; a name that is not ASCII is no user name.
    """
    host = "".join(letter if letter.isascii() and letter.isprintable() else "_" for letter in socket.gethostname())
    machine = _MACHINE_ID.read_text(encoding="ascii").strip() if _MACHINE_ID.is_file() else ""
    return f"{host}-{hashlib.sha256(f'{machine} {pid_namespace()}'.encode()).hexdigest()[:8]}"


def own_name() -> str:
    """The user name of this process on a TRex server."""
    process = ProcessId.own()
    return f"nfvperf-{_here()}-{boot_id()[:8]}-{process.pid}-{process.start_ticks}"


def left_by_a_dead_run(owner: str) -> bool:
    """True for the name of a process of this machine that does not run any more."""
    match = _NAME.fullmatch(owner)
    if match is None or match["host"] != _here():
        return False
    if match["boot"] != boot_id()[:8]:
        return True
    return not ProcessId(int(match["pid"]), int(match["ticks"])).alive()
