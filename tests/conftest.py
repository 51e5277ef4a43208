"""Fixtures of tests that make things on the machine, and of those that run pytest in pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from pytest_nfvperf.adapters.journal.journal import Journal
from pytest_nfvperf.adapters.ovs.ovs_datapath import OvsDatapath
from tests.functional.ovs_support import clean_run, started

settings.register_profile("shared machine", deadline=None)  # what an example takes is not what such a test asks
settings.load_profile("shared machine")


@pytest.fixture(scope="module")
def journal() -> Iterator[Journal]:
    """Of a run that all tests of a file share, and that leaves nothing."""
    with clean_run() as made:
        yield made


@pytest.fixture(scope="module")
def ovs(journal: Journal) -> Iterator[OvsDatapath]:
    """A private OVS in userspace, without DPDK, that all tests of a file share."""
    with started(journal, "netdev") as running:
        yield running


@pytest.fixture
def pytester(pytester: pytest.Pytester) -> pytest.Pytester:
    """Its runs do without hypothesis' plugin, which takes 0.9 s of each: it imports all of hypothesis for the summary.

    Runs that are started as processes of their own (of stops, of the wheel) have it, as a user's may.
    """
    pytester.plugins.append("no:hypothesispytest")
    return pytester
