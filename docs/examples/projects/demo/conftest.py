"""The fixtures that the suites use, and a simulated DUT: no packet is sent."""

import pytest

from pytest_nfvperf.testing import FakeGenerator, SimulatedBackend

pytest_plugins = ["pytest_nfvperf.fixtures.all"]
simulated = FakeGenerator(capacity_fps=4e6, noise=0.003)


def pytest_nfvperf_make_backend(config, testbed):
    return SimulatedBackend(testbed, lambda: simulated)


@pytest.fixture
def busy_machine():
    """Other programs take the generator's CPU: it sends every tenth frame of a trial too late to count."""
    simulated.invalid_every = 1
    yield
    simulated.invalid_every = None
