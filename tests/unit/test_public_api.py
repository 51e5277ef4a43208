"""The public API: the stubs list it once, every name resolves, and suites, examples and documents use nothing else."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import subprocess
import sys
import types
import typing
from collections import Counter
from pathlib import Path

import public_names
import pytest
from public_names import NAMESPACES, PAGE, package_of

from pytest_nfvperf.lazy_names import GONE

ROOT = Path(__file__).parents[2]
PUBLIC = tuple(package_of(namespace) for namespace in NAMESPACES)
MOST_NAMES = 150
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [path for folder in ("suites", "docs/examples") for path in sorted((ROOT / folder).rglob("*.py"))]
FIXTURES = sorted((ROOT / "fixtures").glob("*.py"))

MAKERS_OF_FIXTURES = {
    "pytest_nfvperf.features.routing.daemons.SessionSampler",
    "pytest_nfvperf.model.topology.compose.Composition",
    "pytest_nfvperf.model.topology.compose.Part",
    "pytest_nfvperf.plugin.hooks.session_of",
    "pytest_nfvperf.plugin.labels.item_labels",
    "pytest_nfvperf.features.routing.paths.open_speakers",
    "pytest_nfvperf.session.deployment.Captures",
    "pytest_nfvperf.features.ovn.path.OvnAgentDeployer",
    "pytest_nfvperf.features.ovn.path.OvnDeployer",
}
"""What the package's own fixtures need beside the public names: fixtures of others build on these fixtures."""


def names_of(module: str) -> set[str]:
    imported = importlib.import_module(module)
    return {name for name in imported.__all__ if not isinstance(getattr(imported, name), types.ModuleType)}


def foreign(code: str) -> list[str]:
    """What a source imports from the package that is not public."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] == "pytest_nfvperf" and a.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pytest_nfvperf":
            for alias in node.names:
                is_module = f"{node.module}.{alias.name}" in PUBLIC
                names = () if node.module not in PUBLIC else ("*", *names_of(node.module))
                if not is_module and alias.name not in names:
                    found.append(f"{node.module}.{alias.name}")
    return found


def test_the_page_lists_what_the_stubs_have():
    now = PAGE.read_text(encoding="utf-8")

    assert public_names.page(now) == now, "write it anew: python -m tests.public_names"
    assert "|  |" not in now, "each name says in one line what it is"


def test_the_names_are_few_and_each_is_in_one_namespace():
    listed = [public.name for public in public_names.public_names()]

    assert [name for name, times in Counter(listed).items() if times > 1] == []
    assert 0 < len(listed) <= MOST_NAMES
    assert set(listed) == set().union(*(names_of(module) for module in PUBLIC))


@pytest.mark.parametrize("module", PUBLIC)
def test_every_name_resolves_and_is_shown(module):
    imported = importlib.import_module(module)

    for name in imported.__all__:
        assert getattr(imported, name) is not None
    assert set(imported.__all__) <= set(dir(imported))


@pytest.mark.parametrize(("module", "name"), GONE)
def test_a_name_that_is_gone_says_what_to_write(module, name):
    assert name not in importlib.import_module(module).__all__
    with pytest.raises(ImportError, match=f"{module}.{name} is gone: (write|inherit|return) "):
        getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_type_checkers_see_what_is_there_at_run_time(namespace):
    imported = importlib.import_module(package_of(namespace))
    typed = {one.name: one.module for one in public_names.public_names() if one.namespace == namespace}

    assert set(typed) == names_of(package_of(namespace))
    for name, module in typed.items():
        assert getattr(imported, name) is getattr(importlib.import_module(module), name)


def types_in(hint):
    """The package's own classes in an annotation."""
    inner = [found for part in typing.get_args(hint) for found in types_in(part)]
    own = isinstance(hint, type) and hint.__module__.startswith("pytest_nfvperf.")
    return [*inner, hint] if own else inner


HANDED_OVER = ("Testbed", "TrafficMix")
"""What a class of others returns as it was given: nobody makes it anew."""


def is_protocol(one):
    return getattr(one, "_is_protocol", False)


def made_by_others(returned):
    """Classes that a method returns, and those without which they cannot be made; a protocol needs no import."""
    if is_protocol(returned):
        return set()
    if returned.__name__ in HANDED_OVER:
        return {returned}
    hints = typing.get_type_hints(returned) if dataclasses.is_dataclass(returned) else {}
    needed = [
        field.name
        for field in (dataclasses.fields(returned) if hints else ())
        if field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and type(None) not in typing.get_args(hints[field.name])
    ]
    inner = {found for name in needed for one in types_in(hints[name]) for found in made_by_others(one)}
    return {returned} | inner


@pytest.mark.parametrize("name", sorted(names_of("pytest_nfvperf.extend")))
def test_what_a_class_of_others_returns_can_be_made_of_public_names(name):
    public = {name for module in PUBLIC for name in names_of(module)}
    described = getattr(importlib.import_module("pytest_nfvperf.extend"), name)
    if not is_protocol(described):
        return
    members = [one.fget if isinstance(one, property) else one for one in vars(described).values()]
    hints = [typing.get_type_hints(one).get("return") for one in members if isinstance(one, types.FunctionType)]

    returned = {found for hint in hints for one in types_in(hint) for found in made_by_others(one)}
    assert {one.__name__ for one in returned} <= public


def test_a_wrong_name_is_said():
    with pytest.raises(AttributeError, match="No pytest_nfvperf attribute Trafic"):
        importlib.import_module("pytest_nfvperf").Trafic  # noqa: B018


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_suites_and_examples_use_the_public_api_only(path):
    assert not foreign(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: str(path.relative_to(ROOT)))
def test_fixtures_use_the_public_api_and_what_makes_them(path):
    assert set(foreign(path.read_text(encoding="utf-8"))) <= MAKERS_OF_FIXTURES


def test_the_fixtures_need_all_that_they_may_use():
    used = {one for path in FIXTURES for one in foreign(path.read_text(encoding="utf-8"))}

    assert used == MAKERS_OF_FIXTURES


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_use_the_public_api_only(page):
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        assert not foreign(match[1])


def test_the_walk_would_see_a_private_import():
    assert foreign("from pytest_nfvperf.measure.rig import Rig") == ["pytest_nfvperf.measure.rig.Rig"]
    assert foreign("import pytest_nfvperf.measure.rig") == ["pytest_nfvperf.measure.rig"]
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
    assert not {"pytest", "scapy", "pyroute2", "pydantic", "vl_convert"} & set(said)
    assert not [name for name in said if name.startswith(("pytest_nfvperf.adapters", "pytest_nfvperf.measure"))]


def test_the_list_of_fixture_modules_is_complete():
    listed_modules = importlib.import_module("pytest_nfvperf.fixtures.all").pytest_plugins
    there = {f"pytest_nfvperf.fixtures.{path.stem}" for path in (ROOT / "fixtures").glob("*.py")}

    assert set(listed_modules) == there - {"pytest_nfvperf.fixtures.all"}
