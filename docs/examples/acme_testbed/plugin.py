"""The plugin: gives its backend to nfvperf."""

from __future__ import annotations

import pytest

import pytest_nfvperf as nfv
from acme_testbed.backend import AcmeBackend


def pytest_nfvperf_make_backend(config: pytest.Config, testbed: nfv.Testbed) -> nfv.Backend:
    """Every testbed is Acme's."""
    return AcmeBackend(testbed)
