"""What ``perf script`` prints, as call stacks (perf-script(1)): a line of a sample, a line of each caller, a blank."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from pytest_nfvperf.model.measure.cpu_profile import UNKNOWN

FIELDS = "comm,ip,sym"
_FRAME = re.compile(r"^\s+[0-9a-f]+\s+(?P<symbol>.*\S)\s*$")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")


def stacks(text: str) -> Iterator[tuple[str, ...]]:
    """Each sample's stack: the process's name, then functions from the outermost to the one that ran.

    Functions without a name that call one another are one: what walks the stack of a program built without frame
    pointers finds up to 127 of them, and none is true.
    """
    comm, frames = "", list[str]()
    for line in [*text.splitlines(), ""]:
        frame = _FRAME.match(line)
        if frame is not None:
            frames.append(_OFFSET.sub("", frame["symbol"]).replace(";", ":"))
        elif line.strip():
            comm = line.strip().replace(";", ":")
        elif comm:
            yield (comm, *(_unknown_as_one(reversed(frames)) if frames else (UNKNOWN,)))
            comm, frames = "", []


def _unknown_as_one(frames: Iterable[str]) -> Iterator[str]:
    for name, run in groupby(frames):
        yield from (name,) if name == UNKNOWN else run
