"""One thing that doctor looked at."""

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


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked. ``needed``: the testbed cannot run without it."""

    name: str
    state: CheckState
    seen: str
    advice: str = ""
    needed: bool = False


FEATURE_CHECKS = Point[Callable[[Testbed | None], list[Check]]]("checks")
"""What features need of this machine, and of a testbed where one is given."""
