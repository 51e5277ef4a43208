"""docs/options.md lists every option that the plugin adds, and none that it does not."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_nfvperf.plugin import options

ROOT = Path(__file__).parents[2]


def test_every_option_is_documented():
    added = set(re.findall(r'"(--nfv-[a-z-]+)"', Path(options.__file__).read_text()))
    listed = set(re.findall(r"^\| `(--nfv-[a-z-]+)", (ROOT / "docs/options.md").read_text(), re.MULTILINE))

    assert added
    assert listed == added
