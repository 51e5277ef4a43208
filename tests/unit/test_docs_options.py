"""Options and commands in the documents are those that there are: docs/reference/options.md lists every option."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from pytest_nfvperf.cli.main import _parser as command_parser
from pytest_nfvperf.plugin.options import add_options
from tools.reference_pages import _leaves as leaves

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


def written_commands() -> dict[tuple[str, ...], str]:
    """Commands in code quotes and code blocks of documents, and in messages of the package, with a place of each."""
    places = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "pytest_nfvperf").glob("[a-z]*/**/*.py")]
    found = {}
    for path in places:
        text = path.read_text()
        blocks = "".join(text.split("```")[1::2])
        quoted = re.findall(r"`nfvperf ([a-z]+)(?: ([a-z]+)\b)?", text)
        for words in quoted + re.findall(r"^nfvperf ([a-z]+)(?: ([a-z]+)\b)?", blocks, re.MULTILINE):
            found[tuple(filter(None, words))] = str(path.relative_to(ROOT))
    return found


def test_commands_that_documents_and_messages_name_exist():
    commands = defaultdict[str, list[str]](list)
    for parser in leaves(command_parser()):
        _, command, *below = parser.prog.split()
        commands[command] += below

    written = written_commands()
    assert ("ovs", "add") in written
    for (command, *rest), place in written.items():
        assert command in commands, f"{place} names nfvperf {command}"
        if rest and commands[command]:
            assert rest[0] in commands[command], f"{place} names nfvperf {command} {rest[0]}"
