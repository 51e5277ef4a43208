"""Fixtures of tests that make things on the machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_nfvperf.adapters.journal.journal import Journal
from tests.functional.ovs_support import clean_run


@pytest.fixture(scope="module")
def journal() -> Iterator[Journal]:
    """Of a run that all tests of a file share, and that leaves nothing."""
    with clean_run() as made:
        yield made
