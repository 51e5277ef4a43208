"""How this kernel was built, where it tells."""

from __future__ import annotations

import gzip
import os
from pathlib import Path


def kernel_option(name: str, proc: Path = Path("/proc"), boot: Path = Path("/boot")) -> bool | None:
    """Whether the kernel was built with an option such as "IRQ_TIME_ACCOUNTING"; None where it does not tell."""
    text = _config(proc / "config.gz", boot / f"config-{os.uname().release}")
    return None if text is None else f"\nCONFIG_{name}=" in text


def _config(compressed: Path, plain: Path) -> str | None:
    try:
        if compressed.is_file():
            return gzip.decompress(compressed.read_bytes()).decode(errors="replace")
        return plain.read_text(encoding="utf-8", errors="replace") if plain.is_file() else None
    except OSError:
        return None
