"""Reading a YAML file so that every mistake can be pointed at.

YAML 1.2's core types only: in YAML 1.1, which PyYAML reads by default, a PCI address such as
``0000:03:00.0`` is the number 180 (base 60) and ``on`` is true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pytest_nfvperf.model.errors import ConfigError

KeyPath = tuple[str | int, ...]


class _CoreLoader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # PyYAML's own shape


_CORE_TYPES = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+0123456789."),
    ),
)
for _name, _pattern, _first in _CORE_TYPES:
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), _first)


_PATTERNS = {f"tag:yaml.org,2002:{name}": re.compile(pattern) for name, pattern, _ in _CORE_TYPES}
_NODES = {"str": yaml.ScalarNode, "seq": yaml.SequenceNode, "map": yaml.MappingNode}
_UNTYPED = {f"tag:yaml.org,2002:{name}" for name in _NODES}
_NOUNS = {"null": "null", "bool": "true or false", "int": "a whole number", "float": "a number"}
_MOST_DIGITS = 20
"""Of a whole number: 64 bits have as many. Python itself refuses to write one of 4300 digits into a message."""
_LONGEST_TEXT = 4000
_NO_CHARACTER = re.compile("[\\0\\ud800-\\udfff]")
_MOST_NODES = 100_000
"""With aliases counted as often as they are used: a few lines can stand for more than memory holds."""


class _NodeCheck:
    """Refuses what YAML allows and our files never need, before any data is made of it."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._left = _MOST_NODES
        self._open: set[int] = set()

    def check(self, node: yaml.Node, path: KeyPath = ()) -> None:
        """Raise ConfigError for the first offender below this node."""
        line = node.start_mark.line + 1
        self._left -= 1
        if self._left < 0:
            raise self._mistake("aliases make this too large to be read: write what is meant", line, path)
        if id(node) in self._open:
            raise self._mistake("an alias stands inside of what it is an alias of: write what is meant", line, path)
        self._open.add(id(node))
        self._check_tag_and_text(node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.check(item, (*path, index))
        elif isinstance(node, yaml.MappingNode):
            seen: dict[tuple[str, str], int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    raise self._mistake("a key must be a word or a number", line, path)
                here: KeyPath = (*path, shortened(key.value))
                self._check_tag_and_text(key, here)
                if first := seen.get((key.tag, key.value)):
                    message = f"key {key.value!r} is written twice, first in line {first}: keep one"
                    raise self._mistake(message, line, path)
                seen[key.tag, key.value] = line
                self.check(value, here)
        self._open.remove(id(node))

    def _check_tag_and_text(self, node: yaml.Node, path: KeyPath) -> None:
        """Check the tag of a node, and the text of a scalar: that may end up in a message, a file name or a report."""
        line, name = node.start_mark.line + 1, node.tag.rpartition(":")[2]
        pattern = _PATTERNS.get(node.tag)
        if pattern is None:
            if node.tag not in _UNTYPED:
                shown = node.tag.replace("tag:yaml.org,2002:", "!!", 1)
                raise self._mistake(f"the type '{shown}' is none these files have: leave it out", line, path)
            if not isinstance(node, _NODES[name]):
                raise self._mistake(f"'!!{name}' stands before what is none: leave it out", line, path)
        elif not isinstance(node, yaml.ScalarNode) or not pattern.fullmatch(node.value):
            given = shortened(node.value) if isinstance(node, yaml.ScalarNode) else "this"
            raise self._mistake(f"{given!r} is not {_NOUNS[name]}, which '!!{name}' says: leave that out", line, path)
        elif name == "int" and len(node.value) > _MOST_DIGITS:
            raise self._mistake(
                f"{shortened(node.value)!r} is a number of {len(node.value)} digits: nothing here is so large",
                line,
                path,
            )
        if not isinstance(node, yaml.ScalarNode):
            return
        if len(node.value) > _LONGEST_TEXT:
            raise self._mistake(f"is a text of {len(node.value)} characters: {_LONGEST_TEXT} are possible", line, path)
        if bad := _NO_CHARACTER.search(node.value):
            raise self._mistake(f"has {bad[0]!r}, which no text can have: leave it out", line, path)

    def _mistake(self, message: str, line: int, path: KeyPath) -> ConfigError:
        return ConfigError(message, file=self._file, key=show_path(path) or None, line=line)


def shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


@dataclass(frozen=True)
class Document:
    """A read file: its data, and where each key is."""

    file: str
    data: Any
    root: yaml.Node

    def line(self, path: KeyPath) -> int:
        """Line of the deepest part of the path that is in the file, counted from 1."""
        node, line = self.root, self.root.start_mark.line + 1
        for step in path:
            child = _child(node, step)
            if child is None:
                break
            node, line = child
        return line

    def error(self, message: str, path: KeyPath) -> ConfigError:
        """A ConfigError that names file, line and key path."""
        return ConfigError(message, file=self.file, key=show_path(path) or None, line=self.line(path))


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark.line + 1
    return None


def show_path(path: KeyPath) -> str:
    """``dut.ports[0].pci``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def read_document(path: str | Path) -> Document:
    """Read one file; it must hold a mapping.

    Raises:
        ConfigError: it is missing, unreadable, no YAML, empty or writes a key twice.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text: {error.reason} at byte {error.start}", file=str(path)) from error
    return parse_document(text, str(path))


def parse_document(text: str, file: str) -> Document:
    """As :func:`read_document`, from text; ``file`` is what messages call it."""
    try:
        loader = _CoreLoader(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"is not YAML: {error}", file=file) from None
    try:
        root = loader.get_single_node()
        if root is not None:
            _NodeCheck(file).check(root)
        data = None if root is None else loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"is not YAML: {what}", file=file, line=mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"is not YAML: {error}", file=file) from None
    except RecursionError:
        raise ConfigError("is nested too deeply to be read", file=file) from None
    finally:
        loader.dispose()
    if root is None or data is None:
        raise ConfigError("is empty: write 'schema: 1' and what follows it", file=file)
    if not isinstance(data, dict):
        raise ConfigError("must be a mapping that begins with 'schema: 1'", file=file, line=1)
    return Document(file, data, root)


class _CoreDumper(yaml.SafeDumper):
    """Quotes what our reader would take for a number, which PyYAML's own rules would leave bare."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    looks_like_more = any(re.fullmatch(pattern, text) for _, pattern, _ in _CORE_TYPES)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if looks_like_more else None)


_CoreDumper.add_representer(str, _represent_text)


def dump(data: dict[str, Any]) -> str:
    """Plain data as YAML that :func:`parse_document` reads back to the same data; keys keep their order."""
    return yaml.dump(data, Dumper=_CoreDumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110)


def as_yaml(value: Any) -> str:
    """One value as a user would write it in a line."""
    if isinstance(value, str):
        return value
    return yaml.dump(value, Dumper=_CoreDumper, sort_keys=False, default_flow_style=True).removesuffix("...\n").strip()
