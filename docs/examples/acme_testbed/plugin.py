"""The plugin: gives its backend to nfvperf."""

from __future__ import annotations

import pytest

from acme_testbed.backend import AcmeBackend
from pytest_nfvperf import extend


def pytest_nfvperf_make_backend(config: pytest.Config, testbed: extend.Testbed) -> extend.Backend:
    """Every testbed is Acme's."""
    return AcmeBackend(testbed)
