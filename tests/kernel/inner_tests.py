"""The project's own tests, run by a pytest in the guest; their results come back as JUnit's XML."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nfvperf.features.virtual_time.guest_run import SHARED, GuestRun
from pytest_nfvperf.model.errors import TestbedError

ROOT = Path(__file__).parents[2]
_JUNIT = "junit.xml"
_RAN = (0, 1)  # all passed, some failed (pytest's exit codes); with others it did not run them all
_EMPTY_SECTION = re.compile(r"(-+ Captured \w+ -+)?")


@dataclass(frozen=True, slots=True)
class InnerTest:
    """A test that ran in the guest. ``outcome``: "passed", "failed", "error" or "skipped"; ``text``: why."""

    module: str
    name: str
    outcome: str
    seconds: float
    text: str = ""

    @property
    def function(self) -> str:
        """Its name without parameters."""
        return self.name.partition("[")[0]

    def __str__(self) -> str:
        return f"{self.outcome} {self.name} ({self.seconds:.1f} s)" + (f"\n{self.text}" if self.text else "")


def pytest_command(*arguments: str) -> list[str]:
    """What runs these tests in the guest: by this Python, in this tree."""
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        f"--junitxml={SHARED / _JUNIT}",
    ]
    quiet = ["-o", "junit_logging=all", "-o", "junit_log_passing_tests=false"]
    return ["env", "-C", str(ROOT), *pytest, *quiet, *arguments]


def results(run: GuestRun) -> tuple[InnerTest, ...]:
    """Every test that ran.

    Raises:
        TestbedError: pytest in the guest did not run its tests to the end; with its output.
    """
    file = run.shared / _JUNIT
    if run.status not in _RAN or not file.exists():
        raise TestbedError(f"the tests in the guest did not run: {run}")
    cases = tuple(_case(element) for element in ET.parse(file).iter("testcase"))
    if not cases:
        raise TestbedError(f"no test ran in the guest: {run}")
    return cases


def _case(element: ET.Element) -> InnerTest:
    bad = next((child for child in element if child.tag in {"failure", "error", "skipped"}), None)
    outcome = "passed" if bad is None else {"failure": "failed"}.get(bad.tag, bad.tag)
    texts = [(child.text or child.get("message") or "").strip() for child in element]
    shown = "\n".join(text for text in texts if not _EMPTY_SECTION.fullmatch(text))
    return InnerTest(
        element.get("classname", ""), element.get("name", ""), outcome, float(element.get("time", "nan")), shown
    )


def check(cases: Sequence[InnerTest], module: str, function: str, never_skipped: str = "") -> None:
    """AssertionError when one of this test function's cases failed, or none passed; shows each with its output.

    Cases with ``never_skipped`` in their names must have passed, not only not failed: the guest's kernel has what
    they ask for, so to skip them, or to leave them out, would be a hole.
    """
    own = [case for case in cases if (case.module, case.function) == (module, function)]
    assert own, f"{function} did not run in the guest; these did: {', '.join(case.name for case in cases)}"
    shown = "\n".join(map(str, own))
    assert any(never_skipped in case.name for case in own), f"no case of {never_skipped} was selected in the guest"
    bad = [case for case in own if case.outcome in {"failed", "error"}]
    bad += [case for case in own if case.outcome == "skipped" and never_skipped in case.name]
    assert not bad, f"in the guest:\n{shown}"
    assert any(case.outcome == "passed" for case in own), f"none passed in the guest:\n{shown}"
