"""What the documents tell people to type, typed: on a simulated DUT, or as a plan where it needs a lab."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from user_project import make_traffic_files

from pytest_nfvperf.cli import first_project
from tests.documents import PAGES, ROOT, blocks, commands

pytestmark = pytest.mark.thorough("a run of pytest for each command; whoever changes a command runs this file")
TUTORIAL = ROOT / "docs/tutorial"
LAB = TUTORIAL / "a-lab.md"
NEEDED = {"--nfv-ovs": "a version of OVS that was added", "rack": "a lab's file", "cx6=": "a lab's file"}
NEEDED |= {"--nfv-resume": "a run that was killed", "--nfv-virtual-time": "a guest"}
NEEDED |= {"connectx-6.yaml": "the reader's own datasheet"}
"""Words of a command that name what nobody has here, and what that is."""


ON_RESULTS = "show|history|site|datasheet"


def shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}", "COLUMNS": "120"}
    return subprocess.run(
        ["bash", "-c", command], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def only(page: str, *kinds: str, language: str = "") -> list[str]:
    return [block.code for block in blocks(*kinds, language=language, pages=[TUTORIAL / page])]


def test_the_tutorial_of_a_suite_goes_as_it_is_written(tmp_path: Path) -> None:
    """Steps: the files of the page, its plan, its mistake, its run on a simulated DUT, and the first lines of a gate.

    Verify: each answers as the page shows.
    """
    page, gate = "your-own-suite.md", "a-ci-gate.md"
    real, simulated = only(page, "conftest")
    suite = tmp_path / "suites/acme"
    suite.mkdir(parents=True)
    (tmp_path / "conftest.py").write_text(real)
    (suite / "test_acme.py").write_text(only(page, "suite")[0])
    (sla,) = only(page, "sla")
    (suite / "sla.yaml").write_text(sla)
    plan, measure = only(page, language="bash")
    planned, slip, failed = only(page, language="text")

    done = shell(plan, tmp_path)
    assert done.returncode == 0, done.stdout
    # How long a trial waits for its last frames, and so the sum, is known with a testbed.
    shape = re.sub(r"\d+(\\\.\d+)?", r"[\\d.]+", re.escape(planned.strip()).replace(r"\.\.\.", ".*"))
    assert re.search(shape, done.stdout), done.stdout
    (suite / "sla.yaml").write_text(sla.replace("ndr:", "nrd:"))
    done = shell(plan, tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert slip.partition("...")[0].strip() in done.stderr.replace(str(tmp_path), "/root/acme")

    (suite / "sla.yaml").write_text(sla)
    (tmp_path / "conftest.py").write_text(simulated)
    first, *_, again = only(gate, language="bash")  # between them: a gate for a tree of Open vSwitch
    told = shell(first, tmp_path).stdout
    assert "exit status 1" in told
    assert (tmp_path / "junit.xml").is_file()
    table = failed.partition("\n\n")[2]
    assert table in told, told
    done = shell(again, tmp_path)
    assert (done.returncode, "Failed" in done.stdout) == (1, True)
    for command in measure.splitlines():
        assert shell(command, tmp_path).returncode == 1


def test_commands_on_the_results_of_a_run_go_as_they_are_written(tmp_path: Path) -> None:
    """Steps: an accepted run of the tutorial's suite, then each command on ``reports/latest`` and on a history.

    Verify: the exit status. Names of runs that only their author has are left out.
    """
    page, suite = "your-own-suite.md", tmp_path / "suites/acme"
    suite.mkdir(parents=True)
    (tmp_path / "conftest.py").write_text(only(page, "conftest")[1].replace("3.8e6", "4.8e6"))
    (suite / "test_acme.py").write_text(only(page, "suite")[0])
    (suite / "sla.yaml").write_text(only(page, "sla")[0])
    assert shell("pytest suites/acme", tmp_path).returncode == 0
    lines = [line for block in blocks(language="bash") for line in block.code.splitlines()]
    known = [
        line for line in lines if re.match(f"nfvperf ({ON_RESULTS}) ", line) and not re.search(r"\d{8}-\d{6}", line)
    ]
    assert {line.split()[1] for line in known} == set(ON_RESULTS.split("|"))
    for line in dict.fromkeys(known):
        done = shell(f"HOME={tmp_path}; {line}", tmp_path)
        too_few = 10 if "history check" in line else 0  # a history of one run cannot tell, as the pages say
        assert done.returncode == too_few, f"{line}: {done.stdout}{done.stderr}"


def pytest_commands() -> Iterator[object]:
    """Of README, tutorials and recipes: each command that runs pytest in a folder of suites, once."""
    seen: set[str] = set()
    pages = [page for page in PAGES if page.name == "README.md" or page.parent.name in {"docs", "tutorial", "how-to"}]
    for block in blocks(language="bash", pages=pages):
        for words in commands(block.code):
            typed = shlex.join(words)
            needed = [why for word, why in NEEDED.items() if word in typed]
            if words[0] == "pytest" and len(words) > 1 and "acme" not in typed and not needed and typed not in seen:
                seen.add(typed)
                yield pytest.param(typed, id=f"{block.location} {typed}")


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suites as ``nfvperf suites --copy`` gives them, with the files that the pages write."""
    directory = tmp_path_factory.mktemp("acceptance")
    first_project.copy_suites(directory)
    (lab,) = (block.code for block in blocks("testbed", pages=[LAB]))
    (vendor,) = (block.code for block in blocks("sla", pages=[LAB]))
    (directory / "lab.yaml").write_text(lab)
    (directory / "vendor.yaml").write_text(vendor)
    make_traffic_files(directory)
    traffics = blocks("traffic", pages=[ROOT / "docs/how-to/your-own-traffic.md"])
    (directory / "gtpu.yaml").write_text(next(block.code for block in traffics if "GTP_U" in block.code))
    return directory


@pytest.mark.parametrize("typed", list(pytest_commands()))
def test_a_command_for_pytest_can_be_planned(typed: str, copied: Path) -> None:
    """A plan reads all that the command names, and executes each test that it selects."""
    done = shell(f"{typed} --nfv-plan -p no:cacheprovider", copied)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ tests?\b.*, [\d,]+ trials", done.stdout, re.MULTILINE), done.stdout
