"""Allure's own HTML: by whichever tool is there, and a plain word when none is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nfvperf.adapters.report.allure_html import AllureMissingError, find_allure, render_allure
from pytest_nfvperf.model.errors import NfvperfError

ALLURE = """#!/bin/sh
if [ "$1" = --version ]; then echo {version}; exit 0; fi
echo "$@" > "{log}"
while [ "$1" != --output ]; do shift; done
[ -d "{results}" ] || {{ echo "no results" >&2; exit 1; }}
mkdir -p "$2"; echo page > "$2/index.html"
"""


def install(place: Path, version: str, results: Path) -> Path:
    """An ``allure`` of this version; returns where it notes its arguments."""
    place.mkdir()
    log = place / "arguments"
    tool = place / "allure"
    tool.write_text(ALLURE.format(version=version, log=log, results=results))
    tool.chmod(0o755)
    return log


@pytest.mark.parametrize(("version", "clean"), [("2.34.0", True), ("3.18.0", False)])
def test_both_generations_are_called_in_their_own_way(
    version: str, clean: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    log = install(tmp_path / "bin", version, results)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert render_allure(results, tmp_path / "out").read_text() == "page\n"
    arguments = log.read_text().split()
    assert arguments[:2] == ["generate", str(results)]
    assert ("--clean" in arguments) is clean
    assert ("--config" in arguments) is not clean


def test_without_the_tool_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_allure() is None
    with pytest.raises(AllureMissingError, match="neither on PATH nor known to npx: npm install -g allure"):
        render_allure(tmp_path, tmp_path / "out")


def test_a_failing_tool_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "bin", "3.18.0", tmp_path / "absent")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(NfvperfError, match=r"allure 3\.18\.0 made no report of .* \(exit status 1\): no results"):
        render_allure(tmp_path / "absent", tmp_path / "out")
