"""A copy of the working tree with an environment of its own, in which a benchmark may change the source.

Its Python has the packages of ours, and ``pytest_nfvperf`` of the copy, in nested runs and commands, too. It lies in a
temporary directory: whatever ends the benchmark, the tree that it was started in is as it was.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_nfvperf.adapters.generators.embedded.build import default_cache_dir
from pytest_nfvperf.adapters.process.journal import RUN_DIR_VARIABLE
from pytest_nfvperf.adapters.process.process import run

ROOT = Path(__file__).parents[1]
TIMED_OUT = 124
_CONFIG = """[run]
branch = true
parallel = true
core = ctrace
patch = fork
context = ${{NFV_TESTS_CONTEXT-}}
data_file = {data}/coverage
include = {package}/*
disable_warnings = no-data-collected, module-not-measured, module-not-imported, already-imported, couldnt-parse
"""


@dataclass(frozen=True, slots=True)
class TreeCopy:
    """``root``: the copy; ``work``: beside it, for what a benchmark notes; ``runs``: where its runs are noted.

    No run of the copy sees other runs of the machine: a changed source may take them for dead, and remove them.
    """

    root: Path
    work: Path
    runs: Path

    @property
    def package(self) -> Path:
        return self.root / "pytest_nfvperf"

    @property
    def data(self) -> Path:
        """Where processes of a run with coverage leave what they saw."""
        return self.work / "data"

    @property
    def coverage_config(self) -> Path:
        return self.work / "coveragerc"

    def run(self, command: Sequence[str], env: Mapping[str, str], timeout_s: float | None = None) -> tuple[int, str]:
        """Exit status and output of a command in the copy; TIMED_OUT when it took longer. Nothing of it runs on."""
        ours = {"XDG_CACHE_HOME": str(self.work / "cache"), RUN_DIR_VARIABLE: str(self.runs)}
        everything = {**os.environ, **ours, **env}
        everything.pop("PYTHONDONTWRITEBYTECODE", None)
        output = self.work / "output"
        with (
            output.open("wb") as stdout,
            subprocess.Popen(
                command, cwd=self.root, env=everything, stdout=stdout, stderr=subprocess.STDOUT, start_new_session=True
            ) as started,
        ):
            try:
                status = started.wait(timeout_s)
            except subprocess.TimeoutExpired:
                status = TIMED_OUT
            finally:
                _end_group(started.pid)
        return status, output.read_text(errors="replace")

    def python(self, *arguments: str) -> list[str]:
        return [str(self.root / ".venv/bin/python"), *arguments]

    @contextmanager
    def changed(self, file: Path, source: bytes) -> Iterator[None]:
        """This source in place of a file's, compiled anew before and after: the clock of its date goes on."""
        before = file.read_bytes()
        try:
            _write(file, source)
            yield
        finally:
            _write(file, before)


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def _write(file: Path, source: bytes) -> None:
    """Compiled files are told from stale ones by a date in whole seconds: each change gets one of its own."""
    date = max(time.time(), file.stat().st_mtime + 2)
    file.write_bytes(source)
    os.utime(file, (date, date))


@contextmanager
def tree_copy() -> Iterator[TreeCopy]:
    """The last commit, and what was changed since in files that git knows."""
    with TemporaryDirectory(prefix="nfvperf-copy-") as directory:
        runs = Path(f"/run/nfvperf-copy-{os.getpid()}")
        copy = TreeCopy(Path(directory, "tree"), Path(directory, "work"), runs)
        copy.data.mkdir(parents=True)
        run(["git", "clone", "--quiet", str(ROOT), str(copy.root)])
        for name in changed_files():
            target = copy.root / name
            target.unlink(missing_ok=True)
            if (ROOT / name).is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        _make_environment(copy)
        _make_cache(copy.work / "cache" / "nfvperf")
        copy.coverage_config.write_text(_CONFIG.format(data=copy.data, package=copy.package))
        try:
            yield copy
        finally:
            shutil.rmtree(runs, ignore_errors=True)


def changed_files(since: str = "HEAD") -> list[str]:
    """Files of the working tree that differ from a commit, and that git knows."""
    return run(["git", "-C", str(ROOT), "diff", "--name-only", since]).splitlines()


def commit() -> str:
    return run(["git", "-C", str(ROOT), "rev-parse", "HEAD"]).strip()


def _make_environment(copy: TreeCopy) -> None:
    """The packages of this environment, by a path; its scripts and its link to the tree with the copy's paths."""
    environment = copy.root / ".venv"
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], deadline_s=60)
    (ours,) = Path(sys.prefix).glob("lib/python*/site-packages")
    (theirs,) = environment.glob("lib/python*/site-packages")

    def moved(text: str) -> str:
        return text.replace(sys.prefix, str(environment)).replace(str(ROOT), str(copy.root))

    (theirs / "0_packages.pth").write_text(f"{ours}\n")
    for file in [*ours.glob("*.pth"), *ours.glob("__editable__*.py")]:
        (theirs / file.name).write_text(moved(file.read_text()))
    for file in Path(sys.prefix, "bin").iterdir():
        target = environment / "bin" / file.name
        if not target.exists():
            if file.read_bytes().startswith(b"#!"):
                target.write_text(moved(file.read_text()))
                target.chmod(0o755)
            else:
                target.symlink_to(file.resolve())
    for stamp in (".installed", ".docs"):
        (environment / stamp).touch()


def _make_cache(cache: Path) -> None:
    """What was built and downloaded, by links; files, such as known ceilings, as copies that may be spoilt."""
    cache.mkdir(parents=True)
    ours = default_cache_dir()
    for path in ours.iterdir() if ours.exists() else ():
        if path.is_dir():
            (cache / path.name).symlink_to(path)
        else:
            shutil.copy2(path, cache / path.name)
