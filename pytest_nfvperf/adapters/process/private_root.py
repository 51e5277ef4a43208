"""A command in a root directory of its own: another release's programs and libraries, this machine's devices.

``python private_root.py ROOT VISIBLE ... -- COMMAND...`` becomes the command, by chroot(2) in a mount namespace of its
own (mount_namespaces(7)). It sees ROOT's files, this machine's /proc, /sys and /dev, an empty /run and /tmp, and each
directory VISIBLE under its own path. Nothing is written into ROOT itself, nobody else sees the mounts, and they go
with the command. Run as a file, without site packages: a command starts every time that something is asked.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_CLONE_NEWNS = 0x00020000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 1 << 18  # linux/mount.h
_MACHINES = ("proc", "sys", "dev")
_EMPTY = ("run", "tmp")
_DEBIAN_11 = "/usr/lib/openvswitch-common"
_END = "--"
_NOT_FOUND = 127


def command(root: Path, argv: Sequence[str | Path], visible: Sequence[Path] = ()) -> tuple[str, ...]:
    """What starts ``argv`` in a root.

    Args:
        root: the root directory.
        argv: the command; its first word is a path inside the root.
        visible: directories of this machine that the command sees, under the same paths.
    """
    return (sys.executable, "-I", "-S", __file__, str(root), *map(str, visible), _END, *map(str, argv))


def main(words: Sequence[str]) -> None:
    """Mount, change the root and become the command; ends with a message where that cannot be."""
    end = words.index(_END)
    root, *visible = map(Path, words[:end])
    argv = list(words[end + 1 :])
    try:
        _enter(root, visible)
        os.execve(argv[0], argv, _environment(Path(argv[0])))  # noqa: S606 - an argument list, as everywhere
    except OSError as error:
        print(f"{root}: {error.filename or argv[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(_NOT_FOUND)


def _enter(root: Path, visible: Sequence[Path]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        raise _error("a mount namespace of its own")
    _mount(libc, "none", "/", _MS_REC | _MS_PRIVATE)  # else what follows would be seen outside
    original = os.open(root, os.O_PATH | os.O_DIRECTORY)
    _mount(libc, "tmpfs", root, 0, "tmpfs")  # covers the root, so that its own directories stay as they are
    own = {*_MACHINES, *_EMPTY, *(path.parts[1] for path in visible)}
    for entry in sorted(Path(f"/proc/self/fd/{original}").iterdir()):
        if entry.name not in own:
            _show(libc, entry, root / entry.name)
    for name in _EMPTY:
        (root / name).mkdir()
    for path in (*(Path("/") / name for name in _MACHINES), *visible):
        target = root / path.relative_to("/")
        target.mkdir(parents=True, exist_ok=True)
        _mount(libc, path, target, _MS_BIND | _MS_REC)
    os.close(original)
    os.chroot(root)
    os.chdir("/")


def _environment(program: Path) -> dict[str, str]:
    """Debian 11 has Open vSwitch's libraries in directories that only an installation makes known."""
    beside = [str(program.parent)] if program.is_relative_to("/usr/lib") else []
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([*beside, _DEBIAN_11])}


def _show(libc: ctypes.CDLL, entry: Path, target: Path) -> None:
    """A top-level entry of the root: directories are bound, links such as ``lib -> usr/lib`` made again."""
    if entry.is_symlink():
        target.symlink_to(entry.readlink())
    elif entry.is_dir():
        target.mkdir()
        _mount(libc, entry, target, _MS_BIND | _MS_REC)


def _mount(libc: ctypes.CDLL, source: str | Path, target: str | Path, flags: int, kind: str | None = None) -> None:
    # A directory that others may write to is one that DPDK loads no plugin below: a tmpfs is, if not told otherwise.
    named, options = (None, None) if kind is None else (os.fsencode(kind), b"mode=755")
    if libc.mount(os.fsencode(source), os.fsencode(target), named, ctypes.c_ulong(flags), options) != 0:
        raise _error(str(target))


def _error(what: str) -> OSError:
    return OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


if __name__ == "__main__":
    main(sys.argv[1:])
