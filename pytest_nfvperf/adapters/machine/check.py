"""The result of one of doctor's checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pytest_nfvperf.features import Point
from pytest_nfvperf.model.testbed.testbed import Testbed


class CheckState(StrEnum):
    """How a check ended. WARN: it works, with a limit that the check names."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"


Finding = tuple[CheckState, str, str]
"""A check's state, what was seen, and advice."""


@dataclass(frozen=True, slots=True)
class Check:
    """``needed``: the testbed cannot run without it."""

    name: str
    state: CheckState
    seen: str
    advice: str = ""
    needed: bool = False


FEATURE_CHECKS = Point[Callable[[Testbed | None], list[Check]]]("checks")
"""Checks of what features need of this machine, and of a testbed if there is one."""
