"""A command that sees other files in place of some.

``python -m pytest_nfvperf.adapters.process.private_view SOURCE TARGET ... -- COMMAND...`` binds each SOURCE over its
TARGET, in this order, in a mount namespace of its own (mount_namespaces(7)), and then becomes the command. For
programs with paths built in, such as /run/frr: nobody else sees the change, and it ends with them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence

_CLONE_NEWNS = 0x00020000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 1 << 18  # linux/mount.h
_END = "--"


def command(binds: Mapping[str, str], argv: Sequence[str]) -> tuple[str, ...]:
    """What starts ``argv`` with each target of ``binds`` replaced by its source; ``binds``: target by source."""
    words = [word for source, target in binds.items() for word in (source, target)]
    return (sys.executable, "-m", __name__, *words, _END, *argv)


def main(words: Sequence[str]) -> None:
    """Bind and become the command; does not return.

    Raises:
        OSError: a mount that the kernel refused, by its target, or no such command.
    """
    end = words.index(_END)
    binds = zip(words[:end:2], words[1:end:2], strict=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        raise _error("unshare")
    _mount(libc, "none", "/", _MS_REC | _MS_PRIVATE)  # else what follows would be seen outside
    for source, target in binds:
        _mount(libc, source, target, _MS_BIND | _MS_REC)
    argv = list(words[end + 1 :])
    os.execvp(argv[0], argv)  # noqa: S606 - the command is an argument list, as everywhere


def _mount(libc: ctypes.CDLL, source: str, target: str, flags: int) -> None:
    if libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None) != 0:
        raise _error(target)


def _error(what: str) -> OSError:
    return OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


if __name__ == "__main__":
    main(sys.argv[1:])
