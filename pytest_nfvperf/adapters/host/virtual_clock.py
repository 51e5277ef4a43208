"""Whether time is virtual here, and what an instruction takes."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_nfvperf.model.errors import ConfigError

INSTRUCTION_NS_PARAMETER = "nfvperf.instruction_ns"
"""On a guest's kernel command line in virtual time only; by it the program that counts instructions finds out."""

_COMMAND_LINE = Path("/proc/cmdline")


def is_virtual(command_line: Path = _COMMAND_LINE) -> bool:
    """True in a guest whose clock counts instructions."""
    return _found(command_line) is not None


def instruction_ns(command_line: Path = _COMMAND_LINE) -> int:
    """Virtual ns an instruction, as the guest was booted; ConfigError if time is not virtual here."""
    found = _found(command_line)
    if found is None:
        raise ConfigError("instructions are counted in virtual time only: boot the guest with --virtual-time")
    return int(found)


def _found(command_line: Path) -> str | None:
    text = command_line.read_text(encoding="ascii", errors="replace")
    found = re.search(rf"(?:^|\s){re.escape(INSTRUCTION_NS_PARAMETER)}=(\d+)\b", text)
    return None if found is None else found[1]
