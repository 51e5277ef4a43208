"""Imports point down only: model < ports < adapters, config < runs < the plugin and its fixtures < suites."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_nfvperf"
LAYERS = {"model": 0, "ports": 1, "config": 2, "adapters": 2, "native": 2, "runs": 3, "fixtures": 5}
TOP = 4
SUITES = 6
# what a machine without any package installed must be able to run
STDLIB_ONLY = ("model", "ports")


def layer_of(module: str) -> int:
    parts = module.split(".")
    if parts[0] == "suites":
        return SUITES
    return LAYERS.get(parts[1], TOP) if len(parts) > 1 else 0


def sources() -> list[Path]:
    folders = [PACKAGE, ROOT / "suites"]
    return sorted(
        {path.resolve() for folder in folders for path in folder.rglob("*.py")} | {*(ROOT / "fixtures").glob("*.py")}
    )


def module_name(path: Path) -> str:
    relative = path.relative_to(ROOT).with_suffix("")
    parts = [part for part in relative.parts if part != "__init__"]
    return ".".join(["pytest_nfvperf", *parts] if parts[0] == "fixtures" else parts)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {
                f"{node.module}.{alias.name}" if node.module == "pytest_nfvperf" else node.module
                for alias in node.names
            }
    return found


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    own = layer_of(module_name(path))
    upward = {
        name for name in imports(path) if name.split(".")[0] in ("pytest_nfvperf", "suites") and layer_of(name) > own
    }

    assert not upward, f"{module_name(path)} (layer {own}) imports upwards: {sorted(upward)}"


@pytest.mark.parametrize(
    "path",
    [p for p in sources() if module_name(p).split(".")[1:2] and module_name(p).split(".")[1] in STDLIB_ONLY],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_model_and_the_ports_need_the_standard_library_only(path):
    import sys

    foreign = {name for name in imports(path) if name.split(".")[0] not in {*sys.stdlib_module_names, "pytest_nfvperf"}}

    assert not foreign


def test_no_adapter_inherits_another():
    bases_of = {}
    for path in (PACKAGE / "adapters").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases_of[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
    data = {name for name, bases in bases_of.items() if {"BaseModel", "Exception", "NfvperfError"} & set(bases)}

    inheriting = [
        f"{name}({base})" for name, bases in bases_of.items() for base in bases if base in bases_of and base not in data
    ]
    assert not inheriting, f"adapters never subclass adapters: {inheriting}"


def test_the_walk_sees_the_package():
    names = {module_name(path) for path in sources()}

    assert {
        "pytest_nfvperf.model.traffic.trial",
        "pytest_nfvperf.fixtures.nfv",
        "suites.throughput.test_flows",
    } <= names
