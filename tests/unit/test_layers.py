"""The house: imports point down only, folders have an order, files and functions stay small.

model < ports < config, adapters, native < measure < backends < session < plugin, cli < public API < fixtures < suites.

An import under TYPE_CHECKING loads nothing, and one inside a function runs later. Both still say that one module knows
another: layers hold for them, and they close circles, too.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_nfvperf"

LAYERS = ("model", "ports", ("config", "adapters"), "measure", "backends", "session", ("plugin", "cli"))
PUBLIC = ("__init__", "__main__", "lazy_names", "parts", "results", "extend", "events", "testing")
"""The files at the top of the package: what ``python -m`` runs, and others that name what lies in all layers, and
import it when asked for a name."""
FIXTURES, SUITES = len(LAYERS) + 1, len(LAYERS) + 2

FOLDERS = {
    "model": ("", "traffic", "disturbance", "topology", "testbed", "sla", "measure", "evidence"),
    "adapters": (
        *("process", "net", "host", "generators", "ovs", "evidence", "testpmd", "vnf"),
        *("report", "machine"),
    ),
    "adapters.generators": ("", "embedded"),
}
"""The order of the folders inside a folder, the lowest first; "" is what lies beside them."""

FEW_LIBRARIES, LIBRARIES = ("model", "ports"), {"pydantic", "pydantic_core"}
"""What these import beside the standard library: what reads fields of data classes."""

OF_EXTRAS = frozenset({"vl_convert", "scipy", "ruptures", "execnet", "xdist", "opentelemetry", "requests"})
"""What the base does not bring. xdist itself loads our scheduler."""

FEATURES_PORTS = ("pytest_nfvperf.features.routing.ports",)

MAY_IMPORT_PYTEST = (
    *("pytest_nfvperf.plugin", "pytest_nfvperf.fixtures", "pytest_nfvperf.cli.pytest_runs", "suites"),
    *("pytest_nfvperf.features.allure.sink", "pytest_nfvperf.features.virtual_time.guest_run"),
)

MOST_LINES, MOST_LINES_OF_A_FUNCTION, MOST_LINES_OF_MOST_FUNCTIONS, MOST_FILES_AT_THE_TOP = 800, 60, 30, 8
"""Nine functions of ten are below the third."""


@dataclass(frozen=True)
class Import:
    """``kind``: "top", "lazy" (inside a function) or "type" (under TYPE_CHECKING)."""

    importer: str
    imported: str
    kind: str


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(["pytest_nfvperf", *parts] if parts[0] == "fixtures" else parts)


@cache
def sources() -> dict[str, Path]:
    paths = {path for path in PACKAGE.rglob("*.py") if "fixtures" not in path.relative_to(PACKAGE).parts}
    return {
        module_name(path): path
        for path in sorted(paths | {*(ROOT / "fixtures").glob("*.py"), *(ROOT / "suites").rglob("*.py")})
    }


@cache
def imports() -> tuple[Import, ...]:
    return tuple(
        one for name, path in sources().items() for one in _imports_below(name, ast.parse(path.read_text()), "top")
    )


def _imports_below(importer: str, node: ast.AST, kind: str) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(importer, alias.name, kind) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{importer}: relative import"
            for alias in child.names:
                module = f"{child.module}.{alias.name}"
                yield Import(importer, module if module in sources() else child.module or "", kind)
        inner = kind
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            inner = "type"
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and kind == "top":
            inner = "lazy"
        yield from _imports_below(importer, child, inner)


def rank(module: str) -> tuple[int, ...]:
    """The rank of a module: its layer, then the place of its folder in each folder that has an order."""
    if module.split(".", maxsplit=1)[0] == "suites":
        return (SUITES,)
    parts = module.split(".")[1:]
    if parts == ["features"]:
        return (-1,)  # the table of features imports nothing
    if not parts or parts[0] in PUBLIC:
        return (len(LAYERS),)
    if parts[0] in {"fixtures", "features"}:
        return (FIXTURES,)
    position = [next(i for i, layer in enumerate(LAYERS) if parts[0] == layer or parts[0] in layer)]
    for depth in range(1, len(parts)):
        folder = ".".join(parts[:depth])
        if folder not in FOLDERS:
            break
        is_package = sources()[module].name == "__init__.py"
        inner = parts[depth] if depth < len(parts) - 1 or is_package else ""
        position.append(FOLDERS[folder].index(inner))
    return tuple(position)


def is_version_only(one: Import) -> bool:
    """``from pytest_nfvperf import __version__``: the one name that lower layers may ask the top for."""
    return one.imported == "pytest_nfvperf"


def test_the_imports_of_the_package_are_found():
    assert {"pytest_nfvperf.model.traffic.trial", "pytest_nfvperf.fixtures.nfv", "suites.throughput.test_flows"} <= {
        *sources()
    }
    assert Import("pytest_nfvperf.cli.main", "pytest_nfvperf.cli.doctor", "lazy") in imports()
    assert (
        rank("pytest_nfvperf.model.errors")
        < rank("pytest_nfvperf.model.sla.judge")
        < rank("pytest_nfvperf.ports.machine")
    )


def test_imports_point_down():
    upward = {
        (one.importer, one.imported)
        for one in imports()
        if one.imported in sources()
        and rank(one.imported) > rank(one.importer)
        and not is_version_only(one)
        and one.importer.removeprefix("pytest_nfvperf").lstrip(".") not in ("", *PUBLIC)
    }

    assert not upward


def test_every_folder_has_its_place():
    for name in sources():
        rank(name)  # ValueError for a folder that is in none of the orders


def test_only_the_plugin_the_fixtures_and_the_plan_import_pytest():
    others = {
        one.importer
        for one in imports()
        if one.imported.split(".")[0] in ("pytest", "_pytest") and not one.importer.startswith(MAY_IMPORT_PYTEST)
    }

    assert not others


def test_the_model_and_the_ports_need_the_standard_library_and_pydantic_only():
    foreign = {
        (one.importer, one.imported)
        for one in imports()
        if one.importer.split(".")[1:2] and one.importer.split(".")[1] in FEW_LIBRARIES
        if one.imported.split(".")[0] not in {*sys.stdlib_module_names, "pytest_nfvperf"} | LIBRARIES
    }

    assert not foreign


def circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_circle_among_files():
    """Wherever the import is: inside a function or under TYPE_CHECKING, too."""
    graph: dict[str, set[str]] = {name: set() for name in sources()}
    for one in imports():
        if one.imported in graph and not is_version_only(one):
            graph[one.importer].add(one.imported)

    assert {"lazy", "type"} <= {one.kind for one in imports() if one.imported in graph}
    assert not circle(graph)


def test_no_circle_among_c_files():
    """A header and the .c of its name are one. Each knows what it includes, and where the functions it names are."""
    comments_and_texts = re.compile(r'/\*.*?\*/|"(?:[^"\\]|\\.)*"', re.DOTALL)
    sources = {path: path.read_text() for path in (PACKAGE / "native").glob("*.[ch]")}
    bare = {path: comments_and_texts.sub("", text) for path, text in sources.items() if path.suffix == ".c"}
    homes = {
        name: path.stem
        for path, text in bare.items()
        for name in re.findall(r"^(?!static\b)[\w *]*?\b(\w+)\([^;{}]*\)\n\{", text, re.MULTILINE)
    }
    graph: dict[str, set[str]] = {}
    for path, text in sources.items():
        known = {Path(name).stem for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)}
        known |= {homes[word] for word in homes.keys() & {*re.findall(r"(?<![.>\w])\w+", bare.get(path, ""))}}
        graph.setdefault(path.stem, set()).update(known - {path.stem})

    assert {"cmd_trial", "protocol"} <= graph["main"]
    assert {"frame", "template"} <= graph["plan"] | graph["receive"]
    assert not circle(graph)


def test_measurements_know_no_adapter():
    """They work on ports alone; what records are made of is the model's."""
    measure, adapters = "pytest_nfvperf.measure.", "pytest_nfvperf.adapters."
    found = {
        (one.importer.removeprefix(measure), one.imported.removeprefix(adapters))
        for one in imports()
        if one.importer.startswith(measure) and one.imported.startswith(adapters)
    }

    assert not found


def test_measurements_touch_no_file_and_no_process():
    """What they read and keep comes through ports, so that it can be simulated, and works on any machine."""
    system = {"io", "json", "os", "pathlib", "shutil", "signal", "socket", "subprocess", "tempfile"}
    found = {(one.importer, one.imported) for one in imports() if one.importer.startswith("pytest_nfvperf.measure.")}

    assert ("pytest_nfvperf.measure.clocks", "time") in found
    assert not {(importer, imported) for importer, imported in found if imported.split(".")[0] in system}


def classes_that_are_tested_for() -> Iterator[tuple[str, str, str]]:
    """Modules above the backends, with each class that ``isinstance`` or ``case`` tests for, and where it is from."""
    above = next(i for i, layer in enumerate(LAYERS) if layer == "backends")
    for name, path in sources().items():
        if rank(name)[0] <= above:
            continue
        tree = ast.parse(path.read_text())
        origin = {
            alias.asname or alias.name: node.module or ""
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            kinds: list[ast.AST] = []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                kinds = list(ast.walk(node.args[1]))
            elif isinstance(node, ast.MatchClass):
                kinds = [node.cls]
            yield from ((name, kind.id, origin.get(kind.id, "")) for kind in kinds if isinstance(kind, ast.Name))


def test_who_uses_a_backend_never_asks_what_it_is():
    """A third party's backend gets BGP and OVN as ours do. A plan alone knows its backend: it has no other."""
    below = ("pytest_nfvperf.backends.", "pytest_nfvperf.adapters.", "pytest_nfvperf.ports.", *FEATURES_PORTS)
    asked = {(name, kind) for name, kind, origin in classes_that_are_tested_for() if origin.startswith(below)}

    assert asked == {
        ("pytest_nfvperf.plugin.plan", "SimulatedBackend"),
        # parts of features that stand below a session: what they do needs OVS itself
        ("pytest_nfvperf.features.routing.path_daemons", "BuiltOvsTopology"),
    }


def test_measuring_asks_no_port_what_it_can_do():
    """What an adapter cannot do is a default of the base class that it inherits."""
    ports = {
        node.name
        for path in (PACKAGE / "ports").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.decorator_list
    }
    assert {"Datapath", "Generator", "StreamEngine", "Collector"} <= ports
    asked = [
        f"{name}: {ast.unparse(node)}"
        for name, path in sources().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if {kind.id for kind in ast.walk(node.args[1]) if isinstance(kind, ast.Name)} & ports
    ]
    assert not asked


def own_files(*suffixes: str) -> list[Path]:
    """All files of the project's own, the tests' and benchmarks' too: those with these suffixes."""
    folders = ("pytest_nfvperf", "fixtures", "suites", "tests", "benchmarks")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes]


def function_lengths(paths: Iterable[Path]) -> list[tuple[int, str]]:
    """Lines and name of each function, the shortest first."""
    return sorted(
        ((node.end_lineno or 0) - node.lineno + 1, f"{path.relative_to(ROOT)}: {node.name}")
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_files_stay_small():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in own_files(".py", ".c", ".h")}

    assert len(lengths) > 400
    assert [name for name, lines in lengths.items() if lines > MOST_LINES] == []


def test_functions_stay_short():
    lengths = function_lengths(own_files(".py"))

    assert [name for lines, name in lengths if lines > MOST_LINES_OF_A_FUNCTION] == []
    for folder in ("pytest_nfvperf", "tests"):
        inside = [lines for lines, name in lengths if name.startswith(folder)]
        assert inside[len(inside) * 9 // 10] < MOST_LINES_OF_MOST_FUNCTIONS


def test_the_top_of_the_package_is_next_to_empty():
    assert {path.stem for path in PACKAGE.glob("*.py")} <= {*PUBLIC}
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_FILES_AT_THE_TOP


def test_no_module_needs_an_extra_to_be_imported() -> None:
    top = [one for one in imports() if one.kind == "top" and one.imported.split(".")[0] in OF_EXTRAS]
    assert {one.importer for one in top} == {"pytest_nfvperf.plugin.scheduler"}, top
    lazy = {one.imported.split(".")[0] for one in imports() if one.kind == "lazy"}
    assert "vl_convert" in lazy
