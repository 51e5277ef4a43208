"""The wire keeps to what every datapath does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from acme_datapath.wire import WireMaker

from pytest_nfvperf.extend import Datapath
from pytest_nfvperf.testing import DatapathContract, running_datapath


class TestWire(DatapathContract):
    """All tests are inherited."""

    @pytest.fixture
    def datapath(self) -> Iterator[Datapath]:
        """Closed after each test; what it leaves then is an error."""
        with running_datapath(WireMaker()) as wire:
            yield wire
