"""The journal of what a run makes: written before a thing is made, so that a killed run can be cleaned up.

Layout under the base directory (``/run/nfvperf``, or ``$NFVPERF_RUN_DIR``)::

    <tag>/owner.json      pid, start time, boot id, command line of the run
    <tag>/journal.jsonl   one JSON object a line: {"op": "note", ...} or {"op": "forget", "id": n}

A run directory appears by rename with its owner already in it. Until then its name is ``.new-<tag>-<pid>-<start>``,
after its maker. Pids are used again, so start time and boot identify a process (proc(5)).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pytest_nfvperf.model.arguments import expanded
from pytest_nfvperf.model.errors import ConfigError, TestbedError

TAG_VARIABLE = "NFVPERF_TAG"
"""Environment variable with the run's tag: every process that we spawn has it."""
_PROC = Path("/proc")
RUN_DIR_VARIABLE = "NFVPERF_RUN_DIR"
DEFAULT_BASE = Path("/run/nfvperf")
OWNER_FILE = "owner.json"
JOURNAL_FILE = "journal.jsonl"
KEPT_FILE = "kept"
NEW_PREFIX = ".new-"
NAME_PREFIX = "nfv-"
"""Namespaces are named ``nfv-<tag>-<role>``: the tag is in the name, in case the journal is lost."""
_TAG_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_TAG_LENGTH = 6
_FIRST_GROUP = 0x4E460000


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def pid_namespace() -> int | None:
    """The number of our pid namespace (pid_namespaces(7)); None if it cannot be read."""
    try:
        return (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return None


def read_stat(process: Path) -> list[str]:
    """The fields of a process's stat (proc_pid_stat(5)) from its state on; OSError if it is gone."""
    # The command name may hold spaces and brackets; the fields after its last bracket do not.
    return (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot (field 22 of stat); None if it is gone.

    A zombie counts as gone: it runs nothing and holds nothing but its pid.
    """
    try:
        fields = read_stat(_PROC / str(pid))
    except OSError:
        return None
    state, started = fields[0], fields[19]
    return None if state in {"Z", "X"} else int(started)


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process, identified by pid and start time: pids are used again."""

    pid: int
    start_ticks: int

    @staticmethod
    def of(pid: int) -> ProcessId | None:
        ticks = start_ticks(pid)
        return None if ticks is None else ProcessId(pid, ticks)

    @staticmethod
    def own() -> ProcessId:
        identity = ProcessId.of(os.getpid())
        if identity is None:
            raise RuntimeError("/proc does not show this process; is /proc mounted?")
        return identity

    def alive(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks


def command_line(pid: int) -> str:
    """A process's command, for messages; empty if the process is gone."""
    try:
        raw = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return raw.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", errors="replace")


def processes_of_run(tag: str, journal: Path) -> Iterator[ProcessId]:
    """Every process that a dead run left: tagged ones, and children that do not have the tag yet.

    A child between fork and exec has its parent's environment and open files, the journal among them.
    """
    variable = f"{TAG_VARIABLE}={tag}".encode()
    for process in _PROC.glob("[0-9]*"):
        try:
            # In this order: the second look sees a process that gets its tag between the two.
            ours = _writes_to(process, str(journal)) or variable in (process / "environ").read_bytes().split(b"\0")
        except OSError:  # gone meanwhile
            continue
        identity = ProcessId.of(int(process.name)) if ours else None
        if identity is not None:
            yield identity


def _writes_to(process: Path, file: str) -> bool:
    """True if the process has the file open for writing; a reader (tail -f) is not ours."""
    for fd in (process / "fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            if str(fd.readlink()) == file:
                info = (process / "fdinfo" / fd.name).read_text(encoding="ascii")
                flags = next(line.split()[1] for line in info.splitlines() if line.startswith("flags:"))
                if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                    return True
    return False


class Kind(StrEnum):
    """The kind of thing that an entry names, which decides how it is removed."""

    NETNS = "netns"  # name: the namespace under /run/netns
    LINK = "link"  # name: the interface, in the host's namespace, or in the one of detail namespace
    PROCESS = "process"  # name: what it is; details pid and start_ticks once it runs, gentle: see kill_noted()
    FILE = "file"  # name: absolute path (files and sockets)
    DIRECTORY = "directory"  # name: absolute path, removed with all in it
    BORROWED = "borrowed"  # name: an interface of the host; details how it was found
    OVS_BRIDGE = "ovs-bridge"  # name: a bridge on the system's OVS; details its database and the run's tag
    OVS_SETTING = "ovs-setting"  # name: a key of its other_config; details what it was and what we wrote
    ANNOUNCED = "announced"  # name: a prefix that somebody else's routing daemon announces for us; details to undo it
    VDUSE = "vduse"  # name: a VDUSE device, in /dev/vduse
    PCI_DRIVER = "pci-driver"  # name: a PCI address; details its driver as found, and the one that we bind it to
    VFS = "vfs"  # name: the address of a PF; details how many VFs we make
    VF = "vf"  # name: a VF as its PF and number; details its settings as found
    HUGEPAGES = "hugepages"  # name: a glob of files on a hugetlbfs, by our own file prefix


@dataclass(frozen=True, slots=True)
class Entry:
    id: int
    kind: Kind
    name: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Owner:
    process: ProcessId
    boot: str
    command: str
    pid_namespace: int | None = None

    def alive(self, directory: Path) -> bool:
        """True while the owner of a run directory runs: same boot, same pid, same start time.

        An owner in another pid namespace (a container that shares the directory) is alive while it locks its journal.
        """
        if self.boot != boot_id():
            return False
        if self.pid_namespace not in {None, pid_namespace()}:
            return _is_held(directory / JOURNAL_FILE)
        return self.process.alive()


def base_directory(base: Path | None = None) -> Path:
    """The directory of all runs: the argument, ``$NFVPERF_RUN_DIR``, or /run/nfvperf."""
    return base or Path(expanded(os.environ.get(RUN_DIR_VARIABLE) or str(DEFAULT_BASE)))


def new_tag() -> str:
    """A short id that no other run has, fit for interface names."""
    return "".join(secrets.choice(_TAG_ALPHABET) for _ in range(_TAG_LENGTH))


Remove = Callable[[Sequence[Entry]], Sequence[tuple[str, str]]]
"""Removes what entries name, newest first. Returns what it could not, each with the reason.

The journal itself removes nothing.
"""


class Journal:
    """The run's directory and the list of what it made. Close it last: it removes what is left."""

    def __init__(self, directory: Path, tag: str, remove: Remove, *, keep: bool = False) -> None:
        self._remove = remove
        self.directory = directory
        self.tag = tag
        self.keep = keep
        self._entries: dict[int, Entry] = {}
        self._next_id = 1
        self._links = 0
        self._groups = 0
        self._fd = os.open(directory / JOURNAL_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # on a file system without locks others always take this run for a live one
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @staticmethod
    def create(remove: Remove, base: Path | None = None, *, keep: bool = False) -> Journal:
        """A new run directory owned by this process; ``open_journal`` provides the removers.

        ``base``: the directory of all runs; ConfigError if it cannot be made or written. ``keep``: leave the run's
        directory with its logs (``--nfv-keep``); only ``nfvperf clean`` removes it.
        """
        base = base_directory(base)
        tag, own = new_tag(), ProcessId.own()
        making = base / f"{NEW_PREFIX}{tag}-{own.pid}-{own.start_ticks}"
        try:
            making.mkdir(parents=True, mode=0o755)
            owner = {  # as read_owner() reads it
                "pid": own.pid,
                "start_ticks": own.start_ticks,
                "boot_id": boot_id(),
                "pid_namespace": pid_namespace(),
                "command": " ".join(sys.argv),
            }
            (making / OWNER_FILE).write_text(json.dumps(owner) + "\n", encoding="utf-8")
            if keep:
                (making / KEPT_FILE).touch()
            making.rename(base / tag)
        except OSError as error:
            raise ConfigError(
                f"cannot make the run directory {base / tag}: {error.strerror}; "
                f"run as root, or set {RUN_DIR_VARIABLE} to a directory that can be written"
            ) from error
        return Journal(base / tag, tag, remove, keep=keep)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries.values())

    def name(self, role: str) -> str:
        return f"{NAME_PREFIX}{self.tag}-{role}"

    def link_name(self) -> str:
        """A new interface name of this run, ``<tag>v<n>``: names of ports may be longer than IFNAMSIZ allows."""
        self._links += 1
        return f"{self.tag}v{self._links}"

    def link_group(self) -> int:
        """A new number for an interface group (ip-link(8)), by which a topology's links are removed at once."""
        self._groups += 1
        return _FIRST_GROUP + self._groups

    def note(self, kind: Kind, name: str, **details: Any) -> Entry:
        """Record, on disk before this returns, that a thing is about to be made."""
        return self.note_all(kind, [name], **details)[0]

    def note_all(self, kind: Kind, names: Sequence[str], **details: Any) -> list[Entry]:
        """As ``note``, for many things at once: waiting for the disk costs most."""
        entries = [Entry(self._next_id + i, kind, name, dict(details)) for i, name in enumerate(names)]
        self._next_id += len(entries)
        self._entries.update({entry.id: entry for entry in entries})
        self._append(*(_note_record(entry) for entry in entries))
        return entries

    def amend(self, entry: Entry, **details: Any) -> Entry:
        amended = Entry(entry.id, entry.kind, entry.name, {**entry.details, **details})
        self._entries[entry.id] = amended
        self._append(_note_record(amended))
        return amended

    def forget(self, entry: Entry) -> None:
        """Record that the thing is gone. Unknown entries are ignored."""
        self.forget_all([entry])

    def forget_all(self, entries: Sequence[Entry]) -> None:
        known = [entry for entry in entries if self._entries.pop(entry.id, None) is not None]
        self._append(*({"op": "forget", "id": entry.id} for entry in known))

    def _append(self, *records: dict[str, Any]) -> None:
        # One write of whole lines on O_APPEND: a kill can tear the last line only.
        if not records:
            return
        lines = "".join(json.dumps(record) + "\n" for record in records)
        try:
            os.write(self._fd, lines.encode())
            os.fsync(self._fd)
        except OSError as error:
            raise TestbedError(f"cannot write the journal {self.directory / JOURNAL_FILE}: {error.strerror}") from error

    def close(self) -> None:
        """Remove what is still noted, newest first, then the run directory. Can be called twice.

        TestbedError names what could not be removed; the next reap tries again.
        """
        if self._fd < 0:
            return
        files = {Kind.FILE, Kind.DIRECTORY} if self.keep else set()
        failed = self._remove([entry for entry in self.entries if entry.kind not in files])
        os.close(self._fd)
        self._fd = -1
        if failed:
            listed = "; ".join(f"{what}: {why}" for what, why in failed)
            raise TestbedError(f"run {self.tag} could not remove all it made: {listed}; try `nfvperf clean`")
        if not self.keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    def discard(self, directory: Path, entry: Entry) -> None:
        if not self.keep:
            shutil.rmtree(directory, ignore_errors=True)
        self.forget(entry)


def note_process(journal: Journal, entry: Entry, pid: int) -> None:
    process = ProcessId.of(pid)
    if process is not None:
        journal.amend(entry, pid=process.pid, start_ticks=process.start_ticks)


def _note_record(entry: Entry) -> dict[str, Any]:
    return {"op": "note", "id": entry.id, "kind": str(entry.kind), "name": entry.name, "details": entry.details}


def read_owner(directory: Path) -> Owner | None:
    """None if its file is unreadable."""
    try:
        raw = json.loads((directory / OWNER_FILE).read_text(encoding="utf-8"))
        process = ProcessId(int(raw["pid"]), int(raw["start_ticks"]))
        return Owner(process, str(raw["boot_id"]), str(raw["command"]), raw.get("pid_namespace"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_held(journal: Path) -> bool:
    """True while a process of any namespace holds the journal's lock, and if this cannot be determined."""
    try:
        fd = os.open(journal, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # the directory may be new, and its journal not yet made
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def read_entries(directory: Path) -> tuple[Entry, ...]:
    """Entries that the journal still lists, oldest first. A torn line (its writer was killed) is skipped."""
    try:
        lines = (directory / JOURNAL_FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    entries: dict[int, Entry] = {}
    for line in lines:
        try:
            record = json.loads(line)
            number = int(record["id"])
            if record["op"] == "forget":
                entries.pop(number, None)
            else:
                entries[number] = Entry(number, Kind(record["kind"]), record["name"], dict(record["details"]))
        except (ValueError, KeyError, TypeError):
            continue
    return tuple(entries.values())
