"""The house stays small enough for a stranger: lines, files, folders, public names, names with one meaning."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.house import PACKAGE, Figure, figures, trees


@pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.what)
def test_the_house_stays_small(figure: Figure):
    assert figure.value <= figure.limit, "\n".join((str(figure), *figure.names))


@pytest.mark.parametrize("folder", ["suites", "tests"])
def test_each_file_of_tests_has_a_name_of_its_own(folder: str):
    """Pytest imports them by name: of two in one run it refuses the second."""
    names = Counter(path.name for path in (PACKAGE.parent / folder).rglob("test_*.py"))
    assert [name for name, files in names.items() if files > 1] == []


BOUNDS = {
    *("generator_limited", "slowed", "refuted_fps", "repeated_ends", "by_rule", "at_most", "at_least", "unlimited"),
    *("least_lost", "lower_bound", "upper_bound", "bound_reason"),
}
"""Words by which what is only a bound was once told; a Figure has low, high and why."""
WHO_MAKES_THEM = (
    *("measure/", "model/disturbance/", "model/measure/bounds.py"),
    "adapters/evidence/older.py",
)
OTHER_MEANINGS = {
    ("model/metrics.py", "slowed"),  # whether a slow machine makes a metric a bound
    ("model/measure/cpu_account.py", "slowed"),
    ("model/measure/cpu_account.py", "at_least"),  # of a datapath: why its nodes' rates are bounds
    ("model/testbed/testbed.py", "at_least"),
    ("adapters/ovs/nodes_datapath.py", "at_least"),
    ("features/routing/convergence.py", "at_least"),  # an argument of suites
    ("features/history/series.py", "bound_reason"),  # a key of history files
    ("adapters/report/summary_table.py", "at_least"),
    ("plugin/selection.py", "by_rule"),
}


def _names(tree: ast.Module) -> set[str]:
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg | ast.keyword) and node.arg}


def test_bounds_are_made_where_they_are_measured_and_read_as_figures():
    read = {str(path.relative_to(PACKAGE)): _names(tree) & BOUNDS for path, tree in trees().items()}
    used = {(path, name) for path, names in read.items() if not path.startswith(WHO_MAKES_THEM) for name in names}
    assert used == OTHER_MEANINGS
