"""What somebody else's daemon was told to announce, taken back by the journal's entry: after kill -9, too.

It was told so at run time only: a daemon that was restarted since has forgotten it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_nfvperf.adapters.journal.journal import Entry, Journal, Kind
from pytest_nfvperf.adapters.routing.bird.bird_control import BirdControl
from pytest_nfvperf.adapters.routing.frr.frr_vty import Vty
from pytest_nfvperf.adapters.routing.lab.lab_process import listens


def note_announcement(journal: Journal, prefix: str, daemon: str, socket: Path, undo: Sequence[str]) -> Entry:
    """Note it before it is announced. ``undo``: commands that take it back."""
    return journal.note(Kind.ANNOUNCED, prefix, daemon=daemon, socket=str(socket), undo=list(undo))


def take_back(entry: Entry) -> bool:
    """Give the commands; False when the daemon is gone.

    Raises:
        TestbedError: it does not answer, or refuses.
    """
    socket, daemon = Path(entry.details["socket"]), str(entry.details["daemon"])
    if not listens(socket):
        return False
    commands: list[str] = entry.details["undo"]
    if daemon == "bird":
        control = BirdControl(socket)
        try:
            for command in commands:
                control.run(command)
        finally:
            control.close()
        return True
    vty = Vty(socket, daemon)
    try:
        vty.run(*commands)
    finally:
        vty.close()
    return True


class Announced:
    """Announcements of one daemon that are ours, by prefix; ``take_back`` ends those of a prefix, the last first."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: dict[str, list[Entry]] = {}

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Announced by us now."""
        return tuple(self._entries)

    def note(self, prefix: str, daemon: str, socket: Path, undo: Sequence[str]) -> None:
        """Before it is announced."""
        entry = note_announcement(self._journal, prefix, daemon, socket, undo)
        self._entries.setdefault(prefix, []).append(entry)

    def take_back(self, prefix: str) -> None:
        """If it is ours; TestbedError when the daemon does not answer."""
        entries = self._entries.get(prefix, [])
        while entries:
            take_back(entries[-1])
            self._journal.forget(entries.pop())
        self._entries.pop(prefix, None)
