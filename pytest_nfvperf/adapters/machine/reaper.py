"""Removal of what runs made: at the end of a run its own things, at the next start those of dead runs.

A run is dead if its owner's pid is gone, is now another process (other start time), or is of another boot. Live runs
are never touched. The journal lists what to remove; the tag finds more: namespaces by name, processes by environment.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyroute2.netlink.exceptions import NetlinkError

from pytest_nfvperf.adapters.host.nic_binding import give_back_driver, remove_vfs, restore_vf
from pytest_nfvperf.adapters.net.borrowed_interfaces import remove_link, restore_borrowed
from pytest_nfvperf.adapters.net.ends import OWN_NAMESPACE
from pytest_nfvperf.adapters.net.namespaces import remove_name
from pytest_nfvperf.adapters.net.threads import inside
from pytest_nfvperf.adapters.net.vduse import remove as remove_vduse
from pytest_nfvperf.adapters.ovs.system_ovs import remove_bridge, restore_setting
from pytest_nfvperf.adapters.process.journal import (
    JOURNAL_FILE,
    KEPT_FILE,
    NAME_PREFIX,
    NEW_PREFIX,
    Entry,
    Journal,
    Kind,
    ProcessId,
    base_directory,
    boot_id,
    command_line,
    processes_of_run,
    read_entries,
    read_owner,
)
from pytest_nfvperf.adapters.process.process import NETNS_DIRECTORY, wait_until
from pytest_nfvperf.features import Point
from pytest_nfvperf.model.errors import TestbedError

FEATURE_REMOVERS = Point[Callable[[Entry], bool]]("remover")
"""Removers of what only one feature makes, by the kind of the journal's entry; shaped as those in ``_REMOVERS``."""
_KILL_DEADLINE_S = 60.0
"""The kernel closes a killed process's files one after the other: 15 s for an ovs-vswitchd of a thousand veth ports."""


@dataclass(frozen=True, slots=True)
class ReapResult:
    """The result of a reap.

    ``failed``: what could not be removed, and why. ``left_alone``: live runs, and directories kept on purpose.
    """

    removed: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    left_alone: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"removed {what}" for what in self.removed]
        lines += [f"could not remove {what}: {why}" for what, why in self.failed]
        lines += [f"left alone: {run}" for run in self.left_alone]
        return "\n".join(lines) or "nothing to clean"


def open_journal(base: Path | None = None, *, keep: bool = False) -> Journal:
    """A new run's journal, which at its end removes what is left. Arguments and errors: see Journal.create."""
    return Journal.create(remove_entries, base, keep=keep)


def reap(base: Path | None = None, *, also_kept: bool = False) -> ReapResult:
    """Remove what dead runs left under ``base``; safe while other runs are live.

    ``also_kept``: also the directories of runs that ``--nfv-keep`` kept; their processes and namespaces go in any case.
    """
    base = base_directory(base)
    removed: list[str] = []
    failed: list[tuple[str, str]] = []
    left_alone: list[str] = []
    if not base.is_dir():
        return ReapResult((), (), ())
    with (base / "reap.lock").open("a", encoding="ascii") as lock:
        # One reap at a time: two would report each other's removals as failures.
        fcntl.flock(lock, fcntl.LOCK_EX)
        for directory in sorted(path for path in base.iterdir() if path.is_dir() and not path.is_symlink()):
            if _is_dead(directory, removed, left_alone):
                _reap_dead(directory, removed, failed, left_alone if not also_kept else None)
    return ReapResult(tuple(removed), tuple(failed), tuple(left_alone))


def _is_dead(directory: Path, removed: list[str], left_alone: list[str]) -> bool:
    """True for a dead run's directory. Removes unfinished directories whose makers are dead."""
    if directory.name.startswith(NEW_PREFIX):
        *_, pid, start = directory.name.split("-")
        numbers = pid.isdigit() and start.isdigit()
        if not (numbers and ProcessId(int(pid), int(start)).alive()):
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(f"unfinished run directory {directory}")
        return False
    owner = read_owner(directory)
    if owner is None:
        left_alone.append(f"{directory} (no readable owner.json: not ours)")
        return False
    if owner.alive(directory):
        left_alone.append(f"run {directory.name} of pid {owner.process.pid} ({owner.command})")
        return False
    return True


def _reap_dead(
    directory: Path, removed: list[str], failed: list[tuple[str, str]], left_alone: list[str] | None
) -> None:
    """Remove a dead run's things, then its directory, unless it was kept on purpose and ``left_alone`` is a list."""
    keep = left_alone is not None and (directory / KEPT_FILE).exists()
    owner = read_owner(directory)
    # After a reboot pids and namespaces of the journal mean other things: only files can be left.
    same_boot = owner is not None and owner.boot == boot_id()
    files = {Kind.FILE, Kind.DIRECTORY}
    entries = [e for e in read_entries(directory) if (same_boot or e.kind in files) and not (keep and e.kind in files)]
    problems: list[tuple[str, str]] = []
    if same_boot:  # processes first: one that still runs would make new things; also those that are not noted
        for identity in processes_of_run(directory.name, directory / JOURNAL_FILE):
            _attempt(
                f"process {identity.pid} ({command_line(identity.pid)})", partial(_kill, identity), removed, problems
            )
    problems += remove_entries(entries, removed)
    if same_boot:
        left = {what for what, _ in problems}  # on purpose, such as one that holds a borrowed interface
        for path in sorted(NETNS_DIRECTORY.glob(f"{NAME_PREFIX}{directory.name}-*")):
            what = f"netns {path.name}"  # not noted: its line is torn
            if what not in left:
                _attempt(what, partial(remove_name, path.name), removed, problems)
    failed.extend(problems)
    if keep and left_alone is not None:
        left_alone.append(f"{directory} (kept on purpose)")
    elif not problems:
        shutil.rmtree(directory, ignore_errors=True)
        removed.append(f"run directory {directory}")


def remove_entries(entries: Iterable[Entry], removed: list[str] | None = None) -> list[tuple[str, str]]:
    """Remove entries, newest first, and append what was removed to ``removed``. Things already gone are no failure.

    A namespace that still holds a borrowed interface stays: removing it would remove a veth pair.
    """
    removed = removed if removed is not None else []
    failed: list[tuple[str, str]] = []
    held: dict[str, str] = {}
    for entry in reversed(tuple(entries)):
        what = f"{entry.kind} {entry.name}"
        if entry.kind is Kind.NETNS and entry.name in held:
            failed.append((what, f"interface {held[entry.name]!r} of the host is still in it"))
            continue
        problems = len(failed)
        _attempt(what, partial(_REMOVERS[entry.kind], entry), removed, failed)
        if entry.kind is Kind.BORROWED and len(failed) > problems:
            held[Path(entry.details["namespace"]).name] = entry.name
    return failed


def _attempt(what: str, remove: Callable[[], bool], removed: list[str], failed: list[tuple[str, str]]) -> None:
    try:
        if remove():
            removed.append(what)
    except (OSError, NetlinkError, TestbedError) as error:
        failed.append((what, str(error)))


def _noted_process(entry: Entry) -> ProcessId | None:
    """The process; None if the run was killed before it noted one. The tag finds it if it was started."""
    pid, ticks = entry.details.get("pid"), entry.details.get("start_ticks")
    return ProcessId(int(pid), int(ticks)) if pid and ticks else None


def _kill_noted(entry: Entry) -> bool:
    identity = _noted_process(entry)
    return identity is not None and _kill(identity)


def kill_noted(journal: Journal) -> None:
    """SIGKILL every process that this run has noted, without waiting.

    Not "gentle" ones, which have something to release, such as a client that has a server's ports.
    """
    for entry in journal.entries:
        identity = _noted_process(entry) if entry.kind is Kind.PROCESS else None
        if identity is not None and not entry.details.get("gentle"):
            _send_kill(identity)


def kill_rest(journal: Journal) -> None:
    """SIGKILL this run's unnoted processes (their start was interrupted), and wait for their end."""
    gentle = {entry.details.get("pid") for entry in journal.entries if entry.details.get("gentle")}
    for identity in processes_of_run(journal.tag, journal.directory / JOURNAL_FILE):
        with suppress(ProcessLookupError):
            if identity.pid != os.getpid() and os.getsid(identity.pid) not in gentle:
                _kill(identity)


def _kill(identity: ProcessId) -> bool:
    if not _send_kill(identity):
        return False
    wait_until(lambda: not identity.alive(), f"the end of killed process {identity.pid}", _KILL_DEADLINE_S)
    return True


def _send_kill(identity: ProcessId) -> bool:
    """SIGKILL by a pidfd, which cannot hit a reused pid; False if the process was gone."""
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        if not identity.alive():
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _remove_link(entry: Entry) -> bool:
    namespace = Path(entry.details.get("namespace", OWN_NAMESPACE))
    return namespace.exists() and inside(namespace, partial(remove_link, entry.name))


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _remove_directory(path: Path) -> bool:
    if not path.exists():
        return False
    shutil.rmtree(path)
    return True


def _remove_hugepages(pattern: Path) -> bool:
    return any([_unlink(path) for path in pattern.parent.glob(pattern.name)])  # noqa: C419 - all, not until the first


_REMOVERS: dict[Kind, Callable[[Entry], bool]] = {
    Kind.PROCESS: _kill_noted,
    Kind.NETNS: lambda entry: remove_name(entry.name),
    Kind.LINK: _remove_link,
    Kind.BORROWED: restore_borrowed,
    Kind.OVS_BRIDGE: remove_bridge,
    Kind.OVS_SETTING: restore_setting,
    Kind.ANNOUNCED: lambda entry: FEATURE_REMOVERS.part(entry.kind)(entry),
    Kind.FILE: lambda entry: _unlink(Path(entry.name)),
    Kind.DIRECTORY: lambda entry: _remove_directory(Path(entry.name)),
    Kind.VDUSE: lambda entry: remove_vduse(entry.name),
    Kind.PCI_DRIVER: give_back_driver,
    Kind.VFS: remove_vfs,
    Kind.VF: restore_vf,
    Kind.HUGEPAGES: lambda entry: _remove_hugepages(Path(entry.name)),
}
"""How each kind of thing is removed; True if there was something to remove."""
