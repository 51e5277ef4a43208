"""The wire keeps to what every datapath does."""

from __future__ import annotations

from acme_datapath.wire import WireMaker

from pytest_nfvperf.testing import DatapathContract


class TestWire(DatapathContract):
    """All tests are inherited."""

    maker = WireMaker()
