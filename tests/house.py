"""Figures of the house: how much there is to understand. ``python -m tests.house`` prints them beside their limits."""

from __future__ import annotations

import ast
import importlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_nfvperf.model.metrics import METRICS
from pytest_nfvperf.plugin.options import _OPTIONS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_nfvperf"
LINKED = {"fixtures", "suites", "docs"}
"""Folders of the package that are links to folders at the top."""

NAMESPACES = ("parts", "results", "extend", "events", "testing")

MOST_LINES, MOST_FILES, MOST_FOLDERS = 81_348, 321, 39
MOST_CLASSES, MOST_DATA_CLASSES, MOST_PROTOCOLS, MOST_RAISES, MOST_QUESTIONS = 780, 419, 11, 1113, 353
MOST_OPTIONS, MOST_METRICS = 25, 100
"""What a stranger can take over. A change that needs more says why in its commit, and takes something else away."""

MOST_C_LINES, MOST_C_FILES = 10_020, 51


@dataclass(frozen=True)
class Figure:
    """One figure and its limit. ``names``: what it counts, where a list is short enough to help."""

    what: str
    value: int
    limit: int
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        mark = "" if self.value <= self.limit else "  ABOVE"
        return f"{self.what:44} {self.value:7,} of at most {self.limit:7,}{mark}"


@cache
def product_files() -> tuple[Path, ...]:
    """Python files of the package, without what lies at the top and is only linked."""
    return tuple(path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in LINKED)


@cache
def trees() -> Mapping[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in product_files()}


def public_classes() -> dict[str, list[str]]:
    """Where each public class is defined, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(PACKAGE)))
    return found


def public_names() -> set[str]:
    """What users may import, by its dotted name."""
    modules = ("pytest_nfvperf", *(f"pytest_nfvperf.{name}" for name in NAMESPACES))
    return {
        f"{module}.{name}"
        for module in modules
        for name in importlib.import_module(module).__all__
        if name not in {"__version__", *NAMESPACES}
    }


def long_functions(most: int) -> Iterator[str]:
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > most:
                    yield f"{path.relative_to(PACKAGE)}: {node.name} has {lines}"


def nodes(*kinds: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, kinds))


def concepts() -> list[Figure]:
    """How many things there are to know, and how often one asks what another is."""
    classes = [node for node in nodes(ast.ClassDef) if isinstance(node, ast.ClassDef)]
    marks = [{ast.unparse(mark).partition("(")[0] for mark in one.decorator_list} for one in classes]
    bases = [{ast.unparse(base).partition("[")[0] for base in one.bases} for one in classes]
    calls = [ast.unparse(node.func) for node in nodes(ast.Call) if isinstance(node, ast.Call)]
    return [
        Figure("classes", len(classes), MOST_CLASSES),
        Figure("data classes", sum("dataclass" in each for each in marks), MOST_DATA_CLASSES),
        Figure("Protocols", sum("Protocol" in each for each in bases), MOST_PROTOCOLS),
        Figure("raises", len([*nodes(ast.Raise)]), MOST_RAISES),
        Figure("questions of isinstance", calls.count("isinstance"), MOST_QUESTIONS),
        Figure("options of pytest", len(_OPTIONS), MOST_OPTIONS),
        Figure("metrics", len(METRICS), MOST_METRICS),
    ]


def c_figures() -> list[Figure]:
    """Of the embedded generator, without its tests."""
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in (PACKAGE / "native").glob("*.[ch]")]
    return [
        Figure("lines of the generator's C", sum(lengths), MOST_C_LINES),
        Figure("files of it", len(lengths), MOST_C_FILES),
    ]


def figures() -> list[Figure]:
    lengths = {
        str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines()) for path in product_files()
    }
    shared = tuple(f"{name}: {', '.join(paths)}" for name, paths in sorted(public_classes().items()) if len(paths) > 1)
    large = tuple(f"{name} has {lines}" for name, lines in lengths.items() if lines > 700)
    functions = tuple(long_functions(60))
    return [
        Figure("lines of product Python", sum(lengths.values()), MOST_LINES),
        Figure("files of product Python", len(lengths), MOST_FILES),
        Figure("folders of them", len({path.parent for path in product_files()}), MOST_FOLDERS),
        Figure("names that users may import", len(public_names()), 150),
        Figure("names of public classes with two meanings", len(shared), 0, shared),
        Figure("files above 700 lines", len(large), 0, large),
        Figure("functions above 60 lines", len(functions), 0, functions),
        *c_figures(),
        *concepts(),
    ]


def main() -> int:
    found = figures()
    for figure in found:
        print(figure)
        for name in figure.names:
            print(f"    {name}")
    return int(any(figure.value > figure.limit for figure in found))


if __name__ == "__main__":
    sys.exit(main())
