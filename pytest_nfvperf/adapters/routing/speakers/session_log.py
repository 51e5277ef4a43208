"""Why sessions went down, which daemons forget once they are up again, and keep in their logs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

_BIRD = re.compile(r"<(?:TRACE|RMT|ERR|WARN|BUG)> (\w+): (.+)")
_BIRD_CLOSED = "BGP session closed"
_BIRD_ASIDE = ("Neighbor graceful restart", "State changed")
_FRR_DOWN = re.compile(r"%ADJCHANGE: neighbor ([0-9a-fA-F.:]+)\(.*\) in vrf \S+ Down ?(.*)")


class _NewLines:
    """A log's lines since the last look; it is read once only, however often it is asked."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = 0

    def read(self) -> list[str]:
        """Whole lines."""
        if not self._log.exists():
            return []
        with self._log.open("rb") as log:
            log.seek(self._offset)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.decode(errors="replace").splitlines()


class BirdLog:
    """Counts the ends of sessions, which BIRD does not, by the names of protocols."""

    def __init__(self, log: Path) -> None:
        self._new = _NewLines(log)
        self._before: dict[str, str] = {}
        self._closed: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}

    def ends_of(self, name: str) -> tuple[int, str]:
        """How often a session ended, and why it did last."""
        for line in self._new.read():
            found = _BIRD.search(line)
            if found is not None:
                self._note(found[1], found[2])
        return self._closed[name], self._reasons.get(name, "")

    def _note(self, name: str, event: str) -> None:
        if event == _BIRD_CLOSED:
            self._closed[name] += 1
            self._reasons[name] = self._before.get(name, "")
        elif not event.startswith(_BIRD_ASIDE):
            self._before[name] = event


class FrrLog:
    """bgpd's reasons, by neighbour."""

    def __init__(self, log: Path) -> None:
        self._new = _NewLines(log)
        self._reasons: dict[str, str] = {}

    def reason_of(self, neighbor: str) -> str:
        """Why the session with a neighbour went down last; empty if it did not."""
        for line in self._new.read():
            found = _FRR_DOWN.search(line)
            if found is not None:
                self._reasons[found[1]] = found[2]
        return self._reasons.get(neighbor, "")
