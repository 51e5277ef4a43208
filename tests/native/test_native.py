"""The C program's own unit tests, plain and under AddressSanitizer and UBSan."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.embedded.build import _tool, compile_in


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, marks=pytest.mark.thorough("make test has them sanitized")), True],
    ids=["plain", "sanitized"],
)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_in(tmp_path_factory.mktemp("native") / "build", sanitize=request.param)


def test_unit_tests_pass(built: Path) -> None:
    done = subprocess.run(
        [_tool("meson"), "test", "-C", str(built), "--no-rebuild"], capture_output=True, text=True, check=False
    )
    log = (built / "meson-logs" / "testlog.txt").read_text()
    assert done.returncode == 0, f"{done.stdout}\n{log}"
    results = [json.loads(line) for line in (built / "meson-logs" / "testlog.json").read_text().splitlines()]
    names = {
        "answer",
        "driver",
        "fields",
        "hist",
        "pacer",
        "permute",
        "seq",
        "signature",
        "template",
    }
    names |= {"fields_plain", "template_plain"}
    names |= {"vhost_user", "vhost_user_avx2", "vhost_user_plain", "fuzz_vhost_user"}
    assert {result["name"] for result in results} == names
    assert {result["result"] for result in results} == {"OK"}


def test_compiles_without_a_warning(built: Path) -> None:
    options = json.loads((built / "meson-info" / "intro-buildoptions.json").read_text())
    assert {option["name"]: option["value"] for option in options}["werror"] is True
