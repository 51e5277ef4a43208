"""What ``perf script`` prints, as call stacks (perf-script(1)): a line of a sample, a line of each caller, a blank."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_nfvperf.model.measure.cpu_profile import UNKNOWN

FIELDS = "comm,ip,sym"
_FRAME = re.compile(r"^\s+[0-9a-f]+\s+(?P<symbol>.*\S)\s*$")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")


def stacks(text: str) -> Iterator[tuple[str, ...]]:
    """Each sample's stack: the process's name, then functions from the outermost to the one that ran."""
    comm, frames = "", list[str]()
    for line in [*text.splitlines(), ""]:
        frame = _FRAME.match(line)
        if frame is not None:
            frames.append(_OFFSET.sub("", frame["symbol"]).replace(";", ":"))
        elif line.strip():
            comm = line.strip().replace(";", ":")
        elif comm:
            yield (comm, *(reversed(frames) if frames else (UNKNOWN,)))
            comm, frames = "", []
