"""The parts of pytest's node ids."""

from __future__ import annotations


def split_node_id(node_id: str) -> tuple[str, list[str], str]:
    """Path, classes and name of ``a/test_b.py::TestC::test_d[fd00::1]``; no name where it is a file's alone.

    The name keeps its parameters, which may have colons of their own.
    """
    path, _, inside = node_id.partition("::")
    names, bracket, parameters = inside.partition("[")
    *classes, name = names.split("::")
    return path, classes, name + bracket + parameters


def module_of(path: str) -> str:
    """``a.test_b`` of ``a/test_b.py``."""
    return path.removesuffix(".py").replace("/", ".")
