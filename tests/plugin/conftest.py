"""Runs pytest in pytest, with the plugin as a user has it."""

from __future__ import annotations

import pytest
from user_project import make_project


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A user's project with one suite in it."""
    return make_project(pytester)
