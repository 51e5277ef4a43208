"""Runs pytest in pytest, with the plugin as a user has it."""

from __future__ import annotations

import numpy  # noqa: F401 - loads once a process: pytester forgets what was first imported within a run of its own
import pytest
import vl_convert  # noqa: F401 - likewise
from user_project import make_project


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A user's project with one suite in it."""
    return make_project(pytester)
