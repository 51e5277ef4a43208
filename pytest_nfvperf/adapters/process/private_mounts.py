"""Commands that see other files, by private mounts (mount_namespaces(7)).

``python private_mounts.py root ROOT VISIBLE ... -- COMMAND...`` runs another release's programs with that release's
libraries, by chroot(2). The command sees ROOT's files, this machine's /proc, /sys and /dev, an empty /run and /tmp, and
each directory VISIBLE under its own path. Nothing is written into ROOT itself.

``python private_mounts.py view SOURCE TARGET ... -- COMMAND...`` binds each SOURCE over its TARGET, in this order: for
programs with built-in paths, such as /run/frr.

Nobody else sees the mounts, and they end with the command. Run as a file, without site packages: such commands start
often.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_CLONE_NEWNS = 0x00020000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 1 << 18  # linux/mount.h
_MACHINES = ("proc", "sys", "dev")
_EMPTY = ("run", "tmp")
_DEBIAN_11 = "/usr/lib/openvswitch-common"
"""Debian 11 has Open vSwitch's libraries in directories that only an installation configures."""
_ROOT, _VIEW, _END = "root", "view", "--"
_NOT_FOUND = 127
_LIBC = ctypes.CDLL(None, use_errno=True)


def in_root(root: Path, argv: Sequence[str | Path], visible: Sequence[Path] = ()) -> tuple[str, ...]:
    """The command that runs ``argv``, whose first word is a path inside the root, with these directories visible."""
    return (sys.executable, "-I", "-S", __file__, _ROOT, str(root), *map(str, visible), _END, *map(str, argv))


def with_binds(binds: Mapping[str, str], argv: Sequence[str]) -> tuple[str, ...]:
    """The command that runs ``argv`` with other files at some paths; ``binds``: target by source."""
    words = [word for source, target in binds.items() for word in (source, target)]
    return (sys.executable, "-I", "-S", __file__, _VIEW, *words, _END, *argv)


def main(kind: str, words: Sequence[str]) -> None:
    """Mount and become the command; does not return. OSError for a view: the kernel refused a mount, or no command."""
    end = words.index(_END)
    paths, argv = words[:end], list(words[end + 1 :])
    if kind == _VIEW:
        _own_mounts()
        for source, target in zip(paths[::2], paths[1::2], strict=True):
            _mount(source, target, _MS_BIND | _MS_REC)
        os.execvp(argv[0], argv)  # noqa: S606 - an argument list, as everywhere
    try:
        _enter(Path(paths[0]), [Path(path) for path in paths[1:]])
        program = Path(argv[0])
        own = [str(program.parent)] if program.is_relative_to("/usr/lib") else []
        environment = {**os.environ, "LD_LIBRARY_PATH": ":".join([*own, _DEBIAN_11])}
        os.execve(argv[0], argv, environment)  # noqa: S606 - an argument list, as everywhere
    except OSError as error:
        print(f"{paths[0]}: {error.filename or argv[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(_NOT_FOUND)


def _own_mounts() -> None:
    if _LIBC.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "a mount namespace of its own")
    _mount("none", "/", _MS_REC | _MS_PRIVATE)  # otherwise later mounts would be seen outside


def _enter(root: Path, visible: Sequence[Path]) -> None:
    _own_mounts()
    original = os.open(root, os.O_PATH | os.O_DIRECTORY)
    _mount("tmpfs", root, 0, "tmpfs")  # covers the root, so that its own directories stay as they are
    own = {*_MACHINES, *_EMPTY, *(path.parts[1] for path in visible)}
    for entry in sorted(Path(f"/proc/self/fd/{original}").iterdir()):
        target = root / entry.name
        if entry.name in own:
            continue
        if entry.is_symlink():  # such as lib -> usr/lib
            target.symlink_to(entry.readlink())
        elif entry.is_dir():
            target.mkdir()
            _mount(entry, target, _MS_BIND | _MS_REC)
    for name in _EMPTY:
        (root / name).mkdir()
    for path in (*(Path("/") / name for name in _MACHINES), *visible):
        target = root / path.relative_to("/")
        target.mkdir(parents=True, exist_ok=True)
        _mount(path, target, _MS_BIND | _MS_REC)
    os.close(original)
    os.chroot(root)
    os.chdir("/")


def _mount(source: str | Path, target: str | Path, flags: int, kind: str | None = None) -> None:
    # DPDK loads no plugin below a directory that others may write to, as a tmpfs is by default.
    named, options = (None, None) if kind is None else (os.fsencode(kind), b"mode=755")
    if _LIBC.mount(os.fsencode(source), os.fsencode(target), named, ctypes.c_ulong(flags), options) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(target))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
