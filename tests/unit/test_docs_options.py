"""Options and commands in the documents are those that there are, and the code reads every option."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nfvperf.cli.main import _parser as command_parser
from pytest_nfvperf.plugin.options import add_options, read_options
from pytest_nfvperf.session.options import Options
from tests.documents import ROOT, blocks, commands
from tools.reference_pages import _leaves as leaves

COMMANDS = [
    (command, block.location)
    for block in blocks(language="bash")
    for command in commands(block.code)
    if command[0] in {"nfvperf", "pytest"}
]


class Parser:
    """Of pytest's parser and configuration what the plugin calls; it notes which options it adds and reads."""

    inipath, rootpath = None, ROOT
    invocation_params = SimpleNamespace(dir=ROOT)

    def __init__(self) -> None:
        self.added: dict[str, Any] = {}
        self.read: set[str] = set()

    def getgroup(self, *_: str) -> Parser:
        return self

    def addoption(self, name: str, *, default: Any = None, **_: object) -> None:
        self.added[name] = default

    def getoption(self, name: str, _: object = None) -> Any:
        self.read.add(name)
        return self.added.get(name)

    def getini(self, _: str) -> list[str]:
        return []


def test_every_option_is_documented():
    parser = Parser()
    add_options(parser)

    listed = set(re.findall(r"^\| `(--nfv-[a-z-]+)", (ROOT / "docs/reference/options.md").read_text(), re.MULTILINE))
    assert parser.added
    assert listed == {*parser.added}


def test_every_option_becomes_a_field_that_somebody_reads():
    parser: Any = Parser()
    add_options(parser)
    parser.added["--nfv-compare"] = ["a", "b"]  # only a comparison has a margin

    _, mistake = read_options(parser)

    assert mistake is None
    assert parser.added.keys() <= parser.read
    assert {each.name for each in fields(Options)} - attributes_of_options() == set()


def attributes_of_options() -> set[str]:
    """What the package and the fixtures read of an Options."""
    of_options = ("options", "OPTIONS_KEY]")
    files = [*(ROOT / "pytest_nfvperf").rglob("*.py"), *(ROOT / "fixtures").glob("*.py")]
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text())))
    return {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith(of_options)
    }


def written_commands() -> dict[tuple[str, ...], str]:
    """Commands in code quotes and code blocks of documents, and in messages of the package, with a place of each."""
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "pytest_nfvperf").glob("[a-z]*/**/*.py")]
    found = {}
    for path in files:
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
    for (command, *rest), location in written.items():
        assert command in commands, f"{location} names nfvperf {command}"
        if rest and commands[command]:
            assert rest[0] in commands[command], f"{location} names nfvperf {command} {rest[0]}"


def of_pytest(words: list[str]) -> set[str]:
    """Our options among those of pytest."""
    return {word.partition("=")[0] for word in words if word.startswith("--nfv-")}


@pytest.mark.parametrize(("command", "location"), [pytest.param(*each, id=each[1]) for each in COMMANDS])
def test_a_command_of_a_document_has_only_options_that_there_are(command, location, capsys):
    """Also that behind ``--``, which compare, bisect and lab hand on. Whether it runs needs a machine."""
    parser = Parser()
    add_options(parser)
    assert of_pytest(command) <= parser.added.keys()
    divide = command.index("--") if "--" in command else len(command)
    for each in (command[:divide], command[divide + 1 :]):
        if each[:1] == ["nfvperf"]:
            try:
                command_parser().parse_args(each[1:])
            except SystemExit:
                pytest.fail(f"{location}: {capsys.readouterr().err}")
