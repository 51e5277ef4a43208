"""``nfvperf plan``, and what else of this command is a run of pytest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def plan(pytest_arguments: Sequence[str]) -> int:
    """List the trials of a run; returns pytest's exit status."""
    return run_pytest(["--nfv-plan", *pytest_arguments])


_IMPORTED = ("-W", "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning")
"""This command has imported the plugin before pytest does. A project whose warnings are errors would stop at it."""


def run_pytest(arguments: Sequence[str]) -> int:
    """Run pytest in this process; returns its exit status."""
    return int(pytest.main([*_IMPORTED, *arguments]))
