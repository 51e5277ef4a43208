"""A file that keeps what runs find out about machines: ``{fingerprint: value}`` in JSON."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path


class KeptFile:
    """Fulfils ports.machine.Kept: the value of one fingerprint.

    Args:
        path: the file; made when first written. One that cannot be read is begun anew.
        fingerprint: what the value holds for, such as a machine and its CPUs; others' values stay.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint

    def read(self) -> object:
        """The value; None where there is none."""
        return self._all().get(self._fingerprint)

    def write(self, value: object) -> None:
        """Put it in place of the last one. A full disk costs the memory, and nothing else."""
        text = json.dumps(self._all() | {self._fingerprint: value}, sort_keys=True)
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                fresh.write_text(text, encoding="utf-8")
                fresh.replace(self._path)
            finally:
                fresh.unlink(missing_ok=True)

    def _all(self) -> dict[str, object]:
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError, UnicodeDecodeError):
            return {}
        return kept if isinstance(kept, dict) else {}
