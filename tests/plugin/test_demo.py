"""``nfvperf demo``: each verdict on a simulated DUT, for a user without rights, without any program on the PATH."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from user_project import ordinary_user

from pytest_nfvperf.adapters.report.run_facts import SIMULATED
from pytest_nfvperf.cli.main import main

EASIER = """
from pytest_nfvperf.cli import first_project
of = first_project.example
first_project.example = lambda name: {file: text.replace(">= 5 Mpps", ">= 3.5 Mpps") for file, text in of(name).items()}
"""
"""Of Python itself at its start: nothing of the demo fails."""
SHOWN = [("PASS", "test_throughput"), ("FAIL", "test_promised_rate"), ("INCONCLUSIVE", "test_busy_machine")]


def demo(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As an ordinary user where root can be one."""
    environment |= {"PATH": "/nowhere", "HOME": "/nowhere", "TMPDIR": str(home)}
    command = [*(ordinary_user() or ()), sys.executable, "-m", "pytest_nfvperf", "demo", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=home, env=environment, check=False)


def test_each_verdict_a_page_and_the_next_command(tmp_path):
    home = tmp_path / "a home"
    home.mkdir()

    done = demo(home, PYTEST_ADDOPTS="--nfv-plan")  # is not for the demo

    assert done.returncode == 0, done.stdout + done.stderr
    _, _, told = done.stdout.partition("(exit status 1)\n")
    assert re.findall(r"^  ([A-Z]+) +(\w+) ", told, re.MULTILINE) == SHOWN
    (run,) = home.glob("nfvperf-demo-*/reports/latest")
    assert f"{run}/report.html\n" in told
    assert f" report --open '{run}'\n" in told
    assert " init my-gate\n" in told
    page = (run / "report.html").read_text()
    assert SIMULATED in page
    assert re.search(r"FAIL +ndr >= 5 Mpps +3.95 Mpps", done.stdout)
    assert all("skipped_frames 6x" in text for text in (page, done.stdout))


def test_what_ended_otherwise_fails_the_demo(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(EASIER)

    done = demo(tmp_path, "here", PYTHONPATH=str(tmp_path))

    assert done.returncode == 1
    assert "'test_promised_rate': 'PASS'" in done.stderr.splitlines()[-1]
    again = demo(tmp_path, "here")
    assert (again.returncode, again.stdout) == (1, "")
    assert "here has conftest.py" in again.stderr


def test_without_a_temporary_directory_it_asks_for_one(monkeypatch, capsys):
    def refuse(prefix: str) -> str:
        raise FileNotFoundError(2, f"no usable temporary directory for {prefix}")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)

    assert main(["demo"]) == 1

    assert "name a directory, `nfvperf demo DIR`\n" in capsys.readouterr().err
