"""Allure's own HTML, where its tool is at hand. ``report.html`` needs none of it.

Allure 3 is the npm package ``allure`` (Node only); Allure 2 is ``allure-commandline`` (wants Java).
Both install a command ``allure`` with ``generate``; only the options differ.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.adapters.report.allure_files import CATEGORIES
from pytest_nfvperf.model.errors import NfvperfError

INSTALL_HINT = "npm install -g allure (Allure 3, needs Node only), then run this again"
_TIMEOUT_S = 300.0


class AllureMissingError(NfvperfError):
    """Allure's tool is not installed. The message says how to get it."""


@dataclass(frozen=True, slots=True)
class AllureTool:
    """A command that renders, and its version such as "3.0.1"."""

    command: tuple[str, ...]
    version: str

    @property
    def major(self) -> int:
        """2 or 3: they differ in their options."""
        head = self.version.split(".")[0]
        return int(head) if head.isdigit() else 2


def find_allure() -> AllureTool | None:
    """The tool on PATH, else one that npx has already and can run offline; None without either."""
    candidates = (("allure",), ("npx", "--offline", "--no-install", "allure"))
    for command in candidates:
        if shutil.which(command[0]) is None:
            continue
        done = _run([*command, "--version"], timeout_s=60.0)
        if done.returncode == 0 and done.stdout.strip():
            return AllureTool(command, done.stdout.strip().splitlines()[-1])
    return None


def render_allure(results: Path, out_dir: Path) -> Path:
    """Render an ``--alluredir`` into ``out_dir``; returns its index.html.

    Raises:
        AllureMissingError: the tool is not there; says how to install it.
        NfvperfError: the tool failed; carries its own words.
    """
    tool = find_allure()
    if tool is None:
        raise AllureMissingError(
            f"Allure's own HTML needs its command, which is neither on PATH nor known to npx: {INSTALL_HINT}"
        )
    with tempfile.TemporaryDirectory() as scratch:
        options = _options_3(Path(scratch)) if tool.major >= 3 else ["--clean"]
        command = [*tool.command, "generate", str(results.absolute()), *options, "--output", str(out_dir.absolute())]
        done = _run(command, timeout_s=_TIMEOUT_S)
    index = out_dir / "index.html"
    if done.returncode != 0 or not index.is_file():
        said = (done.stderr or done.stdout).strip()
        raise NfvperfError(f"allure {tool.version} made no report of {results} (exit status {done.returncode}): {said}")
    return index


def _options_3(scratch: Path) -> list[str]:
    """Allure 3 reads categories from its configuration, not from the results as Allure 2 does."""
    config = scratch / "allurerc.json"
    categories = json.loads(CATEGORIES.read_text(encoding="utf-8"))
    config.write_text(json.dumps({"name": "Datapath acceptance", "categories": categories}), encoding="utf-8")
    return ["--config", str(config)]


def _run(command: list[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"NO_COLOR": "1"},
    )
