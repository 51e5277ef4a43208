"""Faults to plant in a source, one at a time: made from its syntax tree, and chosen by a seed.

A fault is what a slip of the hand makes: a condition that is inverted, a check that is left out, a bound that is off by
one, ``and`` for ``or``, plus for minus. Texts, annotations, constants of modules and what only makes a message are left
alone: a fault there has no behaviour, or another test of texts.
"""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

AREAS: Mapping[str, Sequence[str]] = {
    "validity": ("model/disturbance/validity.py", "model/disturbance/trial.py"),
    "judge": ("model/sla/judge.py",),
    "ledger": ("model/measure/ledger.py", "adapters/ovs/trial_ledger.py"),
    "journal": ("adapters/process/journal.py",),
    "reaper": ("adapters/machine/reaper.py",),
    "search": ("measure/search.py", "measure/confirmation.py"),
    "engine answers": ("adapters/generators/embedded/trial_results.py", "adapters/generators/checks.py"),
}
"""Where a fault makes a wrong verdict, loses data or leaves something behind: files below the package."""
COUNT, SEED = 40, 2544

EQUIVALENT: Mapping[str, str] = {
    "adapters/process/journal.py::Journal._append::check left out: not records -> False": "it writes no bytes then",
}
"""Faults by their key that change no behaviour, each with the reason: the next one is planted in its place."""

_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_ARITHMETIC: Mapping[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*"}
_WORDS = (ast.JoinedStr, ast.Raise)
"""What makes messages."""
_LEAVES = (ast.Raise, ast.Return, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Fault:
    """``old`` at these bytes of a file becomes ``new``. ``file``: below the package; ``kind``: of the slip."""

    area: str
    file: str
    function: str
    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str

    @property
    def key(self) -> str:
        """The same as long as its function does not change before it."""
        return f"{self.file}::{self.function}::{self.kind}: {' '.join(self.old.split())} -> {self.new}"

    def planted(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.kind}: {' '.join(self.old.split())} -> {self.new}"


def chosen(package: Path, count: int = COUNT, seed: int = SEED) -> list[Fault]:
    """So many faults, as evenly as possible over the areas, and within each over the kinds of slips."""
    by_area = {area: _in_turns(area, package, files, seed) for area, files in AREAS.items()}
    found: list[Fault] = []
    while len(found) < count:
        before = len(found)
        for faults in by_area.values():
            found += [fault for fault in [next(faults, None)] if fault is not None][: count - len(found)]
        if len(found) == before:
            raise ValueError(f"{len(found)} faults can be planted, and {count} are asked for")
    return found


def _in_turns(area: str, package: Path, files: Sequence[str], seed: int) -> Iterator[Fault]:
    """Faults of an area, a kind after the other, none twice in a function as long as there are others."""
    order = random.Random(f"{seed} {area}")  # noqa: S311 - the same faults each time
    by_kind: dict[str, list[Fault]] = defaultdict(list)
    sources = {file: (package / file).read_bytes() for file in files}
    for file, source in sources.items():
        for fault in faults_of(area, file, source):
            if fault.key not in EQUIVALENT:
                by_kind[fault.kind].append(fault)
    for faults in by_kind.values():
        order.shuffle(faults)
    taken: dict[str, int] = defaultdict(int)
    while by_kind:
        for kind in sorted(by_kind):
            fault = min(by_kind[kind], key=lambda one: taken[one.function])
            by_kind[kind].remove(fault)
            taken[fault.function] += 1
            if _compiles(fault.planted(sources[fault.file])):
                yield fault
        by_kind = {kind: faults for kind, faults in by_kind.items() if faults}


def faults_of(area: str, file: str, source: bytes) -> list[Fault]:
    """Every fault that can be planted in a file, in its order."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for name, function in _functions(tree, ""):
        for kind, node, new in _slips(function):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            old = source[start:end].decode()
            found.append(Fault(area, file, name, node.lineno, kind, start, end, old, new.format(old)))
    return found


def _compiles(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _functions(node: ast.AST, inside: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Each function with its dotted name; what makes texts of an object is none of them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            if child.name not in {"__str__", "__repr__"}:
                yield f"{inside}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{inside}{child.name}.")


def _slips(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr, str]]:
    """Kind, the expression, and what takes its place ("{}" is what was there)."""
    for node in (each for statement in function.body for each in _walk(statement)):
        if isinstance(node, ast.If) and isinstance(node.body[0], _LEAVES) and not node.orelse:
            yield "check left out", node.test, "False"
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield "condition inverted", node.test, "(not ({}))"
        if isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield "filter left out", test, "True"
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            yield "bound moved", node, _literal(f"({left} {_COMPARISONS[type(node.ops[0])]} {right})")
        if isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield "and for or", node, _literal(f"({word.join(f'({ast.unparse(value)})' for value in node.values)})")
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _of_texts(node):
            sides = ast.unparse(node.left), ast.unparse(node.right)
            yield "sign changed", node, _literal(f"({sides[0]} {_ARITHMETIC[type(node.op)]} ({sides[1]}))")
        if isinstance(node, ast.Constant) and type(node.value) is int:
            yield "off by one", node, str(node.value + 1)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All below a statement, without messages, annotations, and functions inside of it."""
    if isinstance(node, (*_WORDS, ast.FunctionDef, ast.Assert)):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _literal(text: str) -> str:
    """So that ``str.format`` leaves it as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def _of_texts(node: ast.BinOp) -> bool:
    return any(isinstance(each, ast.JoinedStr | ast.List | ast.Tuple) or _is_text(each) for each in ast.walk(node))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
