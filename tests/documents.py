"""Blocks of code in the documents. A comment before a block, which no reader sees, says what the block is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
KINDS = ("suite", "conftest", "topology", "testbed", "sla", "traffic", "tutorial", "capture")
_BLOCK = re.compile(r"(?:^<!-- (?P<kind>\w+) -->\n)?^ *```(?P<language>\w*)\n(?P<code>.*?)^ *```", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """``kind``: of KINDS, or "" without a comment. ``location``: its page and line."""

    kind: str
    language: str
    code: str
    location: str


def blocks(*kinds: str, language: str = "", pages: Iterable[Path] = PAGES) -> Iterator[Block]:
    """The blocks of these kinds, or all; in this language, or any."""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            location = f"{page.relative_to(ROOT)}:{text[: match.start('code')].count(chr(10))}"
            block = Block(match["kind"] or "", match["language"], match["code"], location)
            if (not kinds or block.kind in kinds) and language in {"", block.language}:
                yield block


def commands(code: str) -> Iterator[list[str]]:
    """The words of each command of a shell's block, without its environment; of a path the last part."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = next((at for at, word in enumerate(words) if word == "&&" or word.endswith(";")), len(words))
            command = [word.removesuffix(";") for word in words[: end + (end < len(words) and words[end] != "&&")]]
            while command and re.match(r"[A-Z_]+=", command[0]):
                del command[0]
            yield [command[0].rpartition("/")[2], *command[1:]]
            words = words[end + 1 :]
