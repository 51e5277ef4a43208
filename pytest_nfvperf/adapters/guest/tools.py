"""Programs that are needed to build and boot a guest, and running one on bytes."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pytest_nfvperf.adapters.process.process import describe_exit
from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.model.errors import ConfigError, TestbedError

QEMU = "qemu-system-x86_64"


def need(*programs: str) -> None:
    """See that they are here.

    Raises:
        ConfigError: names each that is not, and the package that has it.
    """
    if platform.machine() != "x86_64":
        raise ConfigError(f"the guest is an x86_64 machine, this one is {platform.machine()}: no guest here")
    absent = [program for program in programs if shutil.which(program) is None]
    if absent:
        raise ConfigError(
            f"the guest needs {', '.join(absent)}: {install_hint(*absent)} (or `make test-kernel`, which does it)"
        )


def can_boot() -> bool:
    """True where the programs that build and boot a guest are here."""
    return platform.machine() == "x86_64" and all(shutil.which(program) for program in (QEMU, "cpio", "modprobe"))


def run_bytes(argv: Sequence[str], stdin: bytes, *, cwd: Path | None = None, deadline_s: float = 60.0) -> bytes:
    """Run a filter and return what it wrote.

    Raises:
        ConfigError: the program is not here; names its package.
        TestbedError: it failed, with its standard error.
    """
    need(argv[0])
    done = subprocess.run(argv, input=stdin, capture_output=True, cwd=cwd, check=False, timeout=deadline_s)
    if done.returncode != 0:
        stderr = done.stderr.decode(errors="replace")
        raise TestbedError(f"{' '.join(argv)} {describe_exit(done.returncode)}", evidence={"stderr": stderr})
    return done.stdout
