"""Runs pytest in pytest, with the plugin as a user has it."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
pytest_plugins = [
    "pytest_nfvperf.fixtures.nfv",
    "pytest_nfvperf.fixtures.topologies",
    "pytest_nfvperf.fixtures.measuring",
]
"""

SUITE = '''
import pytest
from pytest_nfvperf.model.traffic import Traffic
from pytest_nfvperf.sweep import sweep

@sweep("frame_size", [64, 1518], quick={64})
def test_ndr_pdr(frame_size, phy2phy, search, sla):
    """Steps: search. Verify: the SLA."""
    sla.check(search.ndr_pdr(phy2phy, Traffic(frame_size=frame_size)))
'''


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A user's project with one suite in it."""
    pytester.makeconftest(CONFTEST)
    folder = pytester.mkdir("mine")
    (folder / "test_mine.py").write_text(SUITE)
    return pytester
