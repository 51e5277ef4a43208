"""What is beside the core: the core imports no feature, and a feature imports only those that the table allows it.

Imports inside functions and under TYPE_CHECKING count, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module

from test_layers import PUBLIC, imports, sources

from pytest_nfvperf.features import FEATURES, PARTS

FOLDER = "pytest_nfvperf.features."

NOT_MOVED = {
    "allure": ("adapters.report.allure_", "plugin.allure_"),
    "bisect": (
        *("model.bisect", "ports.version_trials", "runs.bisecting", "adapters.bisecting", "adapters.report.bisection_"),
        *("cli.bisect", "cli.judge"),
    ),
    "export": ("adapters.evidence.export", "adapters.evidence.openmetrics", "cli.export"),
    "far": ("adapters.far", "backends.far_nodes"),
    "history": ("model.history", "adapters.history", "adapters.report.history_", "session.history", "cli.history"),
    "labgrid": ("adapters.labgrid",),
    "ovn": (
        *("model.routing.logical_network", "model.scenarios.ovn_path", "ports.ovn_daemons", "adapters.ovn"),
        *("adapters.doctor.ovn_needs", "session.ovn_topologies", "fixtures.ovn"),
    ),
    "profile": (
        *("model.measure.function_costs", "adapters.profiling", "adapters.report.flame_graph"),
        *("backends.function_profile", "session.profiling", "cli.profile"),
    ),
    "routing": (
        *("model.routing.bgp", "model.scenarios.bgp_path", "ports.bgp_", "adapters.routing", "runs.bgp_path"),
        *("runs.convergence", "session.bgp_paths", "session.daemons_result", "fixtures.routing"),
    ),
    "trex": ("adapters.generators.trex", "adapters.doctor.trex_needs", "backends.trex_side"),
    "versions": ("adapters.versions", "backends.verifying", "cli.ovs"),
    "virtual_time": (
        *("adapters.virtual_time", "plugin.virtual_time"),
        *("adapters.generators.embedded.counted_bursts", "backends.counting_generator", "backends.packet_socket_side"),
    ),
}
"""Modules of features, by the beginning of their names, that are not in the folder of their feature yet."""

NOT_TURNED: set[tuple[str, str]] = set()
"""Imports of features by the core that are still there."""


def feature_of(module: str) -> str | None:
    """None for a module of the core."""
    if module.startswith(FOLDER):
        return module.removeprefix(FOLDER).split(".")[0]
    name = module.removeprefix("pytest_nfvperf.")
    return next((feature for feature, beginnings in NOT_MOVED.items() if name.startswith(beginnings)), None)


def short(module: str) -> str:
    return module.removeprefix("pytest_nfvperf.")


def crossing() -> Iterator[tuple[str, str]]:
    """Imports of a feature's module from outside it. The public names are those of features, too, so they may."""
    for one in imports():
        imported = feature_of(one.imported) if one.imported in sources() else None
        if imported not in {None, feature_of(one.importer)} and short(one.importer) not in {"pytest_nfvperf", *PUBLIC}:
            yield one.importer, one.imported


def test_each_beginning_is_of_a_module():
    names = {short(module) for module in sources()}

    assert set(NOT_MOVED) <= set(FEATURES)
    for beginnings in NOT_MOVED.values():
        for beginning in beginnings:
            assert any(name.startswith(beginning) for name in names), beginning


def test_the_core_imports_no_feature():
    by_core = {(short(importer), short(imported)) for importer, imported in crossing() if feature_of(importer) is None}

    assert by_core == NOT_TURNED


def test_features_import_those_that_the_table_allows_them():
    others = {
        (feature, str(feature_of(imported)))
        for importer, imported in crossing()
        if (feature := feature_of(importer)) is not None
    }

    assert others == {(feature, other) for feature, allowed in FEATURES.items() for other in allowed}


def test_each_part_is_there_and_is_of_a_feature():
    for place in PARTS.values():
        module, _, name = place.partition(":")
        assert feature_of(module) in FEATURES, place
        assert hasattr(import_module(module), name), place


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
