"""docs/reference/options.md lists every option that the plugin adds, and none that it does not."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_nfvperf.plugin.options import add_options

ROOT = Path(__file__).parents[2]


class Parser:
    """Of pytest's parser what the plugin calls; it notes the options."""

    def __init__(self) -> None:
        self.added: set[str] = set()

    def getgroup(self, *_: str) -> Parser:
        return self

    def addoption(self, name: str, **_: object) -> None:
        self.added.add(name)


def test_every_option_is_documented():
    parser = Parser()
    add_options(parser)

    listed = set(re.findall(r"^\| `(--nfv-[a-z-]+)", (ROOT / "docs/reference/options.md").read_text(), re.MULTILINE))
    assert parser.added
    assert listed == parser.added
