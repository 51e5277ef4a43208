"""Runs a command for which the kernel refuses some system calls, by seccomp(2): a file system without links, no perf.

::

    python -m tests.refusing symlink=EPERM link=EPERM -- python -m pytest

The filter goes by number, so its table is of x86-64; every child has it, too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Mapping

CALLS: Mapping[str, tuple[int, ...]] = {
    "symlink": (88, 266),
    "link": (86, 265),
    "flock": (73,),
    "fsync": (74,),
    "perf_event_open": (298,),
    "chmod": (90, 91, 268),
    "sched_setaffinity": (203,),
    "inotify_init": (253, 294),
}
"""System calls by name, with those that take a directory's handle (asm/unistd_64.h)."""

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse(calls: Mapping[str, int]) -> None:
    """Let the kernel answer system calls of this process and its children with an error number, for good."""
    steps = [(_LOAD, 0, 0, 0)]
    for name, error in calls.items():
        for number in CALLS[name]:
            steps += [(_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]
    steps.append((_RETURN, 0, 0, _ALLOW))
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0), (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program))):
        if libc.prctl(*arguments, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")


def main() -> None:
    """``NAME=ERROR ... -- COMMAND``."""
    end = sys.argv.index("--")
    refuse({name: getattr(errno, error) for name, _, error in (word.partition("=") for word in sys.argv[1:end])})
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])


if __name__ == "__main__":
    main()
