"""What callgrind writes, as call stacks (valgrind's manual, "Callgrind Format Specification").

With --separate-callers a function's name has those of its callers behind it, parted by ``'``: each such context is a
stack. A line of two numbers is a cost of the function named last; the one after ``calls=`` is the inclusive cost of
what was called, which is counted where it was executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pytest_nfvperf.model.measure.function_costs import UNNAMED

_COST = re.compile(r"^[+*-]?\d*\s+(\d+)$")
_ADDRESS = re.compile(r"^(?:0x[0-9a-f]+|\?\?\?)$")
_CLONE = re.compile(r"\.(?:isra|constprop|part|cold|lto_priv)\b.*$")
"""What compilers append to a function that they copied or cut."""


def stacks(lines: Iterable[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each context's stack, the outermost function first, with the instructions of a line in it."""
    stack: tuple[str, ...] = ()
    called = False
    for line in lines:
        if line.startswith("fn="):
            stack = _stack(line[3:].strip())
        elif line.startswith("calls="):
            called = True
        elif cost := _COST.match(line.rstrip()):
            if not called and stack:
                yield stack, int(cost[1])
            called = False


def _stack(context: str) -> tuple[str, ...]:
    names = [name for name in context.split("'") if not name.isdigit()]  # a number counts recursions
    return tuple(_name(name) for name in reversed(names))


def _name(text: str) -> str:
    return UNNAMED if _ADDRESS.match(text) else _CLONE.sub("", text).replace(";", ":")
