"""The programs that a source calls by name: what test_programs.py holds to the table of programs."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

_COMMANDS = frozenset(
    {"run", "Popen", "call", "check_call", "check_output", "spawn", "_spawn", "execvp", "run_bytes", "run_in_guest"}
    | {"guest", "run_daemon", "command", "checked", "_run", "_run_step", "_inside", "run_contained"}
)
"""Functions and methods that take an argument list."""
_NAMERS = frozenset({"which", "_tool", "need", "not_installed", "install_hint"})
"""Functions that take the names of programs."""
_FIRST = frozenset({"_checked", "_told", "find", "_program", "executable", "_quietly", "_apt", "_has"})
"""Functions whose first argument is one."""
_PROGRAM = re.compile(r"(?:/(?:usr/)?s?bin/)?(?!.*ovsschema)[a-z][a-z0-9._+-]*")
_WRAPPERS = frozenset({"env", "nsenter", "unshare", "setpriv", "taskset", "prlimit", "stdbuf", "chroot"})
_VALUED = frozenset({"-C", "-c", "--pdeathsig"})
"""Options of wrappers that take the next word."""
_KEYWORDS = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "do",
        "done",
        "while",
        "until",
        "case",
        "esac",
        "in",
        "!",
        "{",
        "}",
        "time",
    ]
)
_BUILTINS = frozenset(
    [
        "set",
        "unset",
        "cd",
        "local",
        "echo",
        "exit",
        "export",
        "exec",
        "true",
        "shift",
        "return",
        "read",
        "trap",
        "wait",
        "test",
        "[",
        "[[",
        ":",
        "source",
        "call",
    ]
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\s*[:?+]?=")

Call = tuple[str, int]
Bound = Mapping[str, Sequence[ast.expr]]


def python_calls(source: str) -> list[Call]:
    """Name and line of each program that a Python source calls by a literal name, wrapped by others or not."""
    tree = ast.parse(source)
    bound = _bound(tree)
    found: set[Call] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        arguments = [*node.args, *(word.value for word in node.keywords if word.arg == "args")]
        if _name(node.func) in _NAMERS:
            found |= {(word.value, word.lineno) for word in arguments if _is_text(word)}
        if _name(node.func) in _FIRST and not _of_an_object(node.func):
            found |= {(word.value, word.lineno) for word in arguments[:1] if _is_text(word)}
        if _name(node.func) in _COMMANDS:
            found |= {call for argument in arguments for call in _called(argument, bound, frozenset())}
    return sorted((name.rpartition("/")[2], line) for name, line in found if _PROGRAM.fullmatch(name))


def _of_an_object(function: ast.expr) -> bool:
    """``suite.find(...)``: a method of something else that has the name of one of our functions."""
    return isinstance(function, ast.Attribute) and _name(function.value) not in {"self", "programs"}


def _bound(tree: ast.AST) -> Bound:
    """What names may mean: values assigned to them, and what functions of this name return."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                found.setdefault(_name(target), []).append(node.value)
        elif isinstance(node, ast.AugAssign):
            found.setdefault(_name(node.target), []).append(node.value)
        elif isinstance(node, ast.FunctionDef):
            returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value]
            found.setdefault(node.name, []).extend(returned)
    return found


def _called(value: ast.expr, bound: Bound, seen: frozenset[str]) -> Iterator[Call]:
    """The programs of an expression that is an argument list, or leads to one."""
    if isinstance(value, ast.List | ast.Tuple):
        yield from _of_words(value.elts, bound, seen)
    elif isinstance(value, ast.Starred):
        yield from _called(value.value, bound, seen)
    elif isinstance(value, ast.BinOp):
        yield from _called(value.left, bound, seen)
    elif isinstance(value, ast.IfExp):
        yield from _called(value.body, bound, seen)
        yield from _called(value.orelse, bound, seen)
    elif (name := _name(value.func if isinstance(value, ast.Call) else value)) and name not in seen:
        for one in bound.get(name, ()):
            yield from _called(one, bound, seen | {name})


def _of_words(words: Sequence[ast.expr], bound: Bound, seen: frozenset[str]) -> Iterator[Call]:
    if not words:
        return
    first = words[0]
    if not _is_text(first):
        yield from _called(first, bound, seen)
        return
    yield first.value, first.lineno
    yield from _of_words(_wrapped(first.value, list(words[1:])), bound, seen)


def _wrapped(wrapper: str, words: list[ast.expr]) -> Sequence[ast.expr]:
    """The command in a command: what follows the options of nsenter, or ``ip netns exec NAME``."""
    if wrapper == "ip" and [word.value for word in words[:2] if _is_text(word)] == ["netns", "exec"]:
        return words[3:]
    if wrapper.rpartition("/")[2] not in _WRAPPERS:
        return ()
    while words and _is_option(text := _start(words[0])):
        del words[: 2 if text in _VALUED else 1]
    return words


def _is_option(text: str) -> bool:
    return text.startswith("-") or _ASSIGNMENT.match(text) is not None


def _start(word: ast.expr) -> str:
    """A literal word, or the literal that an f-string begins with; empty otherwise."""
    if isinstance(word, ast.JoinedStr) and word.values:
        return _start(word.values[0])
    return word.value if _is_text(word) else ""


class _Text(ast.Constant):
    value: str


def _is_text(node: ast.expr) -> TypeGuard[_Text]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def shell_calls(source: str) -> list[Call]:
    """Name and line of each program in a command's place: of a script, or of a Makefile's recipes."""
    functions = set(re.findall(r"^(\w+)\(\)", source, re.MULTILINE))
    found: set[Call] = set()
    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith(".PHONY") or re.match(r"[\w$(){}.-]+:(?!=)", line) or re.match(r"\w+\s+[:?+]?=\s", line):
            continue  # a Makefile's targets and variables
        found |= {(word, number) for word in _commands(line, functions)}
    return sorted((name.rpartition("/")[2], line) for name, line in found if _PROGRAM.fullmatch(name))


def _commands(line: str, functions: set[str]) -> Iterator[str]:
    """The first word of each command of a line; after a function of the script, each word may be one."""
    lexer = shlex.shlex(line.strip().lstrip("@"), posix=False, punctuation_chars="();|&<>`")
    lexer.whitespace_split = True
    is_command = True
    for word in lexer:
        inside = word.strip('"')
        if "$(" in inside:  # in quotes, the lexer does not split it
            yield from _commands(inside.partition("$(")[2].rpartition(")")[0] or inside.partition("$(")[2], functions)
        if set(word) <= set("();|&`"):
            is_command = True
        elif set(word) <= set("<>"):
            is_command = False
        elif is_command and word not in _KEYWORDS and not _ASSIGNMENT.match(word):
            is_command = word in functions or word.startswith('"')  # such a function runs what follows its quoted words
            if not is_command and word not in _BUILTINS:
                yield word
