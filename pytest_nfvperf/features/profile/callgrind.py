"""Counts the instructions of each function of a program, by valgrind's callgrind.

Callgrind executes the program on an emulated CPU. So the count does not depend on the machine's load or other tenants,
and it does not include the kernel, caches and stalls.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.process.process import run
from pytest_nfvperf.adapters.process.programs import find, install_hint
from pytest_nfvperf.features.profile.costs import UNNAMED
from pytest_nfvperf.model.errors import ConfigError, TestbedError

_COST = re.compile(r"^[+*-]?\d*\s+(\d+)$")
_ADDRESS = re.compile(r"^(?:0x[0-9a-f]+|\?\?\?)$")
_CLONE = re.compile(r"\.(?:isra|constprop|part|cold|lto_priv)\b.*$")
"""Suffixes that compilers append to a function that they copied or split."""
_VALGRIND, _VGDB = "valgrind", "vgdb"
_OUTPUT, _PIPE = "callgrind.out", "vgdb-pipe"
_CALLERS = 40
"""Depth of callers by which costs are separated: more than the depth of OVS's stacks."""
_ASK_DEADLINE_S = 30.0


def stacks(lines: Iterable[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Parse callgrind's output: each stack, the outermost function first, with the instructions of one line of code.

    The format is in valgrind's manual, "Callgrind Format Specification". With --separate-callers a function's name is
    followed by its callers, separated by ``'``: each such context is a stack. A line of two numbers is a cost of the
    function named last. The one after ``calls=`` is the inclusive cost of the callee, which is counted there.
    """
    stack: tuple[str, ...] = ()
    called = False
    for line in lines:
        if line.startswith("fn="):
            names = [name for name in line[3:].strip().split("'") if not name.isdigit()]  # a number counts recursions
            stack = tuple(
                UNNAMED if _ADDRESS.match(name) else _CLONE.sub("", name).replace(";", ":") for name in reversed(names)
            )
        elif line.startswith("calls="):
            called = True
        elif cost := _COST.match(line.rstrip()):
            if not called and stack:
                yield stack, int(cost[1])
            called = False


@dataclass(frozen=True, slots=True)
class Callgrind:
    """Callgrind around one process. ``directory``: an existing one, for its files."""

    directory: Path

    @staticmethod
    def check() -> None:
        """Raise ConfigError, with the package to install, if valgrind is missing."""
        missing = [name for name in (_VALGRIND, _VGDB) if find(name) is None]
        if missing:
            raise ConfigError(f"profiles by function need {', '.join(missing)}: {install_hint(*missing)}")

    def words(self) -> tuple[str, ...]:
        """What to write before the program's own command."""
        return (
            _VALGRIND,
            "--tool=callgrind",
            f"--callgrind-out-file={self.directory / _OUTPUT}",
            f"--log-file={self.directory / 'valgrind.log'}",
            f"--vgdb-prefix={self.directory / _PIPE}",
            f"--separate-callers={_CALLERS}",
            "--compress-strings=no",
            "--compress-pos=no",
            "--fair-sched=yes",
        )

    def counted(self, pid: int, work: Callable[[], object]) -> tuple[tuple[tuple[str, ...], int], ...]:
        """Stacks, with their instructions, of what the process executes during ``work``.

        Raises:
            TestbedError: the process does not answer, or wrote nothing; and whatever ``work`` raises.
        """
        self._ask(pid, "zero")
        work()
        before = set(self.directory.glob(f"{_OUTPUT}.*"))
        self._ask(pid, "dump", "nfvperf")
        written = sorted(set(self.directory.glob(f"{_OUTPUT}.*")) - before)
        found: list[tuple[tuple[str, ...], int]] = []
        for path in written:
            with path.open(encoding="utf-8", errors="replace") as file:
                found += stacks(file)
        if not found:
            raise TestbedError(
                f"callgrind counted no instruction of process {pid}",
                evidence={"valgrind": "\n".join(str(path) for path in written) or f"no dump in {self.directory}"},
            )
        return tuple(found)

    def _ask(self, pid: int, *command: str) -> None:
        """Give one of callgrind's monitor commands; it also reaches a process that waits in the kernel."""
        run([_VGDB, f"--vgdb-prefix={self.directory / _PIPE}", f"--pid={pid}", *command], deadline_s=_ASK_DEADLINE_S)
        if not os.path.exists(f"/proc/{pid}"):  # noqa: PTH110 - a process, not a file
            raise TestbedError(f"process {pid} ended while callgrind was asked to {command[0]}")
