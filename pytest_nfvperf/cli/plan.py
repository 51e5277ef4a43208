"""``nfvperf plan``: pytest with --nfv-plan."""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def plan(pytest_arguments: Sequence[str]) -> int:
    """List the trials of a run; returns pytest's exit status."""
    return int(pytest.main(["--nfv-plan", *pytest_arguments]))
