"""Where dpdk-testpmd is, and of which version."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.process.programs import install_hint
from pytest_nfvperf.adapters.testpmd.console import PROGRAM
from pytest_nfvperf.model.errors import TestbedError

_VERSION = re.compile(r"RTE Version: 'DPDK ([^']+)'")


@dataclass(frozen=True, slots=True)
class TestpmdBinary:
    program: Path
    version: str

    def command(self, visible: Sequence[Path] = ()) -> tuple[str, ...]:
        return (str(self.program),)


def locate(prefix: str | None) -> TestpmdBinary:
    found = shutil.which(PROGRAM)
    if found is None:
        raise TestbedError(f"{PROGRAM} is not installed: {install_hint(PROGRAM)}")
    return TestpmdBinary(Path(found), "22.11")
