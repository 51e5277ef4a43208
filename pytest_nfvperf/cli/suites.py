"""``nfvperf suites``: the suites, their SLAs, published figures and documents that came with this installation."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest_nfvperf
from pytest_nfvperf.model.display import how_many
from pytest_nfvperf.model.errors import ConfigError

_PACKAGE = Path(pytest_nfvperf.__file__).parent
_FOLDERS = ("suites", "docs")
CONFTEST = '''"""The fixtures that the suites use."""

pytest_plugins = ["pytest_nfvperf.fixtures.all"]
'''
INI = """[pytest]
addopts = -ra
# What most people wait for comes first, what takes a minute by itself comes last.
nfv_suite_order =
    throughput/test_frame_sizes.py throughput chaining pods mirror tuning cost routing nic endurance
"""


def listing(package: Path = _PACKAGE) -> str:
    folder = package / "suites"
    lines = []
    for suite in sorted(path for path in folder.iterdir() if (path / "sla.yaml").is_file()):
        trees = [ast.parse(file.read_text(encoding="utf-8")) for file in suite.glob("test_*.py")]
        functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
        tests = how_many(sum(function.name.startswith("test_") for function in functions), "test")
        lines.append(f"{suite.name:<12} {', '.join([tests, *(file.name for file in sorted(suite.glob('*.yaml')))])}")
    return "\n".join(
        [
            f"The suites that came with nfvperf are in {folder}:",
            *(f"  {line}" for line in lines),
            "To run and change them, copy them with their SLAs, published figures and documents:",
            "  nfvperf suites --copy acceptance && cd acceptance && pytest suites/ --nfv-profile smoke",
        ]
    )


def copy(target: Path, package: Path = _PACKAGE) -> str:
    """Copy suites and documents, with the two files that pytest needs.

    Raises:
        ConfigError: a file exists already, or the directory cannot be written.
    """
    files = {"conftest.py": CONFTEST, "pytest.ini": INI}
    there = [name for name in (*_FOLDERS, *files) if (target / name).exists()]
    if there:
        raise ConfigError(f"{target} has {there[0]} already, and nothing is replaced: choose another directory")
    try:
        for name in _FOLDERS:
            shutil.copytree(package / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name, text in files.items():
            (target / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot copy the suites to {target}: {error}") from error
    return (
        f"copied to {target}: suites/ with an sla.yaml in each, docs/, conftest.py and pytest.ini\n"
        f"run: cd {target} && pytest suites/ --nfv-profile smoke"
    )
