"""``nfvperf ovs`` for the datapath of a third party: its plugin gives its versions, or none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).parents[2] / "docs/examples/acme_datapath"
WITHOUT = """
from pytest_nfvperf.extend import DatapathMaker

class Maker(DatapathMaker):
    def start(self, workshop):
        raise NotImplementedError

def pytest_nfvperf_datapaths(config):
    return {"acme:none": Maker()}
"""


def _ovs(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(directory / "cache"),
        "PYTHONPATH": str(TEMPLATE),
        "PYTEST_PLUGINS": "acme_datapath.plugin",
    }
    command = [sys.executable, "-m", "pytest_nfvperf.cli.main", "ovs", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def test_a_version_of_a_plugins_datapath_is_kept_and_listed(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two/forward.py").write_text('VERSION = "2.0"\n')
    added = _ovs(tmp_path, "add", "two", "--datapath", "acme:wire")
    assert added.returncode == 0, added.stderr
    assert added.stdout.startswith(f"added two: acme:wire 2.0, from prefix, in {tmp_path}/two, sha256 ")
    assert _ovs(tmp_path, "list").stdout.startswith("two: acme:wire 2.0, ")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("acme:none", "the datapath 'acme:none' has no versions: its plugin gives none"),
        ("acme:nobody", "the datapath 'acme:nobody' has no versions: no plugin makes it"),
        ("linux-bridge", "the datapath 'linux-bridge' has no versions"),
        ("acme:wire", f"'{Path('/').resolve()}' holds no acme:wire"),
    ],
)
def test_a_datapath_without_this_version_says_so(tmp_path: Path, kind: str, reason: str) -> None:
    (tmp_path / "conftest.py").write_text(WITHOUT)
    refused = _ovs(tmp_path, "add", "/", "--name", "x", "--datapath", kind)
    assert refused.returncode != 0
    assert reason in refused.stderr
    assert "Traceback" not in refused.stderr
