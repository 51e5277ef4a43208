"""Hooks that a conftest.py or another plugin can implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_nfvperf.backends.base import Backend
    from pytest_nfvperf.model.testbed.testbed import Testbed
    from pytest_nfvperf.ports.capture import Capture


@pytest.hookspec(firstresult=True)
def pytest_nfvperf_make_backend(config: pytest.Config, testbed: Testbed) -> Backend | None:
    """Make a testbed real in another way: a vendor's generator, a simulator.

    Return None to leave it to the next, at last to this project's own engines. Not called for --nfv-plan.
    """


@pytest.hookspec(firstresult=True)
def pytest_nfvperf_make_capture(config: pytest.Config, testbed: Testbed, output: str) -> Capture | None:
    """Receive the copies of a mirror in another way: on a lab, by a vendor's capture interface.

    ``output`` is the mirror's output port. Return None to leave it to the next, at last to a packet socket of the host.
    """
