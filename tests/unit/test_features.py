"""What is beside the core: the core imports no feature, and a feature imports only those that the table allows it.

Imports inside functions and under TYPE_CHECKING count, too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from test_layers import PUBLIC, imports, sources

from pytest_nfvperf.features import PARTS

ROOT = Path(__file__).parents[2]
FEATURES: dict[str, tuple[str, ...]] = {
    "allure": (),
    "bisect": ("versions",),
    "export": ("history", "otlp"),
    "remote_nodes": (),
    "history": (),
    "otlp": (),
    "ovn": ("routing",),
    "profile": (),
    "routing": (),
    "trex": (),
    "versions": (),
    "virtual_lab": ("virtual_time",),
    "virtual_time": (),
}
"""The features, each with those that it may import."""
FOLDER, FIXTURES = "pytest_nfvperf.features.", "pytest_nfvperf.fixtures."


def feature_of(module: str) -> str | None:
    """None for a module of the core. Fixtures of a feature lie with all fixtures, and are called after it."""
    fixture = module.removeprefix(FIXTURES)
    if fixture in FEATURES:
        return fixture
    return module.removeprefix(FOLDER).split(".")[0] if module.startswith(FOLDER) else None


def short(module: str) -> str:
    return module.removeprefix("pytest_nfvperf.")


def crossing() -> Iterator[tuple[str, str]]:
    """Imports of a feature's module from outside it. The public names are those of features, too, so they may."""
    for one in imports():
        imported = feature_of(one.imported) if one.imported in sources() else None
        if imported not in {None, feature_of(one.importer)} and short(one.importer) not in {"pytest_nfvperf", *PUBLIC}:
            yield one.importer, one.imported


def test_the_core_imports_no_feature():
    by_core = {(short(importer), short(imported)) for importer, imported in crossing() if feature_of(importer) is None}

    assert not by_core


def test_features_import_those_that_the_table_allows_them():
    others = {
        (feature, str(feature_of(imported)))
        for importer, imported in crossing()
        if (feature := feature_of(importer)) is not None
    }

    assert others == {(feature, other) for feature, allowed in FEATURES.items() for other in allowed}


def test_each_part_is_there_and_is_of_a_feature():
    for target in PARTS.values():
        module, _, name = target.partition(":")
        assert feature_of(module) in FEATURES, target
        assert hasattr(import_module(module), name), target


def test_each_part_is_asked_for():
    """By a Point that a module of the core declares."""
    points = {
        node.args[0].value
        for module, path in sources().items()
        if feature_of(module) is None
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "Point"
        if isinstance(node.args[0], ast.Constant)
    }

    assert points == {point for point, _ in PARTS}


def test_a_run_on_this_machine_alone_loads_no_feature():
    code = """
import sys
from pytest_nfvperf.backends.embedded_side import side_of
from pytest_nfvperf.backends.local import LocalBackend
from tests.sample_run import TESTBED
LocalBackend(TESTBED, side_of(TESTBED))
print([name for name in sys.modules if name.startswith("pytest_nfvperf.features.")])
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.returncode) == ("[]\n", 0), ended.stderr
