"""The public API: docs/api.md lists it, every name resolves, and suites, fixtures and documents use nothing else."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = (
    "pytest_nfvperf",
    "pytest_nfvperf.parts",
    "pytest_nfvperf.routing",
    "pytest_nfvperf.testing",
)
PAGE = (ROOT / "docs/api.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [path for folder in ("suites", "fixtures", "docs/examples") for path in sorted((ROOT / folder).rglob("*.py"))]


def names_of(module: str) -> set[str]:
    return {name for name in importlib.import_module(module).__all__ if name != "__version__"}


def listed(module: str) -> set[str]:
    """Names in the tables of the page: nfv.parts and its kin have a section each, the others are the package's own."""
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    short = module.removeprefix("pytest_nfvperf").removeprefix(".")
    chosen = [s for s in sections[1:] if (s.startswith(f"nfv.{short}\n") if short else not s.startswith("nfv."))]
    return {name for section in chosen for name in re.findall(r"^\| `(\w+)` \| .+ \|$", section, re.MULTILINE)}


def foreign(code: str) -> list[str]:
    """What a source imports from the package that is not public."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] == "pytest_nfvperf" and a.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pytest_nfvperf":
            for alias in node.names:
                is_module = f"{node.module}.{alias.name}" in PUBLIC
                if not is_module and (node.module not in PUBLIC or alias.name not in names_of(node.module)):
                    found.append(f"{node.module}.{alias.name}")
    return found


@pytest.mark.parametrize("module", PUBLIC)
def test_the_page_lists_what_the_module_has(module):
    assert listed(module) == names_of(module)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_name_resolves_and_is_shown(module):
    imported = importlib.import_module(module)

    for name in imported.__all__:
        assert getattr(imported, name) is not None
    assert set(imported.__all__) <= set(dir(imported))


@pytest.mark.parametrize("module", PUBLIC)
def test_type_checkers_see_what_is_there_at_run_time(module):
    imported = importlib.import_module(module)
    typed = {
        alias.name: node.module
        for node in ast.walk(ast.parse(Path(imported.__file__).read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    for name in names_of(module):
        value = getattr(imported, name)
        assert value is getattr(importlib.import_module(typed[name]), name)


def types_in(hint):
    """The package's own classes in an annotation."""
    inner = [found for part in typing.get_args(hint) for found in types_in(part)]
    own = isinstance(hint, type) and hint.__module__.startswith("pytest_nfvperf.")
    return [*inner, hint] if own else inner


@pytest.mark.parametrize(
    "name",
    [
        *("StreamRunner", "StreamRun", "StreamResult", "StreamEngine", "WayCounts"),
        *("VnfMaker", "Vnf", "VnfSpec", "VnfCounts"),
        *("Trial", "Ledger", "FramePath", "Hop", "CounterDelta"),
    ],
)
def test_what_streams_vnfs_and_ledgers_are_annotated_with_is_public(name):
    public = {name for module in PUBLIC for name in names_of(module)}
    described = getattr(importlib.import_module("pytest_nfvperf"), name)
    methods = [one for key, one in vars(described).items() if callable(one) and not key.startswith("_")]
    properties = [one.fget for one in vars(described).values() if isinstance(one, property)]
    hints = [hint for one in (described, *methods, *properties) for hint in typing.get_type_hints(one).values()]

    assert hints
    assert {found.__name__ for hint in hints for found in types_in(hint)} <= public


def test_a_wrong_name_is_said():
    with pytest.raises(AttributeError, match="module 'pytest_nfvperf' has no attribute 'Trafic'"):
        importlib.import_module("pytest_nfvperf").Trafic  # noqa: B018


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_suites_fixtures_and_examples_use_the_public_api_only(path):
    assert not foreign(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_use_the_public_api_only(page):
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        assert not foreign(match[1])


def test_the_walk_would_see_a_private_import():
    assert foreign("from pytest_nfvperf.runs.rig import Rig") == ["pytest_nfvperf.runs.rig.Rig"]
    assert foreign("import pytest_nfvperf.runs.rig") == ["pytest_nfvperf.runs.rig"]
    assert foreign("from pytest_nfvperf import Rig, Traffic") == ["pytest_nfvperf.Rig"]


def test_the_import_loads_neither_pytest_nor_the_adapters():
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, pytest_nfvperf.parts, pytest_nfvperf as nfv; nfv.Traffic; print(*sys.modules)",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()

    assert "pytest_nfvperf.model.traffic.traffic" in said
    assert not {"pytest", "scapy", "pyroute2", "pydantic", "matplotlib"} & set(said)
    assert not [name for name in said if name.startswith(("pytest_nfvperf.adapters", "pytest_nfvperf.runs"))]


def test_the_list_of_fixture_modules_is_complete():
    listed_modules = importlib.import_module("pytest_nfvperf.fixtures.all").pytest_plugins
    there = {f"pytest_nfvperf.fixtures.{path.stem}" for path in (ROOT / "fixtures").glob("*.py")}

    assert set(listed_modules) == there - {"pytest_nfvperf.fixtures.all"}
