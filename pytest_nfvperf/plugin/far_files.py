"""Files of workers on other machines: sent as they are written, and copied into the run's directory here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pytest_nfvperf.model.evidence.records import Record, RecordKind
from pytest_nfvperf.plugin.worker_channel import FILE, WorkerChannel
from pytest_nfvperf.ports.evidence import Sink

_RUN, _ALLURE = "run", "allure"
_MOST_BYTES = 1 << 20
_COMPLETE = frozenset({RecordKind.TEST_END, RecordKind.RUN_END})
"""After these records no file of the test is open any more: samples and pictures can be sent."""


def _folders(run_dir: Path, allure_dir: str | None) -> dict[str, Path]:
    """The directories whose files are sent, by kind."""
    return {_RUN: run_dir} | ({_ALLURE: Path(allure_dir)} if allure_dir else {})


class SendFiles(Sink):
    """A sink that sends what was added to the evidence file, and after each test all other new files."""

    def __init__(self, channel: WorkerChannel, evidence: Path, run_dir: Path, allure_dir: str | None) -> None:
        self._channel, self._evidence, self._folders = channel, evidence, _folders(run_dir, allure_dir)
        self._sent: dict[Path, int] = {}

    def emit(self, record: Record) -> None:
        self._send(_RUN, self._evidence)
        if record.kind in _COMPLETE:
            self.close()

    def close(self) -> None:
        """Send everything that is new. Can be called twice."""
        for kind, folder in self._folders.items():
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    self._send(kind, path)

    def _send(self, kind: str, path: Path) -> None:
        offset = self._sent.get(path, 0)
        with path.open("rb") as file:
            file.seek(offset)
            while data := file.read(_MOST_BYTES):
                self._channel.send(FILE, (kind, path.relative_to(self._folders[kind]).as_posix(), offset, data))
                offset += len(data)
        self._sent[path] = offset


class CopiedFiles:
    """The controller's copies. ``say``: reports the first file that cannot be written."""

    def __init__(self, run_dir: Path, allure_dir: str | None, say: Callable[[str], None]) -> None:
        self._folders = _folders(run_dir, allure_dir)
        self._say = say
        self._refused = False

    def store(self, worker: str, kind: str, path: str, offset: int, data: bytes) -> None:
        """Write a piece of a file. If the disk refuses, say so once: the far machine still has the file."""
        folder = self._folders.get(kind)
        target = None if folder is None else (folder / path)
        if folder is None or target is None or not target.resolve().is_relative_to(folder.resolve()):
            return
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.pwrite(handle, data, offset)
            finally:
                os.close(handle)
        except OSError as error:
            if not self._refused:
                self._refused = True
                self._say(f"{target} of {worker} cannot be written: {error.strerror}; its own machine has the file")
