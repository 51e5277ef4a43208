"""The pytest plugin: which datapaths this package makes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from acme_datapath.wire import KIND, WireMaker
from pytest_nfvperf.extend import DatapathMaker


@pytest.hookimpl
def pytest_nfvperf_datapaths(config: pytest.Config) -> Mapping[str, DatapathMaker]:
    """By the kind that tests ask for: ``Dut("acme:wire")``."""
    return {KIND: WireMaker()}
